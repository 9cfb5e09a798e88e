"""Search among bibliographic records: query, restrictions and pages."""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.bibliographic.codes import CHECKED, checked_number, find_doi, is_identifier
from harvester.bibliographic.text import fold
from harvester.store import records as arrays
from oai.errors import UsageError

_PIECE: Final = re.compile(r'(?P<not>(?<!\S)-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')
_NUMBER: Final = re.compile(r"\b10\.\d{4,9}/\S+|(?:\b[Mm]-?)?[\dXx][\dXx\s\u2010-\u2015-]{6,16}[\dXx]")
"""A DOI, in which other numbers do not count, or the digits of an ISBN, ISMN or ISSN."""
_NAME_OF_NUMBER: Final = re.compile(r'(?<![\w"-])IS[BMS]N[:\s]*(?=\d|M-?\d)', re.IGNORECASE)
_HYPHENATED: Final = re.compile(r"\d+(?:-\d+)*-[\dX]+", re.IGNORECASE)
_ISBN_LENGTHS: Final = frozenset({10, 13})
_SPAN: Final = re.compile(r"(1\d{3}|20\d{2})[\s\u2010-\u2015-]+(1\d{3}|20\d{2})")
"""Two years; one span in eleven has the check digit of an ISSN."""
_OR: Final = frozenset({"or", "nebo", "alebo"})
_SHOWN_WORD: Final = re.compile("[^\\W_](?:[^\\W_]|[\u0300-\u036f'\u2019])*")
_WHOLE: Final = 2
"""Words up to this length are not searched as prefixes, because too many words begin with them."""
_LONG: Final = 5
_VOWELS: Final = frozenset("aeiouy")
_MOST: Final = 40
"""The number of terms of a query that are used; further ones are ignored."""
_MOST_HITS: Final = 1000


def full_text(query: str) -> str:
    """Return the query for `to_tsquery('simple', …)`; empty if it contains no word.

    >>> full_text('slovník "stará čeština" -latin')
    'slovnik:* & (stara <-> cestina) & !latin:*'
    """
    groups: list[list[str]] = [[]]
    for found in list(_PIECE.finditer(_with_numbers(query)))[:_MOST]:
        word = found["word"]
        if word is not None and word.lower() in _OR and not found["not"]:
            groups.append([])
            continue
        term = _phrase(found["phrase"] or "") if word is None else _word(word)
        if term:
            groups[-1].append(f"!{term}" if found["not"] else term)
    joined = [" & ".join(group) for group in groups if group]
    return joined[0] if len(joined) == 1 else " | ".join(f"({one})" for one in joined)


def _with_numbers(query: str) -> str:
    """Write each ISBN, ISMN and ISSN in the query as one word, without its name."""
    return _NUMBER.sub(lambda found: _number(found[0]), _NAME_OF_NUMBER.sub("", query))


def _number(text: str) -> str:
    return text if checked_number(text) is None or _is_span(text) else "-".join(text.split())


def _is_span(text: str) -> bool:
    found = _SPAN.fullmatch(text)
    return found is not None and found[1] <= found[2]


def _word(text: str) -> str:
    """Return a word; a word with signs inside becomes a phrase of its parts, the address of a DOI the DOI."""
    doi = find_doi(text)
    words = fold(doi or text).split()
    if not words:
        return ""
    term = _joined([*words[:-1], _beginning(words[-1])])
    return term if doi else _spelled(text, term, ":*")


def _spelled(text: str, term: str, ending: str) -> str:
    """Return the term; if the text is an ISBN, ISMN or ISSN, with its other spellings as alternatives.

    Records have it as one word among their numbers, and as it is written in their notes.
    """
    number = checked_number(text)
    if number is not None:
        parts = number[1].lower().split("-")
    elif _HYPHENATED.fullmatch(text) and len(text.replace("-", "")) in _ISBN_LENGTHS:
        parts = [text.replace("-", "").lower()]  # an ISBN with a wrong check digit
    else:
        return term
    spellings = dict.fromkeys(
        (f"{''.join(parts)}{ending}", _joined([*parts[:-1], f"{parts[-1]}{ending}"]), term)
    )
    return f"({' | '.join(spellings)})" if len(spellings) > 1 else term


def _beginning(word: str) -> str:
    """Return the prefix that matching words must have."""
    if len(word) <= _WHOLE:
        return word
    stem = word[:-1] if len(word) >= _LONG and word[-1] in _VOWELS else word
    return f"{stem}:*"


def _phrase(text: str) -> str:
    phrase = _joined(fold(text).split())
    return _spelled(text, phrase, "") if is_identifier(text) else phrase


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"({' <-> '.join(words)})" if words else ""


@dataclass(frozen=True, kw_only=True)
class FoundWords:
    """The words of a query, to be marked in the hits."""

    whole: frozenset[str]
    beginnings: tuple[str, ...]

    @classmethod
    def of(cls, query: str) -> "FoundWords":
        """Return the words that hits of the query contain, folded; those of phrases one by one."""
        whole: set[str] = set()
        beginnings: list[str] = []
        for found in list(_PIECE.finditer(query))[:_MOST]:
            words = fold(found["phrase"] or found["word"] or "").split()
            if found["not"] or not words or (found["word"] or "").lower() in _OR:
                continue
            *inner, last = words
            whole.update(inner)
            ending = last if found["word"] is None else _beginning(last)
            if ending.endswith(":*"):
                beginnings.append(ending.removesuffix(":*"))
            else:
                whole.add(ending)
        return cls(whole=frozenset(whole), beginnings=tuple(beginnings))

    def split(self, text: str) -> list[tuple[str, bool]]:
        """Return the text in pieces, each with whether the query contains it.

        >>> FoundWords.of("knih").split("Staré knihy")
        [('Staré ', False), ('knihy', True)]
        """
        pieces = []
        plain = 0
        for word in _SHOWN_WORD.finditer(text) if self.whole or self.beginnings else ():
            folded = fold(word[0])
            if folded in self.whole or folded.startswith(self.beginnings):
                pieces += [(text[plain : word.start()], False), (word[0], True)]
                plain = word.end()
        return [one for one in (*pieces, (text[plain:], False)) if one[0]]


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched for; empty fields are no restriction. Values of one field are alternatives."""

    text: str = ""
    """The query in the syntax of `full_text`."""
    repositories: Sequence[int] = ()
    languages: Sequence[str] = ()
    """ISO 639-2/B codes."""
    kinds: Sequence[str] = ()
    year_from: int | None = None
    year_to: int | None = None
    """Records whose years overlap with this span."""
    identifier: str = ""
    """A whole number: an ISBN, ISMN, ISSN or DOI in any spelling, a control number, or any other one."""
    authority_id: str = ""
    """An authority id of a contributor."""


def conditions_of(wanted: Search) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions in SQL, and their parameters."""
    conditions, values = ["true"], {}
    words = full_text(wanted.text)
    if words:
        conditions.append("row.words @@ to_tsquery('simple', :words)")
        values["words"] = words
    elif wanted.text.strip():
        conditions.append("false")  # a query of signs alone finds nothing
    for name, kind, condition in (
        ("repositories", "integer", "row.repository_id = ANY(CAST(:repositories AS integer[]))"),
        ("languages", "text", "row.languages && CAST(:languages AS text[])"),
        ("kinds", "text", "row.kind = ANY(CAST(:kinds AS text[]))"),
    ):
        given = getattr(wanted, name)
        if given:
            conditions.append(condition)
            values[name] = arrays.of_numbers(given) if kind == "integer" else arrays.of_texts(list(given))
    _add_years(wanted, conditions, values)
    _add_numbers(wanted, conditions, values)
    return conditions, values


def _add_years(wanted: Search, conditions: list[str], values: dict[str, Any]) -> None:
    if wanted.year_from is not None:
        conditions.append(
            "COALESCE(row.year_to, CASE WHEN row.year_from IS NOT NULL THEN 9999 END) >= :year_from"
        )
        values["year_from"] = wanted.year_from
    if wanted.year_to is not None:
        conditions.append("COALESCE(row.year_from, row.year_to) <= :year_to")
        values["year_to"] = wanted.year_to


def _add_numbers(wanted: Search, conditions: list[str], values: dict[str, Any]) -> None:
    if wanted.identifier.strip():
        conditions.append(
            "row.bibliographic_id IN (SELECT bibliographic_id FROM bibliographic_identifier"
            " WHERE value = ANY(CAST(:identifiers AS text[])))"
        )
        values["identifiers"] = arrays.of_texts(_spellings(wanted.identifier.strip()))
    if wanted.authority_id.strip():
        conditions.append(
            "row.bibliographic_id IN (SELECT bibliographic_id FROM bibliographic_contributor"
            " WHERE authority_ids <> '{}' AND authority_ids @> CAST(:authority_ids AS text[]))"
        )
        values["authority_ids"] = arrays.of_texts([wanted.authority_id.strip()])


def _spellings(given: str) -> list[str]:
    """Return the number as given and, if it is an ISBN, ISMN, ISSN or DOI, in its stored form."""
    known = [found[0] for _scheme, find, _lengths in CHECKED if (found := find(given))]
    return list(dict.fromkeys([given, given.lower(), find_doi(given) or given, *known]))


class SearchOrder(StrEnum):
    """The sort orders of the hits."""

    RELEVANCE = "relevance"
    TITLE = "title"
    NEWEST = "newest"


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A record that was found, as lists show it."""

    bibliographic_id: int
    repository_id: int
    title: str
    subtitle: str
    statement: str
    kind: str
    place: str
    publisher: str
    date_text: str
    year_from: int | None
    year_to: int | None
    languages: Sequence[str]
    contributors: Sequence[str]
    """The first three names, or all."""


@dataclass(frozen=True, kw_only=True)
class HitPage:
    """A page of hits; `next` is the key of the following page, None on the last one."""

    hits: Sequence[Hit]
    next: str | None


@dataclass(frozen=True, kw_only=True)
class _Sorting:
    """An order in SQL: the key's columns, compared as a row with those of the last hit."""

    columns: tuple[str, str]
    types: tuple[str, str]
    direction: str

    @property
    def order(self) -> str:
        """Return the expressions of ORDER BY."""
        return ", ".join(f"{column} {self.direction}" for column in self.columns)

    @property
    def behind(self) -> str:
        """Return the condition that a hit follows the last one, whose key is in `first` and `second`."""
        values = ", ".join(
            f"CAST(:{name} AS {type_})" for name, type_ in zip(("first", "second"), self.types, strict=True)
        )
        return f"({', '.join(self.columns)}) {'>' if self.direction == 'ASC' else '<'} ({values})"


_SORTINGS: Final = {
    SearchOrder.RELEVANCE: _Sorting(
        columns=("ts_rank(row.words, to_tsquery('simple', :words))", "-row.bibliographic_id"),
        types=("float4", "bigint"),
        direction="DESC",
    ),
    SearchOrder.TITLE: _Sorting(
        columns=("row.sort_title", "row.bibliographic_id"), types=("text", "bigint"), direction="ASC"
    ),
    SearchOrder.NEWEST: _Sorting(
        columns=("row.sort_year", "row.bibliographic_id"), types=("integer", "bigint"), direction="DESC"
    ),
}
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "integer": (1, 2**31 - 1),
    "bigint": (1, 2**63 - 1),
    "float4": (1e-37, 1e38),
}
"""The absolute values, except zero, that the database reads in its types."""
_SHOWN: Final = (
    "bibliographic_id", "repository_id", "title", "subtitle", "statement", "kind", "place", "publisher",
    "date_text", "year_from", "year_to", "languages",
)  # fmt: skip
_COLUMNS: Final = f"""
    {", ".join(f"row.{name}" for name in _SHOWN)},
    ARRAY(SELECT name FROM bibliographic_contributor AS named
          WHERE named.bibliographic_id = row.bibliographic_id ORDER BY position {{most}}) AS contributors
    """  # noqa: S608 built from constants


def search(
    session: Session,
    wanted: Search,
    *,
    order: SearchOrder | None = None,
    after: str | None = None,
    limit: int = 50,
) -> HitPage:
    """Return a page of hits; `after` is the `next` of the previous page, in the same order.

    Each hit has its first three names, because a record may have thousands.

    Without an order, hits for a text are sorted by relevance, others by title. Raises UsageError if `after`
    is invalid, or if `limit` is not from 1 to 1,000.
    """
    if not 1 <= limit <= _MOST_HITS:
        raise UsageError(f"{limit} hits per page is not valid; give 1 to {_MOST_HITS:,}")
    conditions, values = conditions_of(wanted)
    chosen = _chosen(order, has_words="words" in values)
    sorting = _SORTINGS[chosen]
    if after is not None:
        conditions.append(sorting.behind)
        values["first"], values["second"] = _position(after, chosen)
    keys = sorting.columns
    statement = f"""
        SELECT {_COLUMNS.format(most="LIMIT 3")}, {keys[0]} AS key_one, {keys[1]} AS key_two
        FROM bibliographic_record AS row WHERE {" AND ".join(conditions)}
        ORDER BY {sorting.order} LIMIT :limit
        """  # noqa: S608 built from constants
    rows = session.execute(text(statement), {**values, "limit": limit + 1}).mappings().all()
    last = rows[limit - 1] if len(rows) > limit else None
    return HitPage(
        hits=[_hit(row) for row in rows[:limit]],
        next=None if last is None else _key(chosen, last["key_one"], last["key_two"]),
    )


def find_all(session: Session, wanted: Search, *, order: SearchOrder | None = None) -> list[int]:
    """Return the ids of all hits, sorted as by `search`."""
    conditions, values = conditions_of(wanted)
    sorting = _SORTINGS[_chosen(order, has_words="words" in values)]
    statement = f"""
        SELECT row.bibliographic_id FROM bibliographic_record AS row
        WHERE {" AND ".join(conditions)} ORDER BY {sorting.order}
        """  # noqa: S608 built from constants
    return list(session.scalars(text(statement), values))


def hits_of(session: Session, ids: Sequence[int]) -> list[Hit]:
    """Return the records with these ids, in this order, with all their names; removed ones are left out."""
    statement = f"""
        SELECT {_COLUMNS.format(most="")}
        FROM bibliographic_record AS row WHERE row.bibliographic_id = ANY(CAST(:ids AS bigint[]))
        """  # noqa: S608 built from constants
    rows = session.execute(text(statement), {"ids": list(ids)}).mappings()
    found = {row["bibliographic_id"]: _hit(row) for row in rows}
    return [found[number] for number in ids if number in found]


def _hit(row: Mapping[Any, Any]) -> Hit:
    return Hit(**{name: row[name] for name in (*_SHOWN, "contributors")})


def _chosen(order: SearchOrder | None, *, has_words: bool) -> SearchOrder:
    """Return the requested order; without words to search for, there is no relevance to sort by."""
    if has_words:
        return order or SearchOrder.RELEVANCE
    return SearchOrder.TITLE if order in {None, SearchOrder.RELEVANCE} else order


def _key(order: SearchOrder, first: object, second: object) -> str:
    whole = json.dumps([order.value, str(first), str(second)], ensure_ascii=False)
    return base64.urlsafe_b64encode(whole.encode()).decode().rstrip("=")


def _position(after: str, order: SearchOrder) -> tuple[str, str]:
    """Return the key of the last hit. Raises UsageError if it is invalid, or belongs to another order."""
    types = _SORTINGS[order].types
    try:
        kind, *key = json.loads(base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)))
        if kind == order.value:
            first, second = (_literal(str(part), type_) for part, type_ in zip(key, types, strict=True))
            return first, second
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise UsageError(f"{after!r} is not a page key; take it from the previous page") from None
    raise UsageError(
        f"the key {after!r} belongs to a list by {kind}, not by {order}; start at the first page"
    )


def _literal(part: str, type_: str) -> str:
    """Return a part of a key as the database reads it in its type. Raises ValueError if it would not."""
    if type_ == "text":
        part.encode()  # refuses half a surrogate pair
        if "\0" in part:
            raise ValueError(part)
        return part
    number = float(part) if type_ == "float4" else int(part)
    smallest, largest = _RANGES[type_]
    if number and not smallest <= abs(number) <= largest:
        raise ValueError(part)
    return str(number)
