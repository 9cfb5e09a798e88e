"""Reads harvested records from the harvester's tables as they are to be in the aggregate."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row, Select, func, select, tuple_
from sqlalchemy.orm import Session

from provider.aggregate import harvested
from provider.aggregate.formats import Formats
from provider.aggregate.leaving import take_leaving
from provider.aggregate.merging import Staged
from provider.aggregate.models import AggregateFormat, AggregateRecord, AggregateSource
from provider.aggregate.naming import given_identifier, identifier_key
from provider.aggregate.sets import SourceSets

_RECORD: Final = harvested.RECORD.c
_SPECS: Final = (
    select(func.array_agg(harvested.SET_MAPPING.c.set_spec))
    .where(harvested.SET_MAPPING.c.record_id == _RECORD.record_id)
    .scalar_subquery()
)
_COLUMNS: Final = (
    _RECORD.repository_id,
    _RECORD.metadata_prefix,
    _RECORD.identifier,
    _RECORD.identifier_key,
    _RECORD.filename,
    _RECORD.digest,
    _RECORD.datestamp,
    _RECORD.harvest_time,
    _RECORD.status,
    _SPECS.label("set_specs"),
)
_FIRST_KEY: Final = UUID(int=0)


@dataclass(frozen=True, kw_only=True)
class Gatherer:
    """Makes staged records. For one transaction, for what it makes on the way may be rolled back."""

    session: Session
    store: Path
    """Under which relative base directories lie."""
    namespace: str
    """Of own identifiers."""

    def after(self, source: AggregateSource, most: int) -> Sequence[Row[Any]]:
        """At most so many harvested records of the source behind the place that its walk has reached."""
        place = (source.walked_prefix, source.walked_key or _FIRST_KEY)
        keys = (_RECORD.metadata_prefix, _RECORD.identifier_key)
        wanted: Select[Any] = select(*_COLUMNS).where(
            _RECORD.repository_id == source.repository_id, tuple_(*keys) > tuple_(*place)
        )
        return self.session.execute(wanted.order_by(*keys).limit(most)).all()

    def named(self, source: AggregateSource, prefix: str, identifiers: Iterable[str]) -> list[Staged]:
        """The source's records with these identifiers; those that are not harvested any more as deleted."""
        wanted = {identifier_key(identifier): identifier for identifier in identifiers}
        query: Select[Any] = select(*_COLUMNS).where(
            _RECORD.repository_id == source.repository_id,
            _RECORD.metadata_prefix == prefix,
            _RECORD.identifier_key.in_(wanted),
        )
        rows = self.session.execute(query).all()
        missing = wanted.keys() - {row.identifier_key for row in rows}
        gone = self._known(source, prefix, [wanted[key] for key in missing]) if missing else []
        return [*self.staged(source, rows), *gone]

    def staged(self, source: AggregateSource, rows: Sequence[Row[Any]]) -> list[Staged]:
        """Rows of `oai_record` as they are to be in the aggregate."""
        formats = Formats(session=self.session, store=self.store)
        sets = SourceSets(session=self.session, repository_id=source.repository_id, source=source.name)
        sets.learn({spec for row in rows for spec in row.set_specs or ()})
        altered = source.altered or self._is_normalised(source.repository_id)
        found = []
        for row in rows:
            identifier = self._given(source, row.identifier)
            found.append(
                Staged(
                    repository_id=row.repository_id,
                    format_id=formats.number(row.repository_id, row.metadata_prefix),
                    identifier=identifier,
                    identifier_key=identifier_key(identifier),
                    harvested_identifier=row.identifier,
                    harvested_key=row.identifier_key,
                    filename=row.filename,
                    digest=row.digest,
                    harvested_datestamp=row.datestamp,
                    harvest_time=row.harvest_time,
                    deleted=row.status == harvested.DELETED,
                    altered=altered,
                    set_ids=sets.numbers(row.set_specs or ()),
                )
            )
        return found

    def leaving(self, source: AggregateSource, most: int, *, withdrawn: bool) -> list[Staged]:
        """The next so many of the source's records that leave (`leaving.list_leaving`), as deleted ones."""
        return _deleted(take_leaving(self.session, source.repository_id, most, withdrawn=withdrawn))

    def _known(self, source: AggregateSource, prefix: str, identifiers: list[str]) -> list[Staged]:
        keys = [identifier_key(self._given(source, identifier)) for identifier in identifiers]
        wanted = _living(source).join(AggregateFormat, AggregateFormat.id == AggregateRecord.format_id)
        mine = (AggregateRecord.identifier_key.in_(keys), AggregateFormat.harvested_prefix == prefix)
        return _deleted(self.session.execute(wanted.where(*mine)).all())

    def _given(self, source: AggregateSource, identifier: str) -> str:
        return given_identifier(
            identifier, how=source.identifiers, namespace=self.namespace, source=source.name
        )

    def _is_normalised(self, repository_id: int) -> bool:
        """Whether some schedule changes the source's records by rules."""
        schedules = harvested.RECURRING_JOB.c
        return bool(
            self.session.scalar(
                select(func.count()).where(
                    schedules.repository_id == repository_id, schedules.normalize_file_path != ""
                )
            )
        )


def _living(source: AggregateSource) -> Select[Any]:
    columns = [getattr(AggregateRecord, name) for name in Staged._fields]
    return select(*columns).where(
        AggregateRecord.repository_id == source.repository_id, AggregateRecord.deleted.is_(False)
    )


def _deleted(rows: Sequence[Row[Any]]) -> list[Staged]:
    return [Staged._make(row)._replace(deleted=True, filename=None, digest=None) for row in rows]
