"""docs/architecture.md names what exists."""

import importlib
import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
_NAME = re.compile(r"`((?:oai|provider|harvester|manager|web|zatva)(?:\.\w+)+)`")


def _names() -> list[str]:
    return sorted(set(_NAME.findall(_PAGE.read_text(encoding="utf-8"))))


def test_the_page_names_modules_and_functions() -> None:
    assert len(_names()) > 60


@pytest.mark.parametrize("name", _names())
def test_each_module_and_function_named_on_the_page_exists(name: str) -> None:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            found = getattr(found, attribute)
        return
    pytest.fail(f"no module {name}")
