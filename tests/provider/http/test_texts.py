"""The texts of the public pages: complete in each language, with its plural forms."""

import re
from collections.abc import Sequence

import pytest

from oai.languages import LANGUAGES
from provider.http.texts import texts_in

FOREIGN = sorted(set(LANGUAGES) - {"en"})


def keys(code: str) -> dict[str, object]:
    """The keys of a language's texts, with the names that are replaced in each."""
    found: dict[str, object] = {}
    for key, text in texts_in(code).texts.items():
        inside = text if isinstance(text, str) else text["other"]
        found[key] = (isinstance(text, str), sorted(re.findall(r"\{\w+\}", inside)))
    return found


@pytest.mark.parametrize("code", FOREIGN)
def test_all_languages_have_the_same_texts(code: str) -> None:
    assert keys(code) == keys("en")


@pytest.mark.parametrize("code", LANGUAGES)
def test_texts_with_numbers_have_all_plural_forms_of_the_language(code: str) -> None:
    t = texts_in(code)
    forms = [text for text in t.texts.values() if not isinstance(text, str)]
    assert forms
    assert all(set(one) == {*t.locale.plural_form.tags, "other"} for one in forms)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("en", ["1 capture", "2 captures", "5 captures", "1,000 captures"]),
        ("cs", ["1 archivní verze", "2 archivní verze", "5 archivních verzí", "1\xa0000 archivních verzí"]),
        ("sk", ["1 archívna verzia", "2 archívne verzie", "5 archívnych verzií",
                "1\xa0000 archívnych verzií"]),
    ],
)  # fmt: skip
def test_numbers_and_plurals_are_those_of_the_language(code: str, expected: Sequence[str]) -> None:
    assert [texts_in(code).count("captures", number) for number in (1, 2, 5, 1000)] == expected


def test_a_text_that_does_not_exist_is_an_error() -> None:
    t = texts_in("en")
    with pytest.raises(KeyError):
        t("no such text")
    with pytest.raises(KeyError, match="depends on a number"):
        t("captures")
    with pytest.raises(KeyError, match="does not depend"):
        t.count("search", 1)


def test_a_count_that_reached_its_limit_is_shown_as_more_than_the_limit() -> None:
    assert texts_in("cs").count("found", 1000, more=True) == "více než 1\xa0000 archivovaných webů"
