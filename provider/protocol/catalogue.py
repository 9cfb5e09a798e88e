"""The interface between the protocol and the holdings of a repository, as the verbs need it.

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
    """A metadata format for ListMetadataFormats."""

    prefix: str
    schema: str
    """URL of its XML Schema."""
    namespace: str


@dataclass(frozen=True, kw_only=True)
class SetRow:
    """A set for ListSets."""

    set_spec: str
    name: str
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Facts about the holdings for Identify."""

    earliest: datetime | None
    """Datestamp of the oldest record, UTC; None if there is none."""
    sample: str | None
    """An identifier in the repository's own namespace; None if it has none."""
    friends: Sequence[str]
    """Base URLs of other repositories."""


class CataloguedItem(Protocol):
    """An item in all its formats."""

    def formats(self) -> Sequence[OfferedFormat]:
        """Return the formats in which it is available."""

    def record(self, prefix: str) -> str | None:
        """Return the `record` element in this format; None if the item is not available in it."""


class Extent(Protocol):
    """The records of one format in a set, or in all sets."""

    def page(
        self, *, from_: datetime | None, until: datetime, after: Position | None, limit: int
    ) -> Sequence[Any]:
        """Return at most `limit` of them by (datestamp, id), after `after` and up to `until`.

        Each has `datestamp` (UTC, whole seconds) and `place`, the `id` of its position.
        """

    def size(self, mark: datetime) -> int | None:
        """Return their number if it is known without counting."""

    def records(self, found: Sequence[Any]) -> list[str]:
        """Return the `record` elements of the result of `page`."""

    def headers(self, found: Sequence[Any]) -> list[str]:
        """Return the `header` elements of the result of `page`."""


class Catalogue(Protocol):
    """A repository's holdings. A session is the single snapshot of the data that an answer is made from."""

    @property
    def prefixes(self) -> Container[str]:
        """The offered metadataPrefixes, for requests that are refused before a session exists."""

    def formats(self, session: Session) -> Sequence[OfferedFormat]:
        """Return the offered formats, at least one."""

    def has_format(self, session: Session, prefix: str) -> bool:
        """Return whether the format is offered."""

    def item(self, session: Session, identifier: str, mark: datetime) -> CataloguedItem | None:
        """Return the item if a record of it is due; None otherwise."""

    def extent(self, session: Session, prefix: str, set_spec: str | None) -> Extent | None:
        """Return the records of a format in a set (all sets if None); None if the set does not exist."""

    def sets(self, session: Session, *, after: str | None, limit: int) -> Sequence[SetRow]:
        """Return at most `limit` sets after `after`, ordered by the bytes of their setSpecs."""

    def identity(self, session: Session) -> Identity:
        """Return the facts for Identify."""
