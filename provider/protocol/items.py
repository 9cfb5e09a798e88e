"""One document as an item of the repository: what headers and metadata formats are written from."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple


class Item(NamedTuple):
    """A document with everything that an answer says about it; a deleted one has all of it, too.

    A named tuple, not a dataclass: it is made for each row of a page, and this takes a fifth of the time. The
    query in `provider.protocol.pages` selects its columns in this order.
    """

    id: int
    key: uuid.UUID
    datestamp: datetime
    """UTC, whole seconds."""
    deleted: bool
    """Shown as deleted: hidden, or withheld by an access rule."""
    access: str
    """The access rule, one of `provider.models.Access`."""
    embargo_until: datetime | None
    """When an embargo ends, UTC."""
    url: str
    archived: datetime
    """Time of capture, UTC."""
    title: str | None
    http_status: int | None
    digest: str | None
    """As the archive gives it: `sha1:` and base32, mostly."""
    length: int | None
    """Bytes of the archived content, HTTP headers left out; none where only a CDX file has told of it."""
    record_type: str
    """As WARC names it: response, resource or revisit."""
    offset: int
    """Byte in the archive file where the record begins."""
    archive_file: str
    """Name of the archive file, without folder."""
    mime_type: str
    """As in `text/html`, or `unknown`."""
    mimetype_set: str
    host: str | None
    domain_set: str | None
    collections: Sequence[Sequence[str]] | None
    """The collections it is assigned to, each as (setSpec, name), in the order of their setSpecs."""

    @property
    def media_type(self) -> str | None:
        """The full MIME type; None where the archive does not know it."""
        return self.mime_type if "/" in self.mime_type else None

    @property
    def set_specs(self) -> tuple[str, ...]:
        """The minimal sets: the collections it is assigned to, the host's, the full MIME type's."""
        own = (self.mimetype_set,) if self.domain_set is None else (self.domain_set, self.mimetype_set)
        return (*[set_spec for set_spec, _ in self.collections], *own) if self.collections else own
