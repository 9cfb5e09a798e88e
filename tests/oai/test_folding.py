import unicodedata
from itertools import groupby
from typing import Literal

import pytest

from oai.folding import folded, normalised

ORDINARY = {
    "Vietnamese": "Nguyễn Ái Quốc ở Việt Nam",
    "decomposed Czech": "Příliš žluťoučký kůň",
    "Hebrew with points": "בְּרֵאשִׁ֖ית בָּרָ֣א אֱלֹהִ֑ים",
    "Arabic with harakat": "بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ ٱلرَّحِيمِ",
    "Thai": "น้ำใจที่ยิ่งใหญ่ก็ไม่รู้",
    "Tibetan": "བོད་ཀྱི་ཧཱུྃ་རྫོགས་ཆེན་ཨོཾ་མ་ཎི་པདྨེ་ཧཱུྃ",
    "Devanagari": "हिन्दी में क़ानून और ज़िन्दगी",
    "Korean": "한국어 도서관",
    "halfwidth Katakana": "ﾃﾞｰﾀﾍﾞｰｽ ﾌﾟﾛｸﾞﾗﾑ",
    "a table of contents": "Úvod " + ". " * 100 + "…" * 100 + " 7",
    "30 marks": "a" + "\u0323\u0301" * 15,
}
MANY = 100
HOSTILE = {
    "marks of two classes": "a" + "\u0301" * MANY + "\u0323" * MANY,
    "marks that alternate": "\u0301\u0323" * MANY,
    "marks of class 0 that decompose into others": "\u0f40" + "\u0f73" * MANY,
    "a mark that decomposes into two": "a" + "\u0344\u0323" * MANY,
    "voiced sound marks, which are letters": "a" + "\uff9e\u0301" * MANY,
    "enclosing marks between": "a" + ("\u0301" * 20 + "\u0323" * 20 + "\u20dd") * MANY,
}


def _longest_run(text: str) -> int:
    """Return the largest number of marks in a row that normalising sorts."""
    runs = groupby(unicodedata.normalize("NFKD", text), _is_sorted)
    return max(len(list(run)) for marks, run in runs if marks)


def _is_sorted(character: str) -> bool:
    return unicodedata.combining(character) > 0


@pytest.mark.parametrize("form", ["NFC", "NFKD"])
@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_texts_of_languages_are_normalised_as_by_unicode(form: Literal["NFC", "NFKD"], text: str) -> None:
    for given in (unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)):
        assert normalised(form, given) == unicodedata.normalize(form, given)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_marks_in_a_row_are_limited_and_none_is_lost(text: str) -> None:
    separated = normalised("NFKD", text)
    assert _longest_run(text) >= 40
    assert _longest_run(separated) <= 60
    assert sorted(separated.replace("\u034f", "")) == sorted(unicodedata.normalize("NFKD", text))


def test_many_marks_are_folded_away() -> None:
    assert folded("Z" + "\u0301\u0323" * MANY + "atva") == "zatva"


def test_no_letter_is_a_mark_except_those_of_halfwidth_katakana() -> None:
    """Only texts without letters are searched for too many marks."""
    marks = [
        character
        for character in map(chr, range(0x110000))
        if character.isalnum() and _is_sorted(unicodedata.normalize("NFKD", character)[0])
    ]
    assert marks == ["\uff9e", "\uff9f"]
