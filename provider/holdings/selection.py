"""Selection of documents for a change: by archive file, URL, capture time, host or identifier."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, func, select, text
from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.holdings.arcs import is_file
from provider.holdings.publication import publish_chosen
from provider.holdings.sets import domain_set_specs, host_of
from provider.models import Arc, Document
from provider.protocol.scopes import find_scope

INDEXED_CHARACTERS = 512
"""Number of characters of a URL in the index `ix_document_url`."""
COVERED: Final = """coalesce((
    SELECT held.high >= document.url_key FROM takedown_range AS held
    WHERE held.outermost AND held.low <= document.url_key ORDER BY held.low DESC LIMIT 1
), false)"""
"""SQL: whether an active take-down covers the row of `document`.

One probe of an index, because outermost ranges are disjoint.
"""
_MARK = f"""
WITH before AS (
    SELECT id, deleted FROM document WHERE id = ANY(ARRAY(SELECT id FROM chosen)) OFFSET 0
),
changed AS (
    UPDATE document SET hidden = :hidden, deleted = :hidden OR {COVERED}
    WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND hidden <> :hidden RETURNING id, deleted
)
INSERT INTO altered
SELECT id FROM changed JOIN before USING (id) WHERE changed.deleted <> before.deleted
"""  # noqa: S608 constant text


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Criteria that the documents have in common; all given ones must match."""

    arc: str | None = None
    """Name of an archive file (with or without `.gz`), or its absolute path."""
    key: uuid.UUID | None = None
    """Key of one document."""
    url: str | None = None
    """Exact URL: all its captures."""
    url_prefix: str | None = None
    since: datetime | None = None
    """First capture time that matches."""
    until: datetime | None = None
    """Last capture time that matches."""
    domain: str | None = None
    """Host or domain, including everything below it."""


def conditions(session: Session, selection: Selection) -> list[ColumnElement[bool]]:
    """Return the selection as conditions on `document`.

    Raises UsageError if it names an unknown archive file or domain, or is empty.
    """
    found: list[ColumnElement[bool]] = []
    if selection.arc is not None:
        found.append(Document.arc_id.in_(_arcs(session, selection.arc)))
    if selection.key is not None:
        found.append(Document.key == selection.key)
    if selection.url is not None:
        found.append(one_of_urls([selection.url]))
    if selection.url_prefix is not None:
        found += url_begins(selection.url_prefix)
    if selection.domain is not None:
        found += _domain(session, selection.domain)
    if not found:
        raise UsageError("no documents selected; give an archive file, a URL, a URL prefix or a domain")
    if selection.since is not None:
        found.append(Document.archived >= selection.since)
    if selection.until is not None:
        found.append(Document.archived <= selection.until)
    return found


def _arcs(session: Session, name: str) -> list[int]:
    ids = list(session.scalars(select(Arc.id).where(is_file(name))))
    if not ids:
        raise UsageError("archive file %(name)s is not indexed; see `zatva provider status`", name=repr(name))
    return ids


def one_of_urls(urls: Sequence[str]) -> ColumnElement[bool]:
    """Return a condition for exactly these URLs: the indexed characters, and the full comparison."""
    indexed = func.left(Document.url, INDEXED_CHARACTERS)
    return and_(indexed.in_([url[:INDEXED_CHARACTERS] for url in urls]), Document.url.in_(urls))


def url_begins(prefix: str) -> list[ColumnElement[bool]]:
    """Return conditions for a URL prefix: an index range, and the full comparison, in code-point order.

    Raises UsageError for an empty prefix.
    """
    if not prefix:
        raise UsageError("an empty URL prefix would select every document; give at least 'http'")
    indexed = func.left(Document.url, INDEXED_CHARACTERS)
    start = prefix[:INDEXED_CHARACTERS]
    return [indexed >= start, indexed <= start + "\U0010ffff", func.starts_with(Document.url, prefix)]


def _domain(session: Session, domain: str) -> tuple[ColumnElement[bool], ...]:
    set_spec = domain_set_specs(host_of(f"http://{domain}/") or domain)[-1][0]
    scope = find_scope(session, set_spec, withheld=True)
    if scope is None:
        raise UsageError(
            "no documents from the domain %(domain)s (set %(set_spec)s)",
            domain=repr(domain),
            set_spec=set_spec,
        )
    return scope.conditions


def hide(session: Session, selection: Selection, *, margin: float) -> int:
    """Mark documents as deleted; return how many were not deleted before. Commits."""
    return _mark(session, selection, hidden=True, margin=margin)


def unhide(session: Session, selection: Selection, *, margin: float) -> int:
    """Show hidden documents again; return how many were hidden. Commits.

    Documents withheld by an access rule remain deleted for harvesters, and documents held by a take-down
    remain hidden.
    """
    return _mark(session, selection, hidden=False, margin=margin)


def _mark(session: Session, selection: Selection, *, hidden: bool, margin: float) -> int:
    def change(session: Session, _datestamp: datetime) -> None:
        session.execute(text(_MARK), {"hidden": hidden})

    chosen = select(Document.id).where(*conditions(session, selection), Document.hidden.is_not(hidden))
    return publish_chosen(session, chosen, change, margin=margin)
