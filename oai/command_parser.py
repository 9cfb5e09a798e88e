"""The parser of the command line: suggestions for mistyped words, examples, and an overview by purpose."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Self

_USAGE: Final = 2
_ROOM: Final = 80
_LARGEST_INTEGER: Final = 2**31 - 1
_LARGEST_BIGINT: Final = 2**63 - 1
_LARGEST_FLOAT: Final = 10**9
"""As seconds, more than thirty years."""


def number(kind: type[int] | type[float], least: int, most: int) -> Callable[[str], float]:
    """Return a type for arguments: a number of this kind from `least` to `most`."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = kind(least - 1)
        if not least <= value <= most:
            whole = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text[:_ROOM]!r} is not a {whole} from {least} to {most}")
        return value

    return read


count: Final = number(int, 1, _LARGEST_INTEGER)
"""The type of arguments that say how many, at least one."""
bigint: Final = number(int, 0, _LARGEST_BIGINT)
"""The type of arguments that are numbers of runs, records, changes and the like."""


def filled(text: str) -> str:
    """Return the text of an argument that may not be empty: as a path, it would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("may not be empty")
    return text


def name_or_number(text: str) -> str:
    """Return the text of an argument that names something; digits must be a number that a row can have."""
    if text.isdecimal():
        number(int, 0, _LARGEST_INTEGER)(text)
    return filled(text)


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors take two lines: what is wrong, and what to do.

    It takes its options when it is first used: of all commands' parsers, a process uses one, and making the
    others would take most of the time before the command begins.
    """

    examples: Sequence[str] = ()
    """Command lines shown at the end of the help."""
    purposes: Mapping[str, Sequence[str]] = {}
    """For an overview: headings with the names of their commands."""
    commands: "argparse._SubParsersAction[CommandParser] | None" = None
    """The parser's commands, if it is a group."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 as argparse declares it
        """Keep the options of `argparse.ArgumentParser` until the parser is used."""
        self.prog = options["prog"]
        self._waiting: list[Callable[[Self], object]] | None = []
        self._options = options

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 an attribute of any type
        """Complete the parser if it waits, and return the attribute that was missing until then."""
        waiting = self.__dict__.get("_waiting")
        if waiting is None:
            raise AttributeError(name)
        self._waiting = None
        super().__init__(**self._options)
        # argparse's own errors name Python functions, and its numbers have no bounds.
        self.register("type", int, number(int, 0, _LARGEST_INTEGER))
        self.register("type", float, number(float, 0, _LARGEST_FLOAT))
        self.register("type", Path, lambda text: Path(filled(text)))
        for add in waiting:
            add(self)
        return getattr(self, name)

    def when_used(self, add: Callable[[Self], object]) -> None:
        """Call the function with this parser before it is first used, or now if it has been used."""
        if self._waiting is None:
            add(self)
        else:
            self._waiting.append(add)

    def add_argument(self, *names: Any, **options: Any) -> Any:  # noqa: ANN401 as argparse declares it
        """Add an argument when the parser is used; so there is none to return."""
        self.when_used(lambda parser: argparse.ArgumentParser.add_argument(parser, *names, **options))

    def set_defaults(self, **values: Any) -> None:  # noqa: ANN401 as argparse declares it
        """Set defaults when the parser is used."""
        self.when_used(lambda parser: argparse.ArgumentParser.set_defaults(parser, **values))

    def add_subparsers(self, **options: Any) -> Any:  # noqa: ANN401 as argparse declares it
        """Add commands; without one of them, the group's help is shown."""
        self.set_defaults(shown=self)
        self.commands = super().add_subparsers(**options)
        return self.commands

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 as argparse declares it
        """Parse the arguments; what is unknown is an error of the command that it was given to."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            used: CommandParser = getattr(parsed, "used", self)
            used.refuse(next((word for word in unknown if word.startswith("-")), unknown[0]))
        return parsed

    def refuse(self, word: str) -> NoReturn:
        """End with an error that names the unknown word, and the option that is most like it."""
        options = [name for action in self._actions for name in action.option_strings]
        if word.partition("=")[0] in options:
            self.error(f"the option {word} must be after the command: `{self.prog} {word}`")
        kind = "option" if word.startswith("-") else "argument"
        self.error(f"unknown {kind} {word}{_like(word.partition('=')[0], options)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 whatever was parsed
        # argparse has no public hook for this; its own message lists all choices.
        if action is self.commands and value not in (action.choices or ()):
            raise argparse.ArgumentError(
                None, f"unknown command {value!r}{_like(value, action.choices or ())}"
            )
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help, and exit."""
        self.exit(_USAGE, f"zatva: {message}\nRun `{self.prog} --help` for help.\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the program, after a message on standard error if one is given."""
        _write_error(message or "")
        sys.exit(status)

    def print_overview(self) -> None:
        """Print the help on standard error: a command is missing."""
        _write_error(self.format_help())

    def format_help(self) -> str:
        """Return the help: of the whole program by purpose, otherwise argparse's, with the examples."""
        text = self._overview() if self.purposes else super().format_help()
        if self.examples:
            text += "\nexamples:\n" + "".join(f"  {example}\n" for example in self.examples)
        if self.purposes:
            text += f"\nRun `{self.prog} COMMAND --help` for more about a command.\n"
        return text

    def _overview(self) -> str:
        lines = [f"{self.description}", ""]
        choices = self.commands.choices if self.commands is not None else {}
        width = max(map(len, choices), default=0)
        for heading, names in self.purposes.items():
            lines.append(f"{heading}:")
            lines += [f"  {name:{width}}  {_short(choices[name].description, width)}" for name in names]
            lines.append("")
        return "\n".join(lines).rstrip() + "\n"


def _write_error(text: str) -> None:
    """Write to standard error, unless it is on a full disk: argparse of Python 3.11.2 fails then."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text)


def _short(description: str | None, width: int) -> str:
    """Return the description on one line of a terminal, without its full stop."""
    text, most = (description or "").rstrip("."), _ROOM - width - 4
    return text if len(text) <= most else f"{text[: most - 1].rsplit(' ', 1)[0]}…"


def _like(word: str, known: Any) -> str:  # noqa: ANN401 any iterable of texts
    import difflib  # noqa: PLC0415 only for a mistyped word

    found = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean `{found[0]}`?" if found else ""
