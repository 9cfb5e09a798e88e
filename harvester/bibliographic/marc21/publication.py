"""Fields of edition, publication, extent and series: 250, 260, 264, 300, 440, 490, 800-830."""

from typing import Final

from harvester.bibliographic.marc21.draft import Draft
from harvester.bibliographic.marc21.names import read_name
from harvester.bibliographic.marc21.reading import OpenField
from harvester.bibliographic.punctuation import clean, unbracketed
from harvester.bibliographic.record import Publication, Series
from harvester.bibliographic.standard_numbers import find_issn

_FUNCTIONS: Final = {
    "0": "production", "1": "publication", "2": "distribution", "3": "manufacture", "4": "copyright",
}  # fmt: skip
_SERIES_NAMES: Final = frozenset({"800", "810", "811"})


def take_edition(found: OpenField, draft: Draft) -> None:
    """Take field 250."""
    text = " / ".join(clean(value) for value in found.take("ab"))
    if text:
        draft.editions.append(text)


def take_publication(found: OpenField, draft: Draft) -> None:
    """Take field 260 or 264; each publisher goes with the places before it."""
    function = "publication"
    if found.tag == "264":
        function = _FUNCTIONS.get(found.indicators[1], "")
        if not function:
            fault = f"indicator 2 is {found.indicators[1]!r}, not a function from 0 to 4"
            draft.broken(found.written, "", fault)
            function = "publication"
    _add(draft, _statements(found, "abc", function))
    if found.tag == "260":
        _add(draft, _statements(found, "efg", "manufacture"))


def take_extent(found: OpenField, draft: Draft) -> None:
    """Take field 300, written as ISBD writes it."""
    text = ""
    for code, value in found.pairs("abcefg"):
        sign = {"b": " : ", "c": " ; ", "e": " + "}.get(code, " ")
        text = f"{text}{sign if text else ''}{clean(value)}"
    if text:
        draft.extents.append(text)


def take_series(found: OpenField, draft: Draft) -> None:
    """Take field 440, 490 or 830."""
    titles = [
        _unclosed(unbracketed(clean(value))) for value in found.take("anps" if found.tag != "490" else "a")
    ]
    number = ", ".join(clean(value.strip("() ")) for value in found.take("v"))
    issn = " ".join(_issn(value, draft, found) for value in found.take("x"))
    title = ". ".join(title.rstrip(".") for title in titles if title)
    if title or number or issn:
        draft.add_series(Series(title=title, number=number, issn=issn))
    if not title:
        draft.broken(found.written, found.rest(), "a series without a title")


def take_series_name(found: OpenField, draft: Draft) -> None:
    """Take field 800, 810 or 811: a series under somebody's name."""
    titles = [clean(value, stop=True) for value in found.take("tp")]
    number = ", ".join(clean(value) for value in found.take("v"))
    issn = " ".join(_issn(value, draft, found) for value in found.take("x"))
    name = read_name(found, main=False)
    words = [name.name, name.titles, name.dates]
    whole = ", ".join(word for word in words if word)
    draft.add_series(
        Series(
            title=". ".join(part.rstrip(".") for part in (whole, *titles) if part), number=number, issn=issn
        )
    )
    for value in (*name.roles, *name.authority_ids):
        draft.keep(found.written, value)


def _issn(value: str, draft: Draft, found: OpenField) -> str:
    known = find_issn(value)
    if known is None or not known[1]:
        draft.broken(found.written, value, "this is not a valid ISSN")
        return clean(value)
    return known[0]


def _statements(found: OpenField, codes: str, function: str) -> list[Publication]:
    """The statements that three subfields tell: place, name, date, each of which may come again."""
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
                )
            )
        places.clear()
        names.clear()
        dates.clear()

    for code, value in found.pairs(codes):
        if code == place_code and (names or dates):
            close()
        into = places if code == place_code else names if code == name_code else dates
        into.append(_unclosed(clean(value, stop=into is dates)))
    close()
    return statements


def _unclosed(text: str) -> str:
    """Without a bracket whose other half stands in another subfield, as in "(Praha" and "1998)"."""
    for first, second in ("()", "[]"):
        if text.count(first) != text.count(second):
            text = text.strip(first + second)
    return text


def _add(draft: Draft, statements: list[Publication]) -> None:
    for statement in statements:
        draft.publications.append(statement)
        if statement.date and not draft.date_text and statement.function in {"publication", "production"}:
            draft.date_text = statement.date
