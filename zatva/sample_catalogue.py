"""Generated records as holdings: what the demo's other repositories answer the six verbs from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from oai.datestamps import format_datestamp
from oai.xml import escape
from provider.protocol.catalogue import Identity, OfferedFormat, SetRow
from provider.protocol.tokens import Position


@dataclass(frozen=True, kw_only=True)
class SampleRecord:
    """A generated record, in every format of its catalogue."""

    id: int
    identifier: str
    datestamp: datetime
    """UTC, whole seconds."""
    set_spec: str
    metadata: Mapping[str, str]
    """By metadataPrefix, XML that goes out as it is, faults included; empty for a record without metadata."""

    def header(self) -> str:
        """The `header` element."""
        return (
            f"<header><identifier>{escape(self.identifier)}</identifier>"
            f"<datestamp>{format_datestamp(self.datestamp)}</datestamp>"
            f"<setSpec>{escape(self.set_spec)}</setSpec></header>"
        )

    def in_format(self, prefix: str) -> str:
        """The `record` element."""
        content = self.metadata[prefix]
        return f"<record>{self.header()}{f'<metadata>{content}</metadata>' if content else ''}</record>"


@dataclass(frozen=True, kw_only=True)
class SampleCatalogue:
    """Records in memory as `provider.protocol.catalogue.Catalogue` has it; no session is looked at."""

    offered: Sequence[OfferedFormat]
    set_names: Mapping[str, str]
    held: Sequence[SampleRecord]
    """By datestamp and id."""

    @property
    def prefixes(self) -> frozenset[str]:
        """The metadataPrefixes on offer."""
        return frozenset(each.prefix for each in self.offered)

    def formats(self, session: Session) -> Sequence[OfferedFormat]:
        """The formats on offer."""
        del session
        return self.offered

    def has_format(self, session: Session, prefix: str) -> bool:
        """Whether the format is on offer."""
        del session
        return prefix in self.prefixes

    def item(self, session: Session, identifier: str, now: datetime) -> "_Item | None":
        """The record with this identifier; None where there is none."""
        del session, now
        found = (record for record in self.held if record.identifier == identifier)
        return next((_Item(found=record, offered=self.offered) for record in found), None)

    def extent(self, session: Session, prefix: str, set_spec: str | None) -> "_Extent | None":
        """The records of a set, all for None; None where there is no such set."""
        del session
        if set_spec is None:
            return _Extent(prefix=prefix, held=self.held)
        if set_spec not in self.set_names:
            return None
        return _Extent(prefix=prefix, held=[record for record in self.held if record.set_spec == set_spec])

    def sets(self, session: Session, *, after: str | None, limit: int) -> Sequence[SetRow]:
        """At most `limit` sets behind `after`."""
        del session
        behind = [set_spec for set_spec in sorted(self.set_names) if set_spec > (after or "")]
        return [SetRow(set_spec=set_spec, name=self.set_names[set_spec]) for set_spec in behind[:limit]]

    def identity(self, session: Session) -> Identity:
        """The first record's datestamp and identifier."""
        del session
        return Identity(earliest=self.held[0].datestamp, sample=self.held[0].identifier, friends=())


@dataclass(frozen=True, kw_only=True)
class _Item:
    found: SampleRecord
    offered: Sequence[OfferedFormat]

    def formats(self) -> Sequence[OfferedFormat]:
        return self.offered

    def record(self, prefix: str) -> str | None:
        return self.found.in_format(prefix)


@dataclass(frozen=True, kw_only=True)
class _Extent:
    prefix: str
    held: Sequence[SampleRecord]

    def page(
        self, *, from_: datetime | None, until: datetime, after: Position | None, limit: int
    ) -> Sequence[SampleRecord]:
        found = (
            record
            for record in self.held
            if (from_ is None or record.datestamp >= from_)
            and record.datestamp <= until
            and (after is None or (record.datestamp, record.id) > (after.datestamp, after.id))
        )
        return [record for record, _ in zip(found, range(limit), strict=False)]

    def size(self, now: datetime) -> int | None:
        del now
        return len(self.held)

    def records(self, found: Sequence[SampleRecord]) -> list[str]:
        return [record.in_format(self.prefix) for record in found]

    def headers(self, found: Sequence[SampleRecord]) -> list[str]:
        return [record.header() for record in found]
