"""A request with everything needed to answer it, and a handler's result."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.orm import Session

from oai.errors import ProtocolError
from oai.sections import ProviderSettings
from provider.holdings.mark import MarkBehindError
from provider.protocol.catalogue import Catalogue
from provider.protocol.formats.format import Site
from provider.protocol.requests import Request
from provider.protocol.tokens import Tokens

_SOON: Final = timedelta(minutes=10)
"""More than large changes are dated ahead of the clock; what is dated later was so by a wrong clock."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """The input of a verb's handler."""

    session: Session
    site: Site
    catalogue: Catalogue
    mark: datetime
    """The answer's responseDate, UTC; records with later datestamps are not listed."""
    is_primary: bool = True
    """Whether this server decides about what does not exist; a replica may not have it yet."""
    tokens: Tokens
    request: Request

    @property
    def settings(self) -> ProviderSettings:
        """The provider's settings."""
        return self.site.settings

    @property
    def soon(self) -> datetime:
        """The upper bound of the datestamps of records that were just changed and are not due yet."""
        return self.mark + _SOON

    def absence(self, *errors: ProtocolError) -> Exception:
        """Return the refusal because something is not there; on a replica, a reason to ask another server."""
        if self.is_primary:
            return self.request.refusal(*errors)
        return MarkBehindError("the replica may not have it yet")


def just_changed() -> MarkBehindError:
    """Return the reason not to answer that a record does not exist that will be there again within seconds.

    A change gives a record a datestamp some seconds ahead of the clock (`holdings.publication`). The record
    before the change is gone then, but a harvester would take its absence for a deletion.
    """
    return MarkBehindError("a record was changed some seconds ago and is still being published")


@dataclass(frozen=True, kw_only=True)
class ListPosition:
    """A harvester's position in a list, including the current page."""

    metadata_prefix: str | None = None
    """None in ListSets, like the next three fields."""
    set_spec: str | None = None
    from_: datetime | None = None
    until: datetime | None = None
    """Upper bound (UTC), fixed at the first request; with the other fields, it identifies the list."""
    cursor: int
    """Elements on previous pages."""
    count: int
    """Elements on this page."""
    size: int | None = None
    """Elements in the whole list, if known."""
    ended: bool
    """Whether this page is the last."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """The result of a handler."""

    xml: str
    """The element named after the verb."""
    progress: ListPosition | None = None
    """For list requests."""
    following: str | None = None
    """The token of the next page."""
