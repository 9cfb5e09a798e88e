"""Counts over the hits of a search, by which readers narrow it down."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.bibliographic.search import Search, conditions_of

MOST_COUNTED: Final = 100_000
"""The largest number of records that facets count; they show when there are more."""
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


@dataclass(frozen=True, kw_only=True)
class FacetCount:
    """The number of hits that have a value."""

    value: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Facets:
    """Counts over all hits, the most frequent value first."""

    total: int
    whole: bool
    """Whether all hits were counted; else `total` and the counts are those of the first MOST_COUNTED."""
    sources: Sequence[FacetCount]
    """By the repository's id."""
    languages: Sequence[FacetCount]
    decades: Sequence[FacetCount]
    """By the decade of the record's first year, such as `1990`; the latest first."""
    kinds: Sequence[FacetCount]


def count_facets(session: Session, wanted: Search) -> Facets:
    """Count the records found, and their distribution over sources, languages, decades and kinds."""
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
