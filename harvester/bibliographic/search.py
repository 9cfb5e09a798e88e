"""Search among bibliographic records: query, restrictions, pages, facets (BIB-5)."""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.bibliographic.codes import find_isbn, find_issn
from harvester.bibliographic.text import fold
from harvester.store import records as arrays
from oai.errors import UsageError

_PIECE: Final = re.compile(r'(?P<not>(?<!\S)-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')
_NUMBER: Final = re.compile(r"[\dXx][\dXx\s\u2010-\u2015-]{6,16}[\dXx]")
_OR: Final = frozenset({"or", "nebo", "alebo"})
_WHOLE: Final = 2
"""Words of so many letters are found whole: too many words begin with them."""
_LONG: Final = 5
_VOWELS: Final = frozenset("aeiouy")
_MOST: Final = 40
"""Pieces of a query that count."""


def full_text(query: str) -> str:
    """The query for `to_tsquery('simple', …)`; empty where there is no word in it.

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
    """The query with each ISBN and ISSN as the one word that records have it as."""
    return _NUMBER.sub(lambda found: _number(found[0]), query)


def _number(text: str) -> str:
    isbn = find_isbn(text)
    if isbn and isbn[1] and len(re.sub(r"[^\dXx]", "", text)) in {10, 13}:
        return isbn[0].lower()
    issn = find_issn(text)
    return (
        issn[0].replace("-", "").lower()
        if issn and issn[1] and len(text.strip()) <= len("1234-5678")
        else text
    )


def _word(text: str) -> str:
    """A word; several where signs stand inside, which are one phrase then."""
    words = fold(text).split()
    if not words:
        return ""
    return _joined([*words[:-1], _beginning(words[-1])])


def _beginning(word: str) -> str:
    """What words are to begin with, to be found."""
    if len(word) <= _WHOLE:
        return word
    stem = word[:-1] if len(word) >= _LONG and word[-1] in _VOWELS else word
    return f"{stem}:*"


def _phrase(text: str) -> str:
    return _joined(fold(text).split())


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"({' <-> '.join(words)})" if words else ""


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched for; empty fields ask for nothing. Values of one field are alternatives."""

    text: str = ""
    """As `queries` explains."""
    repositories: Sequence[int] = ()
    languages: Sequence[str] = ()
    """ISO 639-2/B codes."""
    kinds: Sequence[str] = ()
    year_from: int | None = None
    year_to: int | None = None
    """Records whose years overlap with these."""
    identifier: str = ""
    """An ISBN or ISSN in any spelling, a control number, a DOI, or any other number, whole."""
    authority_id: str = ""
    """Of a contributor."""


def conditions_of(wanted: Search) -> tuple[list[str], dict[str, Any]]:
    """The conditions in SQL, and their values."""
    conditions, values = ["true"], {}
    words = full_text(wanted.text)
    if words:
        conditions.append("row.words @@ to_tsquery('simple', :words)")
        values["words"] = words
    elif wanted.text.strip():
        conditions.append("false")  # signs alone are found nowhere
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
    """The number as given, and as it is kept where it is an ISBN or ISSN."""
    known = [found[0] for found in (find_isbn(given), find_issn(given)) if found is not None]
    return list(dict.fromkeys([given, given.lower(), *known]))


_MOST_HITS: Final = 1000


class SearchOrder(StrEnum):
    """What the hits are sorted by."""

    RELEVANCE = "relevance"
    TITLE = "title"
    NEWEST = "newest"


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A record that was found, as a list shows it."""

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
    """Names, the first three."""


@dataclass(frozen=True, kw_only=True)
class HitPage:
    """A page of hits; `next` is the key of the page after it, None on the last."""

    hits: Sequence[Hit]
    next: str | None


@dataclass(frozen=True, kw_only=True)
class _Sorting:
    """How an order is put in SQL: the key's columns, compared as a row with those of the last hit."""

    columns: tuple[str, str]
    types: tuple[str, str]
    direction: str

    @property
    def behind(self) -> str:
        """The condition that a hit comes after the last one, whose key is in `first` and `second`."""
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
_SHOWN: Final = (
    "bibliographic_id", "repository_id", "title", "subtitle", "statement", "kind", "place", "publisher",
    "date_text", "year_from", "year_to", "languages",
)  # fmt: skip
_NAMES: Final = """
    ARRAY(SELECT name FROM bibliographic_contributor AS named
          WHERE named.bibliographic_id = row.bibliographic_id ORDER BY position LIMIT 3) AS contributors
    """


def search(
    session: Session,
    wanted: Search,
    *,
    order: SearchOrder | None = None,
    after: str | None = None,
    limit: int = 50,
) -> HitPage:
    """A page of hits; `after` is the `next` of the page before it, in the same order.

    Without an order, hits for a text come by relevance, others by title. Raises UsageError where `after` is
    none of ours, or `limit` is not from 1 to 1,000.
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
        SELECT {", ".join(f"row.{name}" for name in _SHOWN)}, {_NAMES},
               {keys[0]} AS key_one, {keys[1]} AS key_two
        FROM bibliographic_record AS row WHERE {" AND ".join(conditions)}
        ORDER BY {", ".join(f"{key} {sorting.direction}" for key in keys)} LIMIT :limit
        """  # noqa: S608 made of our own words
    rows = session.execute(text(statement), {**values, "limit": limit + 1}).mappings().all()
    last = rows[limit - 1] if len(rows) > limit else None
    return HitPage(
        hits=[Hit(**{name: row[name] for name in (*_SHOWN, "contributors")}) for row in rows[:limit]],
        next=None if last is None else _key(chosen, last["key_one"], last["key_two"]),
    )


def _chosen(order: SearchOrder | None, *, has_words: bool) -> SearchOrder:
    """The order that is asked for; nothing is more relevant than another where no words are searched."""
    if has_words:
        return order or SearchOrder.RELEVANCE
    return SearchOrder.TITLE if order in {None, SearchOrder.RELEVANCE} else order


def _key(order: SearchOrder, first: object, second: object) -> str:
    whole = json.dumps([order.value, str(first), str(second)], ensure_ascii=False)
    return base64.urlsafe_b64encode(whole.encode()).decode().rstrip("=")


def _position(after: str, order: SearchOrder) -> tuple[str, str]:
    """The key of the last hit. Raises UsageError where it is none, or one of another order."""
    try:
        whole = json.loads(base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)))
        kind, first, second = whole
        int(second)
        if order is not SearchOrder.TITLE:
            float(first)
    except (binascii.Error, ValueError, TypeError):
        raise UsageError(f"{after!r} is not a page key; take it from the previous page") from None
    if kind != order.value:
        raise UsageError(
            f"the key {after!r} belongs to a list by {kind}, not by {order}; start at the first page"
        )
    return str(first), str(second)


MOST_COUNTED: Final = 100_000
"""Records that facets count at most; beyond, they say that there are more."""


@dataclass(frozen=True, kw_only=True)
class FacetCount:
    """How many of the hits have a value."""

    value: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Facets:
    """Counts over all hits, the most frequent first."""

    total: int
    whole: bool
    """Whether all hits were counted; else `total` and the counts are those of the first MOST_COUNTED."""
    sources: Sequence[FacetCount]
    """By the repository's number."""
    languages: Sequence[FacetCount]
    decades: Sequence[FacetCount]
    """By the first year of the decade, such as `1990`; the latest first."""
    kinds: Sequence[FacetCount]


_FACETS: Final = """
    WITH hits AS MATERIALIZED (
        SELECT row.repository_id, row.languages, row.kind, row.year_from
        FROM bibliographic_record AS row WHERE {conditions} LIMIT :most)
    SELECT 'total' AS facet, '' AS value, count(*) AS number FROM hits
    UNION ALL SELECT 'sources', repository_id::text, count(*) FROM hits GROUP BY 2
    UNION ALL SELECT 'languages', language, count(*) FROM hits, unnest(languages) AS language GROUP BY 2
    UNION ALL SELECT 'kinds', kind, count(*) FROM hits GROUP BY 2
    UNION ALL SELECT 'decades', (floor(year_from / 10.0) * 10)::int::text, count(*) FROM hits
              WHERE year_from IS NOT NULL GROUP BY 2
    """


def count_facets(session: Session, wanted: Search) -> Facets:
    """How many records are found, and how they spread over sources, languages, decades and kinds."""
    conditions, values = conditions_of(wanted)
    statement = _FACETS.format(conditions=" AND ".join(conditions))
    found: dict[str, list[FacetCount]] = {"sources": [], "languages": [], "kinds": [], "decades": []}
    total = 0
    for row in session.execute(text(statement), {**values, "most": MOST_COUNTED + 1}):
        if row.facet == "total":
            total = int(row.number)
        else:
            found[row.facet].append(FacetCount(value=row.value, count=int(row.number)))
    for name in ("sources", "languages", "kinds"):
        found[name].sort(key=lambda one: (-one.count, one.value))
    found["decades"].sort(key=lambda one: -int(one.value))
    whole = total <= MOST_COUNTED
    return Facets(total=min(total, MOST_COUNTED), whole=whole, **found)
