"""The commands of an argument parser."""

import argparse
from collections.abc import Iterator


def commands_of(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the commands below a parser: their words, and the parser with their options and handler."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]  # noqa: SLF001
    if not groups or parser.get_default("handler"):
        yield name, parser
    for group in groups:
        for word, child in group.choices.items():
            yield from commands_of(f"{name} {word}", child)
