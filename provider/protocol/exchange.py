"""One request and all that it is answered from, and what a handler makes of it."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from oai.sections import ProviderSettings
from provider.protocol.catalogue import Catalogue
from provider.protocol.formats.format import Site
from provider.protocol.requests import Request
from provider.protocol.tokens import Tokens


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What a verb's handler is given."""

    session: Session
    site: Site
    catalogue: Catalogue
    moment: datetime
    """The answer's responseDate, UTC; what is dated later is not there yet."""
    tokens: Tokens
    request: Request

    @property
    def settings(self) -> ProviderSettings:
        """The provider's settings."""
        return self.site.settings


@dataclass(frozen=True, kw_only=True)
class ListPosition:
    """How far a harvester has got through a list, with the page that it is given."""

    metadata_prefix: str | None = None
    """None in ListSets, as the next three."""
    set_spec: str | None = None
    from_: datetime | None = None
    until: datetime | None = None
    """Upper bound (UTC), frozen at the first request: with the others, it tells one list from another."""
    cursor: int
    """Elements on the pages before."""
    count: int
    """Elements on this page."""
    size: int | None = None
    """Elements in the whole list, where that is known."""
    ended: bool
    """This page is the last."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a handler gives."""

    xml: str
    """The element named as the verb."""
    progress: ListPosition | None = None
    """Of list requests."""
