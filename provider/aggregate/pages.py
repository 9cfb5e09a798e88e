"""Pages of the aggregate's records and sets, each from one range scan behind the end of the page before."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    any_,
    func,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.types import NullType

from provider.aggregate import harvested
from provider.aggregate.models import (
    AggregateCount,
    AggregateFormat,
    AggregateMembership,
    AggregateRecord,
    AggregateSet,
    AggregateSource,
)
from provider.models import UNLISTED
from provider.protocol.catalogue import SetRow
from provider.protocol.tokens import Position

_MOST_AHEAD: Final = 5000
"""So many records that are not due are counted for a list's size, and no more."""


class Entry(NamedTuple):
    """A record with everything that an answer says about it beside what is in its file."""

    id: int
    identifier: str
    datestamp: datetime
    deleted: bool
    altered: bool
    filename: str | None
    harvested_identifier: str
    harvested_datestamp: str
    harvest_time: datetime
    source: str
    """Its source's set."""
    base_url: str
    """Its source's."""
    base_dir: str | None
    """None where the repository has been removed."""
    prefix: str
    """metadataPrefix here."""
    namespace: str
    """Of its metadata."""
    set_specs: Sequence[str] | None
    """The source's sets that its header names."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The records of one format in a set, or all, and the index by which they are in order."""

    format_id: int
    datestamp: InstrumentedAttribute[datetime]
    id: InstrumentedAttribute[int]
    conditions: tuple[ColumnElement[bool], ...]
    kept_size: Select[Any]


def find_scope(session: Session, format_id: int, set_spec: str | None) -> Scope | None:
    """The scope of a set, all records for None, or None where there is no such set."""
    counts = select(func.sum(AggregateCount.records)).where(AggregateCount.format_id == format_id)
    if set_spec is None:
        own = AggregateCount.set_id.in_(select(AggregateSet.id).where(AggregateSet.harvested_spec == ""))
        return _records(format_id, counts.where(own))
    row = session.execute(
        select(AggregateSet.id, AggregateSet.repository_id, AggregateSet.harvested_spec).where(
            AggregateSet.set_spec == set_spec
        )
    ).one_or_none()
    if row is None:
        return None
    kept = counts.where(AggregateCount.set_id == row.id)
    if not row.harvested_spec:
        return _records(format_id, kept, AggregateRecord.repository_id == row.repository_id)
    return Scope(
        format_id=format_id,
        datestamp=AggregateMembership.datestamp,
        id=AggregateMembership.record_id,
        conditions=(AggregateMembership.set_id == row.id, AggregateMembership.format_id == format_id),
        kept_size=kept,
    )


def _records(format_id: int, kept_size: Select[Any], *conditions: ColumnElement[bool]) -> Scope:
    return Scope(
        format_id=format_id,
        datestamp=AggregateRecord.datestamp,
        id=AggregateRecord.id,
        conditions=(*conditions, AggregateRecord.format_id == format_id),
        kept_size=kept_size,
    )


def entry_page(
    session: Session,
    scope: Scope,
    *,
    from_: datetime | None,
    until: datetime,
    after: Position | None,
    limit: int,
) -> Sequence[Entry]:
    """At most `limit` records of the scope by (datestamp, id), from behind `after` up to `until`."""
    window = [scope.datestamp <= until]
    if after is not None:
        window.append(tuple_(scope.datestamp, scope.id) > tuple_(after.datestamp, after.id))
    elif from_ is not None:
        window.append(scope.datestamp >= from_)
    scan = (
        select(scope.id.label("id"))
        .where(*scope.conditions, *window)
        .order_by(scope.datestamp, scope.id)
        .limit(limit)
        .subquery()
    )
    found = _ENTRIES.join(scan, scan.c.id == AggregateRecord.id)
    return _read(session, found.order_by(AggregateRecord.datestamp, AggregateRecord.id))


def entries_of(session: Session, key: uuid.UUID, until: datetime) -> Sequence[Entry]:
    """The records of an item that are due, one for each of its formats."""
    named = _ENTRIES.where(AggregateRecord.identifier_key == key, AggregateRecord.datestamp <= until)
    return _read(session, named.order_by(AggregateRecord.format_id))


def list_size(session: Session, scope: Scope, now: datetime) -> int | None:
    """How many records the scope has, from the kept counts; None where too many are not due yet."""
    ahead = (
        select(scope.id)
        .where(*scope.conditions, scope.datestamp > now, scope.datestamp < UNLISTED)
        .order_by(scope.datestamp.desc(), scope.id.desc())
        .limit(_MOST_AHEAD + 1)
        .subquery()
    )
    not_due = session.scalar(select(func.count()).select_from(ahead)) or 0
    kept = session.scalar(scope.kept_size)
    return None if kept is None or not_due > _MOST_AHEAD else int(kept) - not_due


def set_page(session: Session, *, after: str | None, limit: int) -> Sequence[SetRow]:
    """At most `limit` sets behind `after`, in the order of their setSpecs' bytes."""
    rows = session.execute(
        select(AggregateSet.set_spec, AggregateSet.name)
        .where(AggregateSet.set_spec > (after or ""))
        .order_by(AggregateSet.set_spec)
        .limit(limit)
    )
    return [SetRow(set_spec=set_spec, name=name) for set_spec, name in rows]


_SET_SPECS: Final = (
    select(func.array_agg(aggregate_order_by(AggregateSet.set_spec, AggregateSet.set_spec)))
    .where(AggregateSet.id == any_(AggregateRecord.set_ids))
    .correlate(AggregateRecord)
    .scalar_subquery()
)
_ENTRIES: Final[Any] = (
    select(
        AggregateRecord.id,
        AggregateRecord.identifier,
        AggregateRecord.datestamp,
        AggregateRecord.deleted,
        AggregateRecord.altered,
        AggregateRecord.filename,
        AggregateRecord.harvested_identifier,
        AggregateRecord.harvested_datestamp,
        AggregateRecord.harvest_time,
        AggregateSource.name,
        AggregateSource.base_url,
        harvested.REPOSITORY.c.base_dir,
        AggregateFormat.prefix,
        AggregateFormat.namespace,
        # The driver makes lists of it already; SQLAlchemy would copy each.
        type_coerce(_SET_SPECS, NullType()),
    )
    .select_from(AggregateRecord)
    .join(AggregateSource, AggregateSource.repository_id == AggregateRecord.repository_id)
    .join(AggregateFormat, AggregateFormat.id == AggregateRecord.format_id)
    .outerjoin(harvested.REPOSITORY, harvested.REPOSITORY.c.repository_id == AggregateRecord.repository_id)
)


def _read(session: Session, statement: Select[Any]) -> Sequence[Entry]:
    return list(map(Entry._make, session.connection().execute(statement).all()))
