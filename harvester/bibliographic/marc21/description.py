"""Title fields: 245, and 130, 210, 222, 240, 242, 243, 246, 247, 730, 740.

Also edition, publication, extent and series.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from harvester.bibliographic.codes import find_issn, is_identifier
from harvester.bibliographic.dates import MASKING_STOPS
from harvester.bibliographic.marc21.draft import MarcDraft
from harvester.bibliographic.marc21.fields import OpenField
from harvester.bibliographic.marc21.names import authority_ids, read_name
from harvester.bibliographic.punctuation import (
    clean,
    sentences,
    separator,
    unbracketed,
    unclosed,
    uniform_title,
    unmarked,
    without_article,
)
from harvester.bibliographic.record import Publication, Series, TitleVariant
from harvester.bibliographic.text import tidy

_VARIANTS: Final = {
    "130": "uniform", "210": "abbreviated", "222": "key", "240": "uniform", "242": "translated",
    "243": "collective", "246": "varying", "247": "former", "730": "related", "740": "analytical",
}  # fmt: skip
_PARTS: Final = "abfgklmnoprs"
_UNIFORM: Final = {"130", "240", "243", "730"}
_QUALIFIED: Final = {"210", "222"}
_ARTICLES: Final = {"130": 0, "222": 1, "240": 1, "242": 1, "243": 1, "730": 0, "740": 0}
"""The indicator of a field that counts the characters of leading articles."""
_LABELS: Final = {
    "0": "portion of title", "1": "parallel title", "2": "distinctive title", "3": "other title",
    "4": "cover title", "5": "added title page title", "6": "caption title", "7": "running title",
    "8": "spine title",
}  # fmt: skip
_FUNCTIONS: Final = {
    "0": "production", "1": "publication", "2": "distribution", "3": "manufacture", "4": "copyright",
}  # fmt: skip
_DIMENSIONS: Final = "c"
_PARALLEL: Final = re.compile(r"(?:^|\s)=\s+")


def take_title(found: OpenField, draft: MarcDraft) -> None:
    """Read field 245; a second one is reported as broken."""
    if found.linked:
        _take_linked(found, draft)
        return
    if draft.title:
        draft.broken("245", found.take_rest(), "a second title")
        return
    raw = found.raw("a")
    sorting = _sorting(found, draft, raw, found.indicators[1])
    parallel = any(code in "ahnp" and value.endswith("=") for code, value, _ in found.left)
    parts = [(code, clean(value)) for code, value in found.pairs("anp")]
    if not raw:  # an archival description
        parts[:0] = [("a", ", ".join(map(clean, found.take("kfg"))))]
    draft.title = sentences(value for _, value in parts)
    rest = [value for code, value in parts if code != "a"]
    draft.sorting = " ".join([sorting, *rest]) if raw else ""
    _read_remainder(found.take("b"), draft, parallel=parallel)
    draft.statement = _statement(found)
    _drop_link(found)


def _statement(found: OpenField) -> str:
    return " ; ".join(map(clean, found.take("c")))


def _read_remainder(values: Iterable[str], draft: MarcDraft, *, parallel: bool) -> None:
    """Read subfields b: other title information, parallel titles (after an equals sign), or both."""
    subtitles: list[str] = []
    for value in values:
        subtitle, *titles = _PARALLEL.split(f"= {value}" if parallel else value)
        parallel = value.endswith("=")
        subtitles.append(clean(subtitle))
        for title in filter(None, map(clean, titles)):
            draft.variants.append(TitleVariant(kind="varying", text=title, label=_LABELS["1"]))
    draft.subtitle = " : ".join(filter(None, subtitles))


def take_variant(found: OpenField, draft: MarcDraft) -> None:
    """Read another title."""
    if found.tag in _ARTICLES and not found.linked:
        _sorting(found, draft, found.raw("a"), found.indicators[_ARTICLES[found.tag]])
    introduction = clean(found.first("i")).rstrip(":")
    label = introduction or _LABELS.get(found.indicators[1], "") * (found.tag == "246")
    text = uniform_title(found.take(_PARTS)) if found.tag in _UNIFORM else _joined(found, _PARTS)
    draft.keep(found.written, " ".join(f"$0 {one}" for one in authority_ids(found)))
    if not text:
        rest = " ".join(filter(None, (f"$i {introduction}" if introduction else "", found.take_rest())))
        draft.broken(found.written, rest, "a title without subfield a")
    else:
        kind = "linked" if found.linked else _VARIANTS[found.tag]
        draft.variants.append(TitleVariant(kind=kind, text=text, label=label))
    _drop_link(found)


def _take_linked(found: OpenField, draft: MarcDraft) -> None:
    text = _joined(found, "abnp")
    if text:
        draft.variants.append(TitleVariant(kind="linked", text=text))
    draft.statement = " = ".join(filter(None, (draft.statement, _statement(found))))
    _drop_link(found)


def _drop_link(found: OpenField) -> None:
    """Drop subfield 6: the variant's kind already expresses the link between two scripts of a title."""
    if found.link:
        found.take("6")


def _joined(found: OpenField, codes: str) -> str:
    """Join title, remainder (or qualification in brackets) and parts with a catalogue's punctuation."""
    text = ""
    for code, value in found.pairs(codes):
        sign = separator(text) if code != "b" else " " if found.tag in _QUALIFIED else " : "
        text = f"{text}{sign if text else ''}{clean(value)}"
    return text


def _sorting(found: OpenField, draft: MarcDraft, raw: str, indicator: str) -> str:
    """Return the title without its leading article, given by marks or by the indicator."""
    marked = without_article(raw)
    if marked is not None:
        return tidy(marked)
    text = tidy(unmarked(raw))
    if not indicator.isdigit() or not indicator.isascii():
        fault = f"the indicator for nonfiling characters is {indicator!r}, not a digit"
        draft.broken(found.written, text, fault)
        return text
    count = int(indicator)
    if count == 0:
        return text
    if count >= len(text) or not _may_precede_a_word(text[count - 1]):
        draft.broken(found.written, text, f"the first {count} characters are not a leading article")
        return text
    return text[count:]


def _may_precede_a_word(sign: str) -> bool:
    """Return whether it is a blank, a punctuation mark, a symbol, or a modifier letter such as ayn."""
    kind = unicodedata.category(sign)
    return kind[0] in "ZPS" or kind == "Lm"


def take_edition(found: OpenField, draft: MarcDraft) -> None:
    """Read field 250."""
    text = " / ".join(clean(value) for value in found.take("ab"))
    if text:
        draft.editions.append(text)


def take_publication(found: OpenField, draft: MarcDraft) -> None:
    """Read field 260 or 264; each publisher belongs to the places before it."""
    function = "publication"
    if found.tag == "264":
        function = _FUNCTIONS.get(found.indicators[1], "")
        if not function:
            fault = f"indicator 2 is {found.indicators[1]!r}, not a function from 0 to 4"
            draft.broken(found.written, "", fault)
            function = "publication"
    draft.publications.extend(_statements(found, "abc", function))
    if found.tag == "260":
        draft.publications.extend(_statements(found, "efg", "manufacture"))


def take_extent(found: OpenField, draft: MarcDraft) -> None:
    """Read field 300, joined with ISBD punctuation."""
    text = ""
    for code, value in found.pairs("abcefg"):
        sign = {"b": " : ", "c": " ; ", "e": " + "}.get(code, " ")
        text = f"{text}{sign if text else ''}{clean(value, stop=code == _DIMENSIONS)}"
    if text:
        draft.extents.append(text)


def take_series(found: OpenField, draft: MarcDraft) -> None:
    """Read field 440, 490 or 830."""
    titles = [
        unclosed(unbracketed(clean(value))) for value in found.take("anps" if found.tag != "490" else "a")
    ]
    number = ", ".join(unclosed(clean(unbracketed(clean(value)))) for value in found.take("v"))
    issn = " ".join(_issn(value, draft, found) for value in found.take("x"))
    title = sentences(titles)
    if title or number or issn:
        draft.add_series(Series(title=title, number=number, issn=issn))
    if not title:
        draft.broken(found.written, found.take_rest(), "a series without a title")


def take_series_name(found: OpenField, draft: MarcDraft) -> None:
    """Read field 800, 810 or 811: a series entered under a name."""
    titles = [clean(value) for value in found.take("tp")]
    number = ", ".join(clean(value) for value in found.take("v"))
    issn = " ".join(_issn(value, draft, found) for value in found.take("x"))
    name = read_name(found, main=False)
    words = [name.name, name.titles, name.dates]
    whole = ", ".join(word for word in words if word)
    draft.add_series(Series(title=sentences([whole, *titles]), number=number, issn=issn))
    for value in (*name.roles, *name.authority_ids):
        draft.keep(found.written, value)


def _issn(value: str, draft: MarcDraft, found: OpenField) -> str:
    known = find_issn(value)
    if known is None or not known[1]:
        draft.broken(found.written, value, "this is not a valid ISSN")
        return clean(value)
    if value != known[0] and not is_identifier(clean(value)):
        draft.keep(found.written, f"$x {value}")
    return known[0]


def _statements(found: OpenField, codes: str, function: str) -> list[Publication]:
    """Return the statements in three repeatable subfields: place, name and date."""
    place_code, name_code = codes[0], codes[1]
    statements: list[Publication] = []
    places: list[str] = []
    names: list[str] = []
    dates: list[str] = []

    def close() -> None:
        if places or names or dates:
            statements.append(
                Publication(
                    place=" ; ".join(places),
                    publisher=" : ".join(names),
                    date=", ".join(dates),
                    function=function,
                    other_script=found.linked,
                )
            )
        places.clear()
        names.clear()
        dates.clear()

    for code, value in found.pairs(codes):
        if code == place_code and (names or dates):
            close()
        into = places if code == place_code else names if code == name_code else dates
        masking = into is dates and value.endswith(".") and MASKING_STOPS.search(value) is not None
        into.append(unclosed(clean(value, stop=not masking)))
    close()
    return statements
