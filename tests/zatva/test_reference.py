"""The reference in docs/ tells every command, option, setting, table and route, as they are."""

import pytest

from tests.reference import FILES, FOLDER, ROOT
from zatva.init import example


@pytest.mark.parametrize("name", FILES)
def test_the_reference_is_what_the_program_says(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == FILES[name](), "bring it up to date: python -m tests.reference"


def test_the_example_settings_are_what_the_program_says() -> None:
    assert (ROOT / "zatva.example.toml").read_text(encoding="utf-8") == example()
