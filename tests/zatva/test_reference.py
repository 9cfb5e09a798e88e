"""The reference in docs/ tells every command, option, setting, table and route, as they are."""

import re

import pytest

from tests.reference import FILES, FOLDER, ROOT
from zatva.init import example


@pytest.mark.parametrize("name", FILES)
def test_the_reference_is_what_the_program_says(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == FILES[name](), "bring it up to date: python -m tests.reference"


@pytest.mark.parametrize(
    "row",
    [
        "| `incremental` | boolean | `true` | |",
        "| `overlap` | text | `'skip'` | |",
        "| `validation` | smallint | `2` | |",
        "| `time_zone` | text | `'UTC'` | |",
        "| `frequency` | text | | may be empty |",
        "| `start_date` | datetime | `now()` | |",
    ],
)
def test_who_plans_by_sql_reads_the_default_of_each_column(row: str) -> None:
    table = FILES["tables.md"]().partition("## `oai_recurring_job`")[2].partition("\n## ")[0]
    assert row in re.sub(" +", " ", table)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("notify mute", "- `--note TEXT`: why, for others who see it (required)"),
        ("notify mute", "- `--maintenance`: and begin no harvest meanwhile"),
        ("provider find", "At most one of `--closest`, `--reverse` can be given."),
        (
            "provider hide",
            "Exactly one of `--arc`, `--url-prefix`, `--domain`, `IDENTIFIER|URL` can be given.",
        ),
    ],
)
def test_the_reference_says_what_a_command_requires(command: str, line: str) -> None:
    section = FILES["commands.md"]().partition(f"## `zatva {command}`\n")[2].partition("\n## ")[0]
    assert line in section.splitlines()


def test_the_example_settings_are_what_the_program_says() -> None:
    assert (ROOT / "zatva.example.toml").read_text(encoding="utf-8") == example()
