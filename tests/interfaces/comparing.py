"""Compares an interface with its frozen file, or freezes it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "frozen"


def compare(name: str, surface: Any, request: pytest.FixtureRequest) -> None:
    """Fail with all differences and their paths; with `--freeze` write the file instead."""
    path = FOLDER / f"{name}.json"
    text = json.dumps(surface, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if request.config.getoption("--freeze"):
        path.write_text(text, encoding="utf-8")
    found = list(differences(json.loads(path.read_text(encoding="utf-8")), json.loads(text), name))
    assert not found, (
        "an interface has changed. An addition is written down by `pytest tests/interfaces --freeze`;\n"
        "anything else needs a decision note and a migration:\n" + "\n".join(found)
    )


def differences(before: Any, after: Any, place: str) -> Iterator[str]:
    """Yield each difference with its path."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if key not in after:
                yield f"{place}.{key} is gone"
            elif key not in before:
                yield f"{place}.{key} is new"
            else:
                yield from differences(before[key], after[key], f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{place}.{number}")
    elif before != after:
        yield f"{place} was {before}, is {after}"
