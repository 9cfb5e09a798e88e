"""Looks up what is archived of a URL, of all below one, of a host or of a domain (requirement IDX-7).

All of it goes through one index, on the URL and the time of capture. One look-up is a handful of ranges of
that index: a URL may have been captured with either scheme, with and without `www.`; a host or domain has two
few ranges for each of its hosts. Each range gives no more rows than are asked for in all; where a host or
domain has more, it is those of its first hosts that are given.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.holdings.sets import domain_set_specs
from provider.holdings.urlkeys import parts_of, prefixes, spellings, url_key, without_www
from provider.models import Access

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_LAST: Final = "\U0010ffff"
_EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


class Match(StrEnum):
    """Which URLs are meant by one."""

    EXACT = "exact"
    """That one, in all its spellings (see `provider.holdings.urlkeys`)."""
    PREFIX = "prefix"
    """All that begin so."""
    HOST = "host"
    """All of its host."""
    DOMAIN = "domain"
    """All of its host and of those below it."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """What is looked for."""

    url: str
    match: Match = Match.EXACT
    since: datetime | None = None
    """First moment of capture that is taken."""
    until: datetime | None = None
    """Last moment of capture that is taken."""
    closest: datetime | None = None
    """The captures nearest to this moment are wanted, nearest first; for an exact match only."""
    limit: int
    rules: Sequence[Access] = tuple(Access)
    """Only documents with one of these effective rules."""
    hidden: bool = False
    """Documents that are shown as deleted, too."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A capture."""

    key: UUID
    url: str
    url_key: str
    archived: datetime
    mime_type: str
    http_status: int | None
    digest: str | None
    length: int | None
    """Bytes of the content, HTTP headers left out, where the file has been read."""
    offset: int
    record_type: str
    access: str
    deleted: bool
    path: str
    """Of the archive file."""


# The index is on the first 512 characters, to the letter of this expression.
_PAGE: Final = """
SELECT document.id, document.archived FROM document
WHERE {where}
    AND document.archived BETWEEN :since AND :until
    AND document.access = ANY(:rules) AND (:hidden OR NOT document.deleted)
ORDER BY {order} LIMIT :limit
"""
_SAME: Final = "left(document.url, 512) = left(wanted.url, 512) AND document.url = wanted.url"
_BEGINS: Final = """
    left(document.url, 512) >= left(wanted.url, 512)
    AND left(document.url, 512) <= left(wanted.url, 512) || :last
    AND starts_with(document.url, wanted.url)
"""
_BETWEEN: Final = """
    left(document.url, 512) >= wanted.low AND left(document.url, 512) < wanted.high
"""
_BY_URL: Final = "left(document.url, 512), document.archived"
_URLS: Final = "unnest(CAST(:urls AS text[])) AS wanted (url)"
# The bare host, and whatever may follow one in a URL: its place in the order of bytes to the next character.
_HOSTS: Final = """
(
    SELECT scheme || '://' || host.shown || ending.low AS low,
        scheme || '://' || host.shown || ending.high AS high
    FROM (
        SELECT set_spec, CASE WHEN name LIKE '%:%' THEN '[' || name || ']' ELSE name END AS shown
        FROM domain WHERE set_spec = ANY(:hosts) OR set_spec >= :below AND set_spec < :behind
    ) AS host
    CROSS JOIN unnest(ARRAY['http', 'https']) AS scheme
    CROSS JOIN (VALUES ('', E'\\x01'), ('#', '$'), ('/', '0'), (':', ';'), ('?', '@')) AS ending (low, high)
    ORDER BY host.set_spec, scheme, ending.low
) AS wanted
"""
_LOOK_UP: Final = """
WITH page AS (
    SELECT page.id FROM {wanted} CROSS JOIN LATERAL ({pages}) AS page {order} LIMIT {limit}
)
SELECT
    document.key, document.url, document.archived, mimetype.name AS mime_type, document.http_status,
    document.digest, document.length, document."offset", document.record_type, document.access,
    document.deleted, arc.path
FROM page
JOIN document USING (id)
JOIN mimetype ON mimetype.id = document.mime_id
JOIN arc ON arc.id = document.arc_id
"""


def find_captures(session: Session, query: Query) -> list[Found]:
    """What is archived, by URL key and time, or nearest first; at most `query.limit` captures.

    Raises UsageError for a URL without a host, and where nearness is asked for without an exact match.
    """
    if _CONTROL.search(query.url) or not parts_of(query.url).host:
        raise UsageError(f"{query.url!r} has no host; write it as http://host/path, or host/path")
    if query.closest is not None and query.match is not Match.EXACT:
        raise UsageError("the nearest captures can be asked for one URL only, with an exact match")
    statement, values = _statement(query)
    found = [_found(row) for row in session.execute(text(statement), values).mappings()]
    if query.closest is not None:
        nearest = query.closest
        return sorted(found, key=lambda one: abs(one.archived - nearest))[: query.limit]
    return sorted(found, key=lambda one: (one.url_key, one.archived, one.url))[: query.limit]


def _statement(query: Query) -> tuple[str, dict[str, Any]]:
    values: dict[str, Any] = {
        "since": query.since or _EARLIEST,
        "until": query.until or _LATEST,
        "rules": list(query.rules),
        "hidden": query.hidden,
        "limit": query.limit,
    }
    if query.match is Match.EXACT:
        values["urls"] = spellings(query.url)
        pages, order = _exact(query, values)
        # Of every spelling as many as are wanted in all, for they are put in order afterwards.
        return _LOOK_UP.format(wanted=_URLS, pages=pages, order=order, limit="NULL"), values
    if query.match is Match.PREFIX:
        values |= {"urls": prefixes(query.url), "last": _LAST}
        pages = _PAGE.format(where=_BEGINS, order=_BY_URL)
        return _LOOK_UP.format(wanted=_URLS, pages=pages, order="", limit="NULL"), values
    values |= _hosts(query)
    pages = _PAGE.format(where=_BETWEEN, order=_BY_URL)
    return _LOOK_UP.format(wanted=_HOSTS, pages=pages, order="", limit=":limit"), values


def _exact(query: Query, values: dict[str, Any]) -> tuple[str, str]:
    if query.closest is None:
        return _PAGE.format(where=_SAME, order="document.archived"), ""
    values["closest"] = query.closest
    before = _PAGE.format(where=f"{_SAME} AND document.archived < :closest", order="document.archived DESC")
    after = _PAGE.format(where=f"{_SAME} AND document.archived >= :closest", order="document.archived")
    return f"({before}) UNION ALL ({after})", ""


def _hosts(query: Query) -> dict[str, Any]:
    """The hosts' sets: `domain:` has a row for every host that anything is archived of."""
    host = parts_of(query.url).host
    bare = without_www(host)
    specs = [domain_set_specs(one)[-1][0] for one in dict.fromkeys((host, bare, f"www.{bare}"))]
    if query.match is Match.HOST:
        return {"hosts": specs, "below": "", "behind": ""}
    top = domain_set_specs(bare)[-1][0]
    return {"hosts": [top], "below": f"{top}:", "behind": f"{top};"}


def _found(row: Any) -> Found:  # noqa: ANN401 SQLAlchemy's row mapping
    return Found(**row, url_key=url_key(row["url"]))
