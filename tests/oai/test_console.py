"""The output of commands: numbers, tables, notes and errors."""

import json
import sys
from io import StringIO

import pytest

from oai.cli import write_error
from oai.console import Console, _aligned, counted


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 records"), (1, "1 record"), (2, "2 records"), (1234567, "1,234,567 records")]
)
def test_a_noun_is_singular_or_plural_by_its_number(number: int, words: str) -> None:
    assert counted(number, "record") == words


ROWS = [
    {
        "id": 7,
        "name": "A very long name of a library",
        "url": "https://library.example/" + "x" * 60,
        "count": 1200,
    }
]
COLUMNS = {"id": "ID", "name": "Name", "url": "Base URL", "count": "Records"}


def test_the_widest_columns_of_a_table_are_truncated_to_the_terminal_width() -> None:
    whole = _aligned(ROWS, COLUMNS)
    assert "x" * 60 in whole
    cut = _aligned(ROWS, COLUMNS, 80).splitlines()
    assert max(map(len, cut)) <= 80
    assert "A very long name of a library" in cut[1]
    assert "…" in cut[1]
    assert cut[1].endswith("1,200"), "numbers are never cut"
    narrow = _aligned(ROWS, COLUMNS, 10).splitlines()
    assert "A very long…" in narrow[1]


def test_control_characters_are_kept_only_in_json_output() -> None:
    outputs = [StringIO(), StringIO()]
    row = {"name": "a\x1b[31m\r\n\x9bb: \u202ec"}
    for output, as_json in zip(outputs, (False, True), strict=True):
        console = Console(as_json=as_json, out=output)
        console.table([row], {"name": "Name"}, empty="")
        console.facts(row)
        console.result(row, f"{row['name']}\td")
    cell, facts = r"a\x1b[31m\x0d\x0a\x9bb: \u202ec", "name: a\\x1b[31m\\x0d\n  \\x9bb: \\u202ec"
    assert outputs[0].getvalue() == f"Name\n{cell}\n{facts}\na\\x1b[31m\n\\x9bb: \\u202ec\td\n"
    lines = outputs[1].getvalue().splitlines()
    assert [json.loads(line) for line in lines] == [row, row, row]
    assert all(r"\u009bb: \u202ec" in line for line in lines), "it is escaped for terminals, too"


def test_control_characters_in_notes_and_errors_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    Console(err=sys.stderr).note("a\x9b31m\nb\x9d0;c\u2066")
    write_error("d\x9b31m\r\ne\x1b[m")
    assert capsys.readouterr().err == "a\\x9b31m\nb\\x9d0;c\\u2066\nd\\x9b31m\ne\\x1b[m\n"


def test_empty_columns_are_omitted_if_the_terminal_is_too_narrow() -> None:
    rows = [{"id": 1, "name": "x" * 30, "new": 0, "deleted": 5, "reason": None}]
    columns = {"id": "ID", "name": "Name", "new": "New", "deleted": "Deleted", "reason": "Reason"}
    assert _aligned(rows, columns, 80).splitlines()[0].split() == ["ID", "Name", "New", "Deleted", "Reason"]
    assert _aligned(rows, columns, 45).splitlines()[0].split() == ["ID", "Name", "Deleted"]
