"""How commands word what they tell."""

import pytest

from oai.console import counted


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 records"), (1, "1 record"), (2, "2 records"), (1234567, "1,234,567 records")]
)
def test_a_number_has_its_noun_in_the_right_number(number: int, words: str) -> None:
    assert counted(number, "record") == words
