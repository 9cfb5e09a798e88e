"""The titles as a catalogue for the protocol's six verbs: every title is available in every format."""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, exists, func, select, text, tuple_
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import InstrumentedAttribute, Session

from oai.database import Database
from oai.datestamps import format_datestamp
from oai.sections import ProviderSettings
from oai.settings import Settings
from oai.xml import escape
from provider.models import UNLISTED
from provider.protocol.catalogue import Identity, OfferedFormat, SetRow
from provider.protocol.formats.format import Site
from provider.protocol.replicas import Replicas
from provider.protocol.repository import Repository
from provider.protocol.tokens import Position
from provider.titles.models import (
    SeedKind,
    Title,
    TitleEnrichment,
    TitleMembership,
    TitleSeed,
    TitleSegment,
    TitleSet,
)

PURPOSE: Final = "resumption token of the titles"
"""The purpose under which `oai.signing` stores the key that signs the tokens."""
_KEY: Final = re.compile(r"[0-9a-f]{32}")
_SAMPLE: Final = uuid.UUID("0123456789abcdef0123456789abcdef")
_NOT_OF_TITLES: Final[dict[str, Any]] = {"earliest_datestamp": None, "descriptions": ()}
"""Statements of the settings about the archive's own records, which do not apply to titles."""


class TitleItem(NamedTuple):
    """A title with everything that an answer states about it."""

    key: uuid.UUID
    datestamp: datetime
    """UTC, whole seconds."""
    entered: datetime | None
    """Its first datestamp."""
    deleted: bool
    name: str
    alternative_names: Sequence[str]
    publisher: str | None
    annotation: str | None
    languages: Sequence[str]
    issn: str | None
    catalogue_number: str | None
    classification: Sequence[str]
    subjects: Sequence[Mapping[str, Any]]
    """See `provider.titles.models.Title.subjects`."""
    keywords: Sequence[str]
    collections: Sequence[str]
    licence: str | None
    """Key of `provider.titles.licences`."""
    captures: int
    first_capture: datetime | None
    last_capture: datetime | None
    captures_by_year: Mapping[str, int]
    urls: Sequence[str] | None
    """Its addresses, the main one first."""
    set_specs: Sequence[str] | None
    """The sets that it is in, without their parents."""
    has_document_set: bool
    """Whether its documents are a set in `/oai` (`provider.titles.document_sets`)."""
    published_in: str | None = None
    """Place of publication in words."""
    country: str | None = None
    """Country of publication, a MARC code such as `xr`."""
    first_published: int | None = None
    """Year of the first publication."""

    @property
    def place(self) -> uuid.UUID:
        """What names it in a resumption token."""
        return self.key

    @property
    def url(self) -> str | None:
        """Its main address; None if its source gives none."""
        return self.urls[0] if self.urls else None


def identifier(namespace: str, key: uuid.UUID) -> str:
    """Return `oai:<namespace>:title:<32 hexadecimal digits>`."""
    return f"oai:{namespace}:title:{key.hex}"


_URLS: Final = (
    select(func.array_agg(aggregate_order_by(TitleSeed.url, TitleSeed.main.desc(), TitleSeed.position)))
    .where(TitleSeed.title_id == Title.title_id, TitleSeed.kind == SeedKind.INCLUDE)
    .correlate(Title)
    .scalar_subquery()
)
_SPECS: Final = (
    select(func.array_agg(aggregate_order_by(TitleMembership.set_spec, TitleMembership.set_spec)))
    .where(TitleMembership.title_id == Title.title_id, TitleMembership.set_spec.contains(":"))
    .correlate(Title)
    .scalar_subquery()
)
_HAS_DOCUMENT_SET: Final = exists().where(TitleSegment.title_id == Title.title_id, TitleSegment.in_set)
_COLUMNS: Final = tuple(getattr(Title, name) for name in TitleItem._fields[:-6])
_ADDED: Final = (
    TitleEnrichment.place,
    TitleEnrichment.country,
    TitleEnrichment.first_published,
    TitleEnrichment.languages,
    TitleEnrichment.alternative_names,
)
"""What a library's catalogue adds; the last two complete what the title's source has."""
_TITLES: Final[Any] = (
    select(*_COLUMNS, _URLS, _SPECS, _HAS_DOCUMENT_SET, *_ADDED)
    .select_from(Title)
    .outerjoin(TitleEnrichment, TitleEnrichment.title_id == Title.title_id)
)


def title_by_key(session: Session, key: uuid.UUID, until: datetime) -> TitleItem | None:
    """Return the title if a record of it, perhaps a deleted one, is due."""
    found = _read(session, _TITLES.where(Title.key == key, Title.datestamp <= until))
    return found[0] if found else None


def _read(session: Session, statement: Select[Any]) -> Sequence[TitleItem]:
    return [_item(*row) for row in session.connection().execute(statement)]


def _item(*row: Any) -> TitleItem:  # noqa: ANN401 the columns of `_TITLES`
    *values, languages, names = row
    title = TitleItem._make(values)
    return title._replace(
        languages=title.languages or languages or [],
        alternative_names=all_names(title.name, title.alternative_names, names or ()),
    )


def all_names(name: str, own: Sequence[str], added: Sequence[str]) -> list[str]:
    """Return the alternative names of a title: those of its source, then those its catalogue record adds.

    A name that differs from another one only in case is not added.

    >>> all_names("Vesmír", ["Universe"], ["VESMÍR", "Živa"])
    ['Universe', 'Živa']
    """
    known = {one.casefold() for one in (name, *own)}
    return [*own, *(one for one in dict.fromkeys(added) if one.casefold() not in known)]


def _is_known(set_spec: str | InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Return the condition that a set has or had a listed title; others must look like missing ones."""
    listed = TitleMembership.datestamp < UNLISTED
    return exists().where(TitleMembership.set_spec == set_spec, listed)


@dataclass(frozen=True, kw_only=True)
class TitleFormat:
    """A metadata format of titles."""

    offered: OfferedFormat
    write: "Callable[[TitleItem, Site], str]"
    """Returns one XML element with its own declarations and escaped text."""


@dataclass(frozen=True, kw_only=True)
class TitleCatalogue:
    """The titles as a `provider.protocol.catalogue.Catalogue`."""

    site: Site
    prefixes: Mapping[str, TitleFormat]
    """The offered formats, by metadataPrefix."""

    def formats(self, _session: Session) -> Sequence[OfferedFormat]:
        """Return all offered formats."""
        return [format_.offered for format_ in self.prefixes.values()]

    def has_format(self, _session: Session, prefix: str) -> bool:
        """Return whether the format is offered."""
        return prefix in self.prefixes

    def item(self, session: Session, named: str, now: datetime) -> "_Item | None":
        """Return the title with this identifier."""
        begin = identifier(self.site.settings.namespace, _SAMPLE).removesuffix(_SAMPLE.hex)
        digits = named.removeprefix(begin)
        if digits == named or not _KEY.fullmatch(digits):
            return None
        found = title_by_key(session, uuid.UUID(hex=digits), now)
        return None if found is None else _Item(title=found, catalogue=self)

    def extent(self, session: Session, prefix: str, set_spec: str | None) -> "_Extent | None":
        """Return the titles of a set."""
        known = set_spec is None or session.scalar(select(_is_known(set_spec)))
        return _Extent(session, self, self.prefixes[prefix], set_spec) if known else None

    def sets(self, session: Session, *, after: str | None, limit: int) -> Sequence[SetRow]:
        """Return the sets that have or had a listed title."""
        rows = session.execute(
            select(TitleSet.set_spec, TitleSet.name, TitleSet.description)
            .where(TitleSet.set_spec > (after or ""), _is_known(TitleSet.set_spec))
            .order_by(TitleSet.set_spec)
            .limit(limit)
        )
        return [SetRow(set_spec=spec, name=name, description=text) for spec, name, text in rows]

    def identity(self, session: Session) -> Identity:
        """Return the earliest datestamp, and the identifier of that title as the sample."""
        earliest = session.execute(
            select(Title.datestamp, Title.key)
            .where(Title.datestamp < UNLISTED)
            .order_by(Title.datestamp, Title.key)
            .limit(1)
        ).one_or_none()
        datestamp, key = earliest or (None, _SAMPLE)
        settings = self.site.settings
        return Identity(
            earliest=datestamp, sample=identifier(settings.namespace, key), friends=settings.friends
        )

    def header(self, title: TitleItem) -> str:
        """Return the header element with the title's sets."""
        status = ' status="deleted"' if title.deleted else ""
        specs = "".join(f"<setSpec>{escape(spec)}</setSpec>" for spec in title.set_specs or ())
        return (
            f"<header{status}><identifier>{identifier(self.site.settings.namespace, title.key)}</identifier>"
            f"<datestamp>{format_datestamp(title.datestamp)}</datestamp>{specs}</header>"
        )

    def record(self, title: TitleItem, format_: TitleFormat) -> str:
        """Return the record element; for a deleted record, only its header."""
        if title.deleted:
            return f"<record>{self.header(title)}</record>"
        metadata = format_.write(title, self.site)
        return f"<record>{self.header(title)}<metadata>{metadata}</metadata></record>"


@dataclass(frozen=True, kw_only=True)
class _Item:
    title: TitleItem
    catalogue: TitleCatalogue

    def formats(self) -> Sequence[OfferedFormat]:
        return [format_.offered for format_ in self.catalogue.prefixes.values()]

    def record(self, prefix: str) -> str | None:
        format_ = self.catalogue.prefixes.get(prefix)
        return None if format_ is None else self.catalogue.record(self.title, format_)


@dataclass(frozen=True)
class _Extent:
    session: Session
    catalogue: TitleCatalogue
    format: TitleFormat
    set_spec: str | None

    def page(
        self, *, from_: datetime | None, until: datetime, after: Position | None, limit: int
    ) -> Sequence[TitleItem]:
        datestamp, key, conditions = self._scan()
        window = [*conditions, datestamp <= until]
        if after is not None:
            window.append(tuple_(datestamp, key) > tuple_(after.datestamp, after.id))
        elif from_ is not None:
            window.append(datestamp >= from_)
        scan = select(key.label("key")).where(*window).order_by(datestamp, key).limit(limit).subquery()
        found = _TITLES.join(scan, scan.c.key == Title.key).order_by(Title.datestamp, Title.key)
        return _read(self.session, found)

    def size(self, now: datetime) -> int | None:
        datestamp, _, conditions = self._scan()
        return self.session.scalar(select(func.count()).where(*conditions, datestamp <= now))

    def _scan(
        self,
    ) -> tuple[InstrumentedAttribute[datetime], InstrumentedAttribute[uuid.UUID], list[ColumnElement[bool]]]:
        """Return the columns of the index that orders the scope, and what limits it."""
        if self.set_spec is None:
            return Title.datestamp, Title.key, []
        mine = TitleMembership.set_spec == self.set_spec
        return TitleMembership.datestamp, TitleMembership.key, [mine]

    def records(self, found: Sequence[TitleItem]) -> list[str]:
        return [self.catalogue.record(title, self.format) for title in found]

    def headers(self, found: Sequence[TitleItem]) -> list[str]:
        return [self.catalogue.header(title) for title in found]


def titles_settings(settings: ProviderSettings) -> ProviderSettings:
    """Return the provider's settings adapted to the repository of titles."""
    name = settings.titles_name or f"{settings.repository_name}: titles"
    archive = settings.archive_name or settings.repository_name
    return settings.model_copy(update={**_NOT_OF_TITLES, "repository_name": name, "archive_name": archive})


def make_titles(
    settings: Settings,
    database: Database,
    base_url: str,
    formats: Mapping[str, TitleFormat],
    replicas: Replicas | None = None,
) -> Repository:
    """Return the repository of titles; does not access the database yet."""
    site = Site(base_url=base_url, settings=titles_settings(settings.provider))
    catalogue = TitleCatalogue(site=site, prefixes=formats)
    return Repository(
        site=site, database=database, catalogue=catalogue, replicas=replicas, token_purpose=PURPOSE
    )


def has_titles(session: Session) -> bool:
    """Return whether a title was ever listed."""
    return bool(
        session.scalar(text("SELECT EXISTS (SELECT FROM title WHERE datestamp < :n)"), {"n": UNLISTED})
    )
