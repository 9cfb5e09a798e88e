"""The archive's documents as a catalogue: every document is available in every format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from provider.holdings.identifiers import oai_identifier, parse_oai_identifier
from provider.models import UNLISTED, Document
from provider.protocol import answers
from provider.protocol.catalogue import Identity, OfferedFormat, SetRow
from provider.protocol.formats.format import Format, Site
from provider.protocol.items import Item
from provider.protocol.pages import item_by_key, item_page, list_size, set_page
from provider.protocol.scopes import Scope, find_scope
from provider.protocol.tokens import Position

_SAMPLE_KEY: Final = UUID("0123456789abcdef0123456789abcdef")


@dataclass(frozen=True, kw_only=True)
class ArchiveCatalogue:
    """The archive as a `provider.protocol.catalogue.Catalogue`."""

    site: Site
    prefixes: Mapping[str, Format]
    """The offered formats, by metadataPrefix."""

    def formats(self, _session: Session) -> Sequence[OfferedFormat]:
        """Return all offered formats."""
        return self.offered

    @property
    def offered(self) -> Sequence[OfferedFormat]:
        """The formats for ListMetadataFormats."""
        base_url = self.site.base_url
        return [
            OfferedFormat(
                prefix=format_.prefix, schema=format_.schema_url(base_url), namespace=format_.namespace
            )
            for format_ in self.prefixes.values()
        ]

    def has_format(self, _session: Session, prefix: str) -> bool:
        """Return whether the format is offered."""
        return prefix in self.prefixes

    def item(self, session: Session, identifier: str, mark: datetime) -> "_ArchiveItem | None":
        """Return the document with this identifier."""
        key = parse_oai_identifier(self.site.settings.namespace, identifier)
        found = None if key is None else item_by_key(session, key, mark)
        return None if found is None else _ArchiveItem(item=found, catalogue=self)

    def extent(self, session: Session, prefix: str, set_spec: str | None) -> "_ArchiveExtent | None":
        """Return the documents of a set at any level of the trees."""
        scope = find_scope(session, set_spec)
        if scope is None:
            return None
        return _ArchiveExtent(session=session, scope=scope, format=self.prefixes[prefix], site=self.site)

    def sets(self, session: Session, *, after: str | None, limit: int) -> Sequence[SetRow]:
        """Return sets of all trees."""
        return set_page(session, after=after, limit=limit)

    def identity(self, session: Session) -> Identity:
        """Return the earliest datestamp, and the identifier of that record as the sample."""
        earliest = session.execute(
            select(Document.datestamp, Document.key)
            .where(Document.datestamp < UNLISTED)
            .order_by(Document.datestamp, Document.id)
            .limit(1)
        ).one_or_none()
        datestamp, key = earliest or (None, _SAMPLE_KEY)
        settings = self.site.settings
        return Identity(
            earliest=datestamp, sample=oai_identifier(settings.namespace, key), friends=settings.friends
        )


@dataclass(frozen=True, kw_only=True)
class _ArchiveItem:
    item: Item
    catalogue: ArchiveCatalogue

    def formats(self) -> Sequence[OfferedFormat]:
        return self.catalogue.offered

    def record(self, prefix: str) -> str | None:
        format_ = self.catalogue.prefixes.get(prefix)
        return None if format_ is None else answers.record(self.item, self.catalogue.site, format_)


@dataclass(frozen=True, kw_only=True)
class _ArchiveExtent:
    session: Session
    scope: Scope
    format: Format
    site: Site

    def page(
        self, *, from_: datetime | None, until: datetime, after: Position | None, limit: int
    ) -> Sequence[Item]:
        return item_page(self.session, self.scope, from_=from_, until=until, after=after, limit=limit)

    def size(self, mark: datetime) -> int | None:
        return list_size(self.session, self.scope, mark)

    def records(self, found: Sequence[Item]) -> list[str]:
        return [answers.record(item, self.site, self.format) for item in found]

    def headers(self, found: Sequence[Item]) -> list[str]:
        namespace = self.site.settings.namespace
        return [answers.header(item, namespace) for item in found]
