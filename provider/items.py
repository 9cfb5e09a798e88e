"""One document as an item of the repository: what headers and metadata formats are written from."""

import uuid
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Item:
    """A document with everything that an answer says about it; a deleted one has all of it, too."""

    id: int
    key: uuid.UUID
    datestamp: datetime
    """UTC, whole seconds."""
    deleted: bool
    url: str
    archived: datetime
    """Time of capture, UTC."""
    title: str | None
    mime_type: str
    """As in `text/html`."""
    host: str | None
    set_specs: tuple[str, ...]
    """The minimal sets: the host's, the full MIME type's, and the collections it is assigned to."""
