"""The reference in docs/ lists every command, option, setting, table and route."""

import re

import pytest

from tests.reference import FILES, FOLDER, ROOT
from zatva.init import example


def _written(name: str) -> str:
    """Return a file of the reference; that it is up to date is tested once for each file."""
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_the_reference_is_up_to_date(name: str) -> None:
    assert _written(name) == FILES[name](), "bring it up to date: python -m tests.reference"


@pytest.mark.parametrize(
    "row",
    [
        "| `incremental` | boolean | `true` | True: only records that changed",
        "| `overlap` | text | `'skip'` | skip or queue: what to do",
        "| `validation` | smallint | `2` | 0 strict, 1 very strict, 2 loose. |",
        "| `time_zone` | text | `'UTC'` | Time zone of the frequency. |",
        "| `start_date` | datetime | `now()` | Earliest time to run.",
        "| `end_date` | datetime | | Latest time to run.",
        "| `state` | smallint | `0` | 0 new, 1 recurring,",
        "| `repository_id` | integer | | Row of `oai_repository`. |",
    ],
)
def test_the_reference_has_meaning_and_default_of_each_schedule_column(row: str) -> None:
    table = _written("tables.md").partition("## `oai_recurring_job`")[2].partition("\n## ")[0]
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
def test_the_reference_states_which_options_a_command_requires(command: str, line: str) -> None:
    section = _written("commands.md").partition(f"## `zatva {command}`\n")[2].partition("\n## ")[0]
    assert line in section.splitlines()


def test_the_example_settings_are_up_to_date() -> None:
    assert (ROOT / "zatva.example.toml").read_text(encoding="utf-8") == example()
