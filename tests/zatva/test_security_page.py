"""`docs/security.md` answers each requirement of ASVS 5.0.0, and the tests and files that it names exist."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

_ROOT = Path(__file__).parents[2]
_PAGE: Final = (_ROOT / "docs" / "security.md").read_text(encoding="utf-8")
_ROW: Final = re.compile(
    r"^\| ([\d.]+) \| ([12]) \| [^|]+ \| (met|not applicable|open) \| [^|]{4,} \|$", re.MULTILINE
)
_LEVELS: Final = (
    "22 1111122223 112222222223 222 123",
    "122 112 12223 23",
    "3 113 12223 11222233 11122333 3 22333",
    "12233 23333 22 1222",
    "2 112333 113 222",
    "122 111111112222 11223333 112233 22222333 2223 33 2222",
    "222 1111 22 11222 223 22",
    "1233 1123 133 23",
    "111 1222",
    "22 223 22223 1111122222233333 22222 22 222",
    "2233 22233 11233 1222 23 23 33",
    "12233 11 22223",
    "2333 222223 2233 1222233",
    "22 12223333 122",
    "12233 12233 1222222 3333",
    "2 22222 2222 222 2223",
    "23 22223333 22",
)
"""Levels of the requirements: a text for each chapter, a word for each section, a digit for each of them."""


def _requirements() -> dict[str, str]:
    """Number and level of the requirements of levels 1 and 2."""
    return {
        f"{chapter}.{section}.{number}": level
        for chapter, sections in enumerate(_LEVELS, start=1)
        for section, levels in enumerate(sections.split(), start=1)
        for number, level in enumerate(levels, start=1)
        if level != "3"
    }


def test_every_requirement_of_level_1_and_2_has_one_row_with_its_level() -> None:
    rows = [(number, level) for number, level, _state in _ROW.findall(_PAGE)]
    assert rows == list(_requirements().items())


def test_the_figures_above_the_tables_are_those_of_the_tables() -> None:
    states = Counter((state, level) for _number, level, state in _ROW.findall(_PAGE))
    for state in ("met", "not applicable", "open"):
        figures = rf"{state}: {states[state, '1']} \+ {states[state, '2']}\b"
        assert re.search(figures, _PAGE, re.IGNORECASE), figures


def test_every_test_that_the_page_names_exists() -> None:
    sources = [file.read_text(encoding="utf-8") for file in (_ROOT / "tests").rglob("test_*.py")]
    existing = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}
    named = set(re.findall(r"`(test_\w+)`", _PAGE))
    assert len(named) > 80
    assert named - existing == set()


def test_every_file_that_the_page_names_exists() -> None:
    lines = [line for line in _PAGE.splitlines() if "UNVERIFIED" not in line]
    files = set(re.findall(r"`((?:tests|web|provider|oai)/[\w/.]+)`", "\n".join(lines)))
    assert "tests/attacks/test_fuzzing.py" in files
    assert [file for file in files if not (_ROOT / file).exists()] == []
