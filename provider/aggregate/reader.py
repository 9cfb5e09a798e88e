"""Reads harvested records from the harvester's tables and stages them for the aggregate."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
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
from provider.aggregate.sources import RECORDS, begin_walk, published_namespace


@dataclass(kw_only=True)
class SourceSets:
    """The sets of one source. For use in one transaction."""

    session: Session
    repository_id: int
    source: str
    """The setSpec of the source's own set."""
    known: dict[str, AggregateSet] = field(default_factory=dict)
    """By the source's spelling."""

    def learn(self, specs: Iterable[str]) -> None:
        """Ensure that rows exist for these sets and their ancestors."""
        wanted = {spec: None for one in specs for spec in above(one) if spec not in self.known}
        if not wanted:
            return
        spelt = [given_set(self.source, spec) for spec in wanted]
        rows = self.session.scalars(select(AggregateSet).where(AggregateSet.set_spec.in_(spelt)))
        self.known |= {row.harvested_spec: row for row in rows}
        missing = [spec for spec in wanted if spec not in self.known]
        names = self._names(missing)
        # `above` returns ancestors first, so each set's parent exists when the set is created.
        for spec in missing:
            self.known[spec] = self._made(spec, names.get(spec) or spec or given_set(self.source, spec))

    def numbers(self, specs: Iterable[str]) -> list[int]:
        """Return the ids of sets passed to `learn`, in ascending order."""
        return sorted({self.known[spec].id for spec in specs})

    def _names(self, specs: list[str]) -> dict[str, str]:
        if not specs:
            return {}
        sets = harvested.SET.c
        rows = self.session.execute(
            select(sets.set_spec, sets.set_name).where(
                sets.repository_id == self.repository_id, sets.set_spec.in_(specs)
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


# The table belongs to the updater's connection and is dropped with it: after an interrupted update, the
# next one lists the remaining records again.
_TABLE: Final = """
CREATE TEMP TABLE IF NOT EXISTS leaving (repository_id integer, id bigint, PRIMARY KEY (repository_id, id))
"""
# OFFSET forces one index look-up per key: PostgreSQL would plan a join from statistics, which freshly
# harvested rows do not have yet.
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
"""  # noqa: S608 constant names


def list_leaving(session: Session, repository_id: int, *, withdrawn: bool) -> bool:
    """List the source's live records that leave, unless some are still listed; return whether there are any.

    All records of a withdrawn source leave; of another source, those no longer harvested. The caller
    commits.
    """
    values = {"repository_id": repository_id}
    session.execute(text(_TABLE))
    if session.execute(text(_ANY), values).scalar_one():
        return True
    session.execute(text(_LIST if withdrawn else _LIST + _NOT_HARVESTED), values)
    # Without statistics, each part would be found by sorting all listed records.
    session.execute(text("ANALYZE leaving"))
    return bool(session.execute(text(_ANY), values).scalar_one())


def take_leaving(session: Session, repository_id: int, most: int, *, withdrawn: bool) -> Sequence[Row[Any]]:
    """Remove up to `most` records from the list and return them with the columns of Staged.

    Records that were harvested again in the meantime are omitted.
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
_ACTIVE: Final[Select[Any]] = select(*(getattr(AggregateRecord, name) for name in Staged._fields)).where(
    AggregateRecord.deleted.is_(False)
)
_FIRST_KEY: Final = UUID(int=0)


@dataclass(frozen=True, kw_only=True)
class Gatherer:
    """Creates staged records. For use in one transaction, because rows that it creates may be rolled back."""

    session: Session
    store: Path
    """The folder that relative base directories are resolved against."""
    namespace: str
    """The namespace of own identifiers of sources that have not published any yet."""

    def after(self, source: AggregateSource, most: int) -> Sequence[Row[Any]]:
        """Return at most `most` harvested records of the source after the position of its walk."""
        place = (source.walked_prefix, source.walked_key or _FIRST_KEY)
        keys = (_RECORD.metadata_prefix, _RECORD.identifier_key)
        wanted: Select[Any] = select(*_COLUMNS).where(
            _RECORD.repository_id == source.repository_id, tuple_(*keys) > tuple_(*place)
        )
        return self.session.execute(wanted.order_by(*keys).limit(most)).all()

    def named(self, source: AggregateSource, prefix: str, identifiers: Iterable[str]) -> list[Staged]:
        """Return the source's records with these identifiers; those no longer harvested as deleted."""
        wanted = {identifier_key(identifier): identifier for identifier in identifiers}
        query: Select[Any] = select(*_COLUMNS).where(
            _RECORD.repository_id == source.repository_id,
            _RECORD.metadata_prefix == prefix,
            _RECORD.identifier_key.in_(wanted),
        )
        rows = self.session.execute(query).all()
        missing = wanted.keys() - {row.identifier_key for row in rows}
        gone = self._known(source, prefix, [wanted[key] for key in missing]) if missing else []
        formats = Formats(session=self.session, store=self.store)
        staged = self._staged(source, rows, formats)
        passed = source.walk != RECORDS or source.walked_prefix > prefix
        if prefix in formats.begun and passed and self._others_deleted(source, prefix, list(wanted)):
            begin_walk(source, prefix)
        return [*staged, *gone]

    def _others_deleted(self, source: AggregateSource, prefix: str, keys: Sequence[UUID]) -> bool:
        """Return whether there are other deleted records, skipped while nothing showed the format."""
        others = select(harvested.RECORD).where(
            _RECORD.repository_id == source.repository_id,
            _RECORD.metadata_prefix == prefix,
            _RECORD.status == harvested.DELETED,
            _RECORD.identifier_key.not_in(keys),
        )
        return bool(self.session.scalar(select(others.exists())))

    def staged(self, source: AggregateSource, rows: Sequence[Row[Any]]) -> list[Staged]:
        """Return rows of `oai_record` as staged records, without deleted ones of an unknown format."""
        return self._staged(source, rows, Formats(session=self.session, store=self.store))

    def _staged(self, source: AggregateSource, rows: Sequence[Row[Any]], formats: Formats) -> list[Staged]:
        sets = SourceSets(session=self.session, repository_id=source.repository_id, source=source.name)
        sets.learn({spec for row in rows for spec in row.set_specs or ()})
        altered = source.altered or self._is_normalised(source.repository_id)
        found = []
        for row in rows:
            format_id = formats.number(row.repository_id, row.metadata_prefix)
            if format_id is None:
                continue
            identifier = self._given(source, row.identifier)
            found.append(
                Staged(
                    repository_id=row.repository_id,
                    format_id=format_id,
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
        return [*found, *self._corrected(source, formats, found)]

    def leaving(self, source: AggregateSource, most: int, *, withdrawn: bool) -> list[Staged]:
        """Return up to `most` records that leave (see `list_leaving`), as deleted records."""
        return _deleted(take_leaving(self.session, source.repository_id, most, withdrawn=withdrawn))

    def renamed(self, ids: Iterable[int], staged: Iterable[Staged]) -> list[Staged]:
        """Return those of the records whose published identifiers are not in `staged`, as deleted records."""
        named = {(one.format_id, one.identifier_key) for one in staged}
        rows = self.session.execute(_ACTIVE.where(AggregateRecord.id.in_(ids))).all()
        return _deleted([row for row in rows if (row.format_id, row.identifier_key) not in named])

    def _corrected(self, source: AggregateSource, formats: Formats, staged: Sequence[Staged]) -> list[Staged]:
        """Return records that are still published in another format of their prefix, as deleted records."""
        gone: list[Staged] = []
        for format_id in {one.format_id for one in staged}:
            others = formats.others(format_id)
            if others:
                keys = [one.identifier_key for one in staged if one.format_id == format_id]
                wanted = _ACTIVE.where(
                    AggregateRecord.repository_id == source.repository_id,
                    AggregateRecord.identifier_key.in_(keys),
                    AggregateRecord.format_id.in_(others),
                )
                gone += _deleted(self.session.execute(wanted).all())
        return gone

    def _known(self, source: AggregateSource, prefix: str, identifiers: list[str]) -> list[Staged]:
        keys = [identifier_key(self._given(source, identifier)) for identifier in identifiers]
        wanted = _ACTIVE.join(AggregateFormat, AggregateFormat.id == AggregateRecord.format_id).where(
            AggregateRecord.repository_id == source.repository_id,
            AggregateRecord.identifier_key.in_(keys),
            AggregateFormat.harvested_prefix == prefix,
        )
        return _deleted(self.session.execute(wanted).all())

    def _given(self, source: AggregateSource, identifier: str) -> str:
        namespace = partial(self._namespace, source)
        return given_identifier(identifier, how=source.identifiers, namespace=namespace, source=source.name)

    def _namespace(self, source: AggregateSource) -> str:
        """Return the namespace of the source's own identifiers; from the first one on, it stays the same.

        A published record is only found by its identifier.
        """
        if source.namespace is None:
            source.namespace = published_namespace(self.session, source.repository_id)
        source.namespace = source.namespace or self.namespace
        return source.namespace

    def _is_normalised(self, repository_id: int) -> bool:
        """Return whether a schedule of the repository changes records by normalise rules."""
        schedules = harvested.RECURRING_JOB.c
        return bool(
            self.session.scalar(
                select(func.count()).where(
                    schedules.repository_id == repository_id, schedules.normalize_file_path != ""
                )
            )
        )


def _deleted(rows: Sequence[Row[Any]]) -> list[Staged]:
    return [Staged._make(row)._replace(deleted=True, filename=None, digest=None) for row in rows]
