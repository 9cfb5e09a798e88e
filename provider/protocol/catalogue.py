"""What a repository has to give, as the verbs ask for it: the one seam between the protocol and the holdings.

The archive is one such catalogue (`provider.protocol.archive`), harvested records are another
(`provider.aggregate.catalogue`).
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy.orm import Session

from provider.protocol.tokens import Position


@dataclass(frozen=True, kw_only=True)
class OfferedFormat:
    """A metadata format as ListMetadataFormats tells it."""

    prefix: str
    schema: str
    """Address of its XML Schema."""
    namespace: str


@dataclass(frozen=True, kw_only=True)
class SetRow:
    """A set as ListSets tells it."""

    set_spec: str
    name: str
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What Identify tells of the holdings."""

    earliest: datetime | None
    """Datestamp of the oldest record, UTC; None where there is none."""
    sample: str | None
    """An identifier of the repository's own namespace; None where it has none of its own."""
    friends: Sequence[str]
    """Base URLs of other repositories."""


class CataloguedItem(Protocol):
    """An item, whatever the formats that it can be had in."""

    def formats(self) -> Sequence[OfferedFormat]:
        """Those that it can be had in."""

    def record(self, prefix: str) -> str | None:
        """The `record` element in this format; None where it cannot be had in it."""


class Extent(Protocol):
    """The records of one format that are in a set, or all of them."""

    def page(
        self, *, from_: datetime | None, until: datetime, after: Position | None, limit: int
    ) -> Sequence[Any]:
        """At most `limit` of them by (datestamp, id), from behind `after` up to `until`.

        Each has `datestamp` (UTC, whole seconds) and `id`.
        """

    def size(self, now: datetime) -> int | None:
        """How many there are, where that is known without counting."""

    def records(self, found: Sequence[Any]) -> list[str]:
        """The `record` elements of what `page` gave."""

    def headers(self, found: Sequence[Any]) -> list[str]:
        """The `header` elements of what `page` gave."""


class Catalogue(Protocol):
    """A repository's holdings. A session is the one view of the data that an answer is made from."""

    @property
    def prefixes(self) -> Container[str]:
        """The metadataPrefixes on offer, for requests that are refused before there is a session."""

    def formats(self, session: Session) -> Sequence[OfferedFormat]:
        """The formats on offer, at least one."""

    def has_format(self, session: Session, prefix: str) -> bool:
        """Whether the format is on offer."""

    def item(self, session: Session, identifier: str, now: datetime) -> CataloguedItem | None:
        """The item, if something of it is due; None where there is none."""

    def extent(self, session: Session, prefix: str, set_spec: str | None) -> Extent | None:
        """The records of a format in a set, in all for None; None where there is no such set."""

    def sets(self, session: Session, *, after: str | None, limit: int) -> Sequence[SetRow]:
        """At most `limit` sets behind `after`, in the order of their setSpecs' bytes."""

    def identity(self, session: Session) -> Identity:
        """What Identify tells."""
