"""Texts that users read have the words of the field (CONTRIBUTING.md, "Words we use")."""

import pytest

from tests.measures import dialect_in, measures_of_words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the run is told to stop", ["is told"]),
        ("`--anew` converts all records again", []),
        ("convert them anew", ["anew"]),
        ("set aside", []),
        ("{# nobody reads this #} the job runs", []),
        ("CAST(:anew AS boolean) is true", []),
    ],
)
def test_the_dialect_is_recognised_only_in_prose(text: str, found: list[str]) -> None:
    assert dialect_in(text) == found


def test_texts_for_users_are_free_of_the_dialect() -> None:
    values = {measure.name: measure.value for measure in measures_of_words()}

    found = (values["words of the dialect in docs"], values["words of the dialect in strings and templates"])
    assert found == (0, 0), "python -m tests.measures; see CONTRIBUTING.md for the words"
