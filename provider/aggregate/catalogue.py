"""The aggregate's catalogue: harvested records for the protocol's six verbs."""

import re
import uuid
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
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

from oai.console import counted
from oai.database import Database
from oai.datestamps import format_datestamp
from oai.sections import ProviderSettings
from oai.settings import Settings
from oai.vocabulary import OAI_DC_NAMESPACE, OAI_DC_SCHEMA
from oai.xml import escape
from provider.aggregate import harvested
from provider.aggregate.formats import OAI_DC
from provider.aggregate.identifiers import Identifiers, identifier_key
from provider.aggregate.models import (
    AggregateCount,
    AggregateFormat,
    AggregateMembership,
    AggregateRecord,
    AggregateSet,
    AggregateSource,
)
from provider.aggregate.sources import FORMER_ADDRESS, list_sources, oldest_identifier
from provider.aggregate.stored_records import (
    MissingFolderError,
    UnreadableRecordError,
    provenance,
    read_stored,
    within_answer,
)
from provider.models import UNLISTED
from provider.protocol.catalogue import Identity, OfferedFormat, SetRow
from provider.protocol.formats.format import Site
from provider.protocol.repository import Repository
from provider.protocol.tokens import Position

_MOST_AHEAD: Final = 5000
"""Maximum number of records not yet due that are counted for a list's size."""
PURPOSE: Final = "resumption token of the aggregate"
"""The purpose under which `oai.signing` stores the key that signs the tokens."""
_SCHEME: Final = re.compile("oai:[^:]+")
_OAI_DC: Final = OfferedFormat(prefix=OAI_DC, schema=OAI_DC_SCHEMA, namespace=OAI_DC_NAMESPACE)
_NOTHING_OF_THE_ARCHIVE: Final[dict[str, Any]] = {
    "earliest_datestamp": None,
    "content_policy": None,
    "metadata_policy": None,
    "data_policy": None,
    "metadata_licence": None,
    "descriptions": (),
}
"""Statements of the settings about the archive's own records, which do not apply to harvested records."""


class Entry(NamedTuple):
    """A record with everything that an answer states about it besides the contents of its file."""

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
    """The setSpec of its source."""
    base_url: str
    """The base URL of its source when it was harvested."""
    base_dir: str | None
    """None if the repository has been removed."""
    prefix: str
    """The metadataPrefix in the aggregate."""
    namespace: str
    """The namespace of its metadata."""
    set_specs: Sequence[str] | None
    """The source's sets that its header names."""

    @property
    def place(self) -> int:
        """What names it in a resumption token."""
        return self.id


@dataclass(frozen=True, kw_only=True)
class AggregateScope:
    """The records of one format in a set, or in all sets, and the index that orders them."""

    format_id: int
    datestamp: InstrumentedAttribute[datetime]
    id: InstrumentedAttribute[int]
    conditions: tuple[ColumnElement[bool], ...]
    kept_size: Select[Any]


def find_scope(session: Session, format_id: int, set_spec: str | None) -> AggregateScope | None:
    """Return the scope of a set, of all records if `set_spec` is None, or None if the set does not exist."""
    counts = select(func.sum(AggregateCount.records)).where(AggregateCount.format_id == format_id)
    if set_spec is None:
        own = select(AggregateSet.id).join(AggregateSource, AggregateSource.name == AggregateSet.set_spec)
        return _records(format_id, counts.where(AggregateCount.set_id.in_(own)))
    row = session.execute(
        select(AggregateSet.id, AggregateSet.repository_id).where(AggregateSet.set_spec == set_spec)
    ).one_or_none()
    if row is None:
        return None
    kept = counts.where(AggregateCount.set_id == row.id)
    if ":" not in set_spec:  # The source's own set.
        return _records(format_id, kept, AggregateRecord.repository_id == row.repository_id)
    return AggregateScope(
        format_id=format_id,
        datestamp=AggregateMembership.datestamp,
        id=AggregateMembership.record_id,
        conditions=(AggregateMembership.set_id == row.id, AggregateMembership.format_id == format_id),
        kept_size=kept,
    )


def _records(format_id: int, kept_size: Select[Any], *conditions: ColumnElement[bool]) -> AggregateScope:
    return AggregateScope(
        format_id=format_id,
        datestamp=AggregateRecord.datestamp,
        id=AggregateRecord.id,
        conditions=(*conditions, AggregateRecord.format_id == format_id),
        kept_size=kept_size,
    )


def entry_page(
    session: Session,
    scope: AggregateScope,
    *,
    from_: datetime | None,
    until: datetime,
    after: Position | None,
    limit: int,
) -> Sequence[Entry]:
    """Return at most `limit` records of the scope by (datestamp, id), after `after` and up to `until`."""
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
    """Return the due records of an item, one for each of its formats."""
    named = _ENTRIES.where(AggregateRecord.identifier_key == key, AggregateRecord.datestamp <= until)
    return _read(session, named.order_by(AggregateRecord.format_id))


def list_size(session: Session, scope: AggregateScope, mark: datetime) -> int | None:
    """Return the number of records in the scope from the kept counts; None if too many are not due yet."""
    ahead = (
        select(scope.id)
        .where(*scope.conditions, scope.datestamp > mark, scope.datestamp < UNLISTED)
        .order_by(scope.datestamp.desc(), scope.id.desc())
        .limit(_MOST_AHEAD + 1)
        .subquery()
    )
    not_due = session.scalar(select(func.count()).select_from(ahead)) or 0
    kept = session.scalar(scope.kept_size)
    return None if kept is None or not_due > _MOST_AHEAD else int(kept) - not_due


def set_page(session: Session, *, after: str | None, limit: int) -> Sequence[SetRow]:
    """Return at most `limit` sets after `after`, ordered by the bytes of their setSpecs."""
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
        func.coalesce(FORMER_ADDRESS, AggregateSource.base_url),
        harvested.REPOSITORY.c.base_dir,
        AggregateFormat.prefix,
        AggregateFormat.namespace,
        # The driver already returns lists; SQLAlchemy would copy each of them.
        type_coerce(_SET_SPECS, NullType()),
    )
    .select_from(AggregateRecord)
    .join(AggregateSource, AggregateSource.repository_id == AggregateRecord.repository_id)
    .join(AggregateFormat, AggregateFormat.id == AggregateRecord.format_id)
    .outerjoin(harvested.REPOSITORY, harvested.REPOSITORY.c.repository_id == AggregateRecord.repository_id)
)


def _read(session: Session, statement: Select[Any]) -> Sequence[Entry]:
    return list(map(Entry._make, session.connection().execute(statement).all()))


class UnreadablePageError(UnreadableRecordError):
    """Some records of a page cannot be read; holds the reason for each by record id."""

    def __init__(self, reasons: dict[int, str]) -> None:
        first = next(iter(reasons.values()))
        super().__init__(f"{counted(len(reasons), 'record')} cannot be read, the first: {first}")
        self.reasons = reasons


def make_aggregate(settings: Settings, database: Database, base_url: str) -> Repository:
    """Return the aggregate's repository; does not access the database yet."""
    site = Site(base_url=base_url, settings=aggregate_settings(settings.provider))
    catalogue = AggregateCatalogue(database=database, store=settings.store, settings=site.settings)
    # Without replicas: they may still have places of records that the store does not have any more.
    return Repository(site=site, database=database, catalogue=catalogue, token_purpose=PURPOSE)


def aggregate_settings(settings: ProviderSettings) -> ProviderSettings:
    """Return the provider's settings adapted to the aggregate."""
    name = settings.aggregate_name or f"{settings.repository_name}: harvested records"
    return settings.model_copy(update={**_NOTHING_OF_THE_ARCHIVE, "repository_name": name})


def is_set_up(session: Session) -> bool:
    """Return whether a source was ever added."""
    return session.scalar(select(AggregateSource.repository_id).limit(1)) is not None


@dataclass(frozen=True, kw_only=True)
class AggregateCatalogue:
    """The aggregate as a `provider.protocol.catalogue.Catalogue`."""

    database: Database
    store: Path
    """The folder that relative base directories are resolved against."""
    settings: ProviderSettings

    @property
    def prefixes(self) -> Container[str]:
        """The prefixes of all harvested formats, read from the database on each membership test."""
        return _Prefixes(self)

    def formats(self, session: Session) -> Sequence[OfferedFormat]:
        """Return all harvested formats; oai_dc if there are none, because every repository must offer it."""
        rows = session.scalars(select(AggregateFormat).order_by(AggregateFormat.id))
        return [_offered(row.prefix, row.schema, row.namespace) for row in rows] or [_OAI_DC]

    def has_format(self, session: Session, prefix: str) -> bool:
        """Return whether records were harvested in this format."""
        return any(prefix == offered.prefix for offered in self.formats(session))

    def item(self, session: Session, identifier: str, mark: datetime) -> "_Item | None":
        """Return the records with this identifier, in all formats."""
        found = entries_of(session, identifier_key(identifier), mark)
        return _Item(entries=found, catalogue=self, session=session) if found else None

    def extent(self, session: Session, prefix: str, set_spec: str | None) -> "_Extent | None":
        """Return the records of a format, of a source, or of a source's set."""
        format_id = session.scalar(select(AggregateFormat.id).where(AggregateFormat.prefix == prefix))
        # Before the first harvest, the format oai_dc exists but has no records.
        scope = find_scope(session, format_id or 0, set_spec)
        return None if scope is None else _Extent(session=session, scope=scope, catalogue=self)

    def sets(self, session: Session, *, after: str | None, limit: int) -> Sequence[SetRow]:
        """Return the sources' sets and the sets below each of them."""
        return set_page(session, after=after, limit=limit)

    def identity(self, session: Session) -> Identity:
        """Return the earliest datestamp, and the sources as friends."""
        # One index descent for each format.
        oldest = select(func.min(AggregateRecord.datestamp)).where(
            AggregateRecord.format_id == AggregateFormat.id
        )
        earliest = session.scalar(select(func.min(oldest.scalar_subquery())).select_from(AggregateFormat))
        sources = list_sources(session)
        followed = [source.base_url for source in sources if source.withdrawn is None]
        return Identity(
            earliest=earliest,
            sample=self._sample(session, sources),
            friends=list(dict.fromkeys(followed)),
        )

    def _sample(self, session: Session, sources: Sequence[AggregateSource]) -> str | None:
        """Return an identifier of the scheme that all identifiers follow, or None if there is no such scheme.

        Withdrawn sources count, because their records are still listed as deleted.
        """
        if any(source.identifiers != Identifiers.OWN for source in sources):
            return None
        schemes = set()
        for source in sources:
            unpublished = f"oai:{self.settings.namespace}:{source.name}:1"
            oldest = oldest_identifier(session, source.repository_id) or unpublished
            schemes.add(oldest.partition(f":{source.name}:")[0])
        scheme = schemes.pop() if len(schemes) == 1 else ""
        return f"{scheme}:{sources[0].name}:1" if _SCHEME.fullmatch(scheme) else None

    def record(self, entry: Entry) -> str:
        """Return the record element; for a deleted record, only its header. Raises UnreadableRecordError."""
        if entry.deleted:
            return f"<record>{header(entry)}</record>"
        if entry.filename is None or entry.base_dir is None:
            raise UnreadableRecordError(f"{entry.harvested_identifier!r} no longer has a file")
        stored = read_stored(self.store / entry.base_dir, entry.filename, entry.harvested_identifier)
        where_from = provenance(
            base_url=entry.base_url,
            identifier=entry.harvested_identifier,
            datestamp=entry.harvested_datestamp,
            namespace=entry.namespace or stored.namespace,
            harvested=entry.harvest_time,
            altered=entry.altered or stored.repaired,
            origin=stored.origin,
        )
        content = "".join(within_answer(part) for part in (stored.metadata, *stored.abouts))
        return f"<record>{header(entry)}{content}{where_from}</record>"


def header(entry: Entry) -> str:
    """Return the header element with the record's sets, or its source's set if it has none."""
    status = ' status="deleted"' if entry.deleted else ""
    specs = "".join(f"<setSpec>{escape(spec)}</setSpec>" for spec in entry.set_specs or (entry.source,))
    return (
        f"<header{status}><identifier>{escape(entry.identifier)}</identifier>"
        f"<datestamp>{format_datestamp(entry.datestamp)}</datestamp>{specs}</header>"
    )


def _offered(prefix: str, schema: str, namespace: str) -> OfferedFormat:
    return OfferedFormat(prefix=prefix, schema=schema or namespace, namespace=namespace)


class _Prefixes:
    def __init__(self, catalogue: AggregateCatalogue) -> None:
        self._catalogue = catalogue

    def __contains__(self, prefix: object) -> bool:
        with self._catalogue.database.session() as session:
            return self._catalogue.has_format(session, str(prefix))


@dataclass(frozen=True, kw_only=True)
class _Item:
    entries: Sequence[Entry]
    catalogue: AggregateCatalogue
    session: Session

    def formats(self) -> Sequence[OfferedFormat]:
        mine = {entry.prefix for entry in self.entries}
        return [offered for offered in self.catalogue.formats(self.session) if offered.prefix in mine]

    def record(self, prefix: str) -> str | None:
        for entry in self.entries:
            if entry.prefix == prefix:
                return _all([entry], self.catalogue.record)[0]
        return None


@dataclass(frozen=True, kw_only=True)
class _Extent:
    session: Session
    scope: AggregateScope
    catalogue: AggregateCatalogue

    def page(
        self, *, from_: datetime | None, until: datetime, after: Position | None, limit: int
    ) -> Sequence[Entry]:
        return entry_page(self.session, self.scope, from_=from_, until=until, after=after, limit=limit)

    def size(self, mark: datetime) -> int | None:
        return list_size(self.session, self.scope, mark)

    def records(self, found: Sequence[Entry]) -> list[str]:
        return _all(found, self.catalogue.record)

    def headers(self, found: Sequence[Entry]) -> list[str]:
        return [header(entry) for entry in found]


def _all(entries: Sequence[Entry], write: Callable[[Entry], str]) -> list[str]:
    """Return every record, or raise for the page: a harvester would never request a missing record again.

    After one file, the other files of a missing base directory are not tried: each may take seconds.
    """
    written = []
    reasons = {}
    missing: dict[str | None, str] = {}
    for entry in entries:
        if entry.base_dir in missing:
            reasons[entry.id] = missing[entry.base_dir]
            continue
        try:
            written.append(write(entry))
        except UnreadableRecordError as error:
            reasons[entry.id] = str(error)
            if isinstance(error, MissingFolderError):
                missing[entry.base_dir] = str(error)
    if reasons:
        raise UnreadablePageError(reasons)
    return written
