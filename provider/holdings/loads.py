"""Loads: what each indexing run has made available, with the datestamps by which harvesters select it.

Every publishing transaction inserts a row of its own, so that parallel indexers share no row and a load says
exactly what was committed. The rows of a load are added up from time to time. Only documents that harvesters
may know are counted.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import func, insert, select, text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from provider.holdings.rules import Enrolment
from provider.holdings.unlisted import is_public
from provider.models import Access, Collection, Domain, Load, LoadPart

ADD_UP_EVERY: Final = 500
"""Number of files after which the rows of a load are added up."""

_NOTHING: Final = "SELECT CAST(NULL AS int) AS host_id, CAST(0 AS bigint) AS documents WHERE false"
_FRESH: Final = "SELECT host_id, count(*) AS documents FROM fresh GROUP BY host_id"
# Documents are selected by an array of ids: as a join, one file can become a scan of the whole archive.
_LISTED: Final = """
SELECT host_id, count(*) AS documents FROM document
WHERE id = ANY(ARRAY({numbers})) AND datestamp = :datestamp AND NOT deleted AND access <> 'withheld'
GROUP BY host_id
"""
_FRESH_NUMBERS: Final = "SELECT id FROM fresh"
_COMPLETED_NUMBERS: Final = "SELECT id FROM known WHERE lacks AND state IN ('unchanged', 'moved')"
# The set of the top-level domain is the first two parts of a host's set: `domain:cz` of `domain:cz:example`.
_NOTE: Final = """
WITH counted AS MATERIALIZED (
    SELECT host_id, sum(new) AS new, sum(changed) AS changed
    FROM (
        SELECT host_id, documents AS new, 0 AS changed FROM ({new}) AS fresh_ones
        UNION ALL
        SELECT host_id, 0, documents FROM ({changed}) AS completed_ones
    ) AS both_kinds
    GROUP BY host_id
),
tops AS (
    SELECT top.id, sum(counted.new + counted.changed) AS documents
    FROM counted
    JOIN domain AS host ON host.id = counted.host_id
    JOIN domain AS top
        ON top.set_spec = split_part(host.set_spec, ':', 1) || ':' || split_part(host.set_spec, ':', 2)
    GROUP BY top.id
)
INSERT INTO load_part (load_id, since, until, new, changed, domains)
SELECT :load_id, :datestamp, :datestamp, sum(new), sum(changed),
    coalesce((SELECT jsonb_object_agg(id, documents) FROM tops), '{{}}')
FROM counted HAVING sum(new + changed) > 0
"""
_MAY_BE_HIDDEN: Final = """
SELECT EXISTS (SELECT FROM takedown_range WHERE active)
    OR EXISTS (SELECT FROM title_segment WHERE access = 'withheld')
"""
# Rows that are due: a sum of others would hide those from the list until the last one is due. Rows that
# another process is adding up are left to it.
_ADD_UP: Final = """
WITH taken AS MATERIALIZED (
    SELECT part_id FROM load_part
    WHERE load_id = :load_id AND until <= (SELECT moment FROM publication_mark)
    ORDER BY part_id FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM load_part USING taken WHERE load_part.part_id = taken.part_id RETURNING load_part.*),
tops AS (
    SELECT one.key, sum(CAST(one.value AS bigint)) AS documents
    FROM gone CROSS JOIN LATERAL jsonb_each_text(gone.domains) AS one GROUP BY one.key
)
INSERT INTO load_part (load_id, since, until, new, changed, domains)
SELECT load_id, min(since), max(until), sum(new), sum(changed),
    coalesce((SELECT jsonb_object_agg(key, documents) FROM tops), '{}')
FROM gone GROUP BY load_id
"""
# While files are being indexed, this would remove rows that are not visible yet with their load.
_FORGET_EMPTY: Final = """
DELETE FROM load WHERE load_id = :load_id AND NOT EXISTS (SELECT FROM load_part WHERE load_id = :load_id)
"""


def begin_load(session: Session, collection_id: int | None) -> int:
    """Add a load of a command and return its id. Commits."""
    number: int = session.scalars(
        insert(Load).values(collection_id=collection_id).returning(Load.load_id)
    ).one()
    session.commit()
    return number


def load_of_run(session: Session, run_id: int, collection_id: int | None) -> int:
    """Return the load of a queued run; the first of its files adds it. Commits."""
    row = upsert(Load).values(run_id=run_id, collection_id=collection_id)
    session.execute(row.on_conflict_do_nothing(index_elements=[Load.run_id]))
    number = session.scalars(select(Load.load_id).where(Load.run_id == run_id)).one()
    session.commit()
    return number


def note_part(session: Session, load_id: int, datestamp: datetime, enrolment: Enrolment | None) -> None:
    """Count what the transaction publishes under this datestamp, from `fresh` and `known`.

    The last step of a publishing transaction of `provider.indexing`; a repetition counts again.
    """
    if enrolment is not None and enrolment.rule.access == Access.WITHHELD:
        new = _NOTHING
    elif session.scalar(text(_MAY_BE_HIDDEN)):
        new = _LISTED.format(numbers=_FRESH_NUMBERS)
    else:
        new = _FRESH
    statement = _NOTE.format(new=new, changed=_LISTED.format(numbers=_COMPLETED_NUMBERS))
    session.execute(text(statement), {"load_id": load_id, "datestamp": datestamp})


def add_up(session: Session, load_id: int | None) -> None:
    """Replace the rows of a load by their sum; None: no load. Commits."""
    session.execute(text(_ADD_UP), {"load_id": load_id})
    session.commit()


def end_load(session: Session, load_id: int | None) -> None:
    """Add up a load whose files have all been indexed, and remove it if it has published nothing. Commits."""
    add_up(session, load_id)
    session.execute(text(_FORGET_EMPTY), {"load_id": load_id})
    session.commit()


@dataclass(frozen=True, kw_only=True)
class LoadedSet:
    """A set with documents of a load."""

    set_spec: str
    name: str
    documents: int | None
    """How many; None for the collection, which has all new ones."""


@dataclass(frozen=True, kw_only=True)
class ListedLoad:
    """A load as harvesters may see it. Times are UTC."""

    load_id: int
    begun: datetime
    since: datetime
    """First datestamp of its documents; whole seconds, as the next."""
    until: datetime
    """Last datestamp of its documents so far."""
    new: int
    changed: int
    collection: LoadedSet | None
    domains: Sequence[LoadedSet]
    """Top-level domains, the largest first."""


def list_loads(
    session: Session, mark: datetime, *, limit: int, before: int | None = None
) -> Sequence[ListedLoad]:
    """Return loads with documents that are due, newest first; `before` is the last id of the page before.

    `mark` is the moment up to which lists show everything (`holdings.mark`), read in this transaction.
    """
    due = select(LoadPart.part_id).where(LoadPart.load_id == Load.load_id, LoadPart.until <= mark)
    wanted = select(Load.load_id).where(due.exists()).order_by(Load.load_id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(Load.load_id < before)
    numbers = session.scalars(wanted).all()
    rows = session.execute(
        select(
            Load.load_id, Load.begun, Load.collection_id,
            func.min(LoadPart.since).label("since"), func.max(LoadPart.until).label("until"),
            func.sum(LoadPart.new).label("new"), func.sum(LoadPart.changed).label("changed"),
            func.array_agg(LoadPart.domains).label("domains"),
        )
        .join(LoadPart, LoadPart.load_id == Load.load_id)
        .where(Load.load_id.in_(numbers), LoadPart.until <= mark)
        .group_by(Load.load_id)
        .order_by(Load.load_id.desc())
    ).all()  # fmt: skip
    return list(_listed(session, rows))


def _listed(session: Session, rows: Sequence[Any]) -> Iterator[ListedLoad]:
    counted = {row.load_id: _added(row.domains) for row in rows}
    domains = _names(session, Domain, {number for counts in counted.values() for number in counts})
    collections = _names(session, Collection, {row.collection_id for row in rows} - {None})
    for row in rows:
        collection = collections.get(row.collection_id)
        yield ListedLoad(
            load_id=row.load_id,
            begun=row.begun,
            since=row.since,
            until=row.until,
            new=int(row.new),
            changed=int(row.changed),
            collection=None if collection is None else _set(*collection, None),
            domains=[
                _set(*domains[number], documents)
                for number, documents in counted[row.load_id].most_common()
                if number in domains
            ],
        )


def _added(parts: Sequence[dict[str, int]]) -> Counter[int]:
    found: Counter[int] = Counter()
    for part in parts:
        found.update({int(number): documents for number, documents in part.items()})
    return found


def _names(
    session: Session, tree: type[Collection | Domain], numbers: set[int]
) -> dict[int, tuple[str, str]]:
    """Return setSpec and name of these sets, without those that the public may not know."""
    rows = select(tree.id, tree.set_spec, tree.name).where(tree.id.in_(numbers), is_public(tree))
    return {number: (set_spec, name) for number, set_spec, name in session.execute(rows)}


def _set(set_spec: str, name: str, documents: int | None) -> LoadedSet:
    return LoadedSet(set_spec=set_spec, name=name, documents=documents)
