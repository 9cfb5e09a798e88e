"""Reads harvested records from the harvester's tables as they are to be in the aggregate."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row, Select, func, select, text, tuple_
from sqlalchemy.orm import Session

from provider.aggregate import harvested
from provider.aggregate.formats import Formats
from provider.aggregate.identifiers import above, given_identifier, given_set, identifier_key
from provider.aggregate.merge import Staged
from provider.aggregate.models import AggregateFormat, AggregateRecord, AggregateSet, AggregateSource


@dataclass(kw_only=True)
class SourceSets:
    """The sets of one source. For one transaction."""

    session: Session
    repository_id: int
    source: str
    """Its own set."""
    known: dict[str, AggregateSet] = field(default_factory=dict)
    """By the source's spelling."""

    def learn(self, specs: Iterable[str]) -> None:
        """Have rows for these sets and those above them."""
        wanted = {spec: None for one in specs for spec in above(one) if spec not in self.known}
        if not wanted:
            return
        spelt = [given_set(self.source, spec) for spec in wanted]
        rows = self.session.scalars(select(AggregateSet).where(AggregateSet.set_spec.in_(spelt)))
        self.known |= {row.harvested_spec: row for row in rows}
        missing = [spec for spec in wanted if spec not in self.known]
        names = self._names(missing)
        # Those above come before those below: `above` gives them so.
        for spec in missing:
            self.known[spec] = self._made(spec, names.get(spec) or spec)

    def numbers(self, specs: Iterable[str]) -> list[int]:
        """Ids of sets that were learnt, in order."""
        return sorted({self.known[spec].id for spec in specs})

    def _names(self, specs: list[str]) -> dict[str, str]:
        if not specs:
            return {}
        told = harvested.SET.c
        rows = self.session.execute(
            select(told.set_spec, told.set_name).where(
                told.repository_id == self.repository_id, told.set_spec.in_(specs)
            )
        )
        return {row.set_spec: row.set_name for row in rows}

    def _made(self, spec: str, name: str) -> AggregateSet:
        upper = self.known.get(spec.rpartition(":")[0]) if ":" in spec else None
        made = AggregateSet(
            repository_id=self.repository_id,
            set_spec=given_set(self.source, spec),
            harvested_spec=spec,
            name=name,
            lineage=[],
        )
        self.session.add(made)
        self.session.flush()
        made.lineage = [*(upper.lineage if upper else ()), made.id]
        return made


# The table belongs to the updater's connection and goes with it: after an update that was cut off, the next
# one lists what is left.
_TABLE: Final = """
CREATE TEMP TABLE IF NOT EXISTS leaving (repository_id integer, id bigint, PRIMARY KEY (repository_id, id))
"""
# OFFSET keeps the look-up one by the whole key: as a join it would be planned by statistics, which what was
# just harvested does not have.
_NOT_HARVESTED: Final = """
    AND NOT EXISTS (
        SELECT FROM oai_record AS current
        WHERE current.repository_id = record.repository_id
            AND current.metadata_prefix
                = (SELECT harvested_prefix FROM aggregate_format WHERE id = record.format_id)
            AND current.identifier_key = record.harvested_key
        OFFSET 0
    )
"""
_ANY: Final = "SELECT EXISTS (SELECT FROM leaving WHERE repository_id = :repository_id)"
_LIST: Final = """
INSERT INTO leaving
SELECT repository_id, id FROM aggregate_record AS record WHERE repository_id = :repository_id AND NOT deleted
"""
_NEXT: Final = "SELECT id FROM leaving WHERE repository_id = :repository_id ORDER BY id LIMIT :most"
_TAKEN: Final = "DELETE FROM leaving WHERE repository_id = :repository_id AND id = ANY(:ids)"
_RECORDS: Final = f"""
SELECT {", ".join(Staged._fields)} FROM aggregate_record AS record WHERE id = ANY(:ids) AND NOT deleted
"""  # noqa: S608 built from our own words


def list_leaving(session: Session, repository_id: int, *, withdrawn: bool) -> bool:
    """List the source's living records that leave, unless some are listed still; gives whether there are any.

    All of a withdrawn source leave, of others those that are no longer harvested. The caller commits.
    """
    values = {"repository_id": repository_id}
    session.execute(text(_TABLE))
    if session.execute(text(_ANY), values).scalar_one():
        return True
    session.execute(text(_LIST if withdrawn else _LIST + _NOT_HARVESTED), values)
    # Without statistics, a piece would be sorted out of all that are listed.
    session.execute(text("ANALYZE leaving"))
    return bool(session.execute(text(_ANY), values).scalar_one())


def take_leaving(session: Session, repository_id: int, most: int, *, withdrawn: bool) -> Sequence[Row[Any]]:
    """The next so many records that were listed, with the columns of Staged, and take them off the list.

    Those that do not leave any more, for they were harvested meanwhile, are left out.
    """
    values = {"repository_id": repository_id}
    ids = list(session.scalars(text(_NEXT), {**values, "most": most}))
    session.execute(text(_TAKEN), {**values, "ids": ids})
    return session.execute(text(_RECORDS if withdrawn else _RECORDS + _NOT_HARVESTED), {"ids": ids}).all()


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
