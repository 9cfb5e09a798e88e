"""A document as an item of the repository: the data from which headers and metadata are written."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple


class Item(NamedTuple):
    """A document with everything that an answer states about it; a deleted one has all fields, too.

    A named tuple, not a dataclass: it is created for each row of a page, and this takes a fifth of the
    time. The query in `provider.protocol.pages` selects its columns in this order.
    """

    id: int
    key: uuid.UUID
    datestamp: datetime
    """UTC, whole seconds."""
    deleted: bool
    """Reported as deleted: hidden, or withheld by an access rule."""
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
    """As in the archive: usually `sha1:` and base32."""
    length: int | None
    """Bytes of the archived content without HTTP headers; None if only a CDX file has listed it."""
    record_type: str
    """WARC record type: response, resource or revisit."""
    offset: int
    """Byte offset of the record in the archive file."""
    archive_path: str
    """The archive file as it is found, with its folder or URL if known."""
    mime_type: str
    """For example `text/html`, or `unknown`."""
    mimetype_set: str
    host: str | None
    domain_set: str | None
    title_set: str | None
    """The set `title:…` of the title that it belongs to."""
    collections: Sequence[Sequence[str]] | None
    """The collections it is assigned to, each as (setSpec, name), ordered by setSpec."""
    language: str | None = None
    """Code of ISO 639, if it has been detected."""

    @property
    def place(self) -> uuid.UUID:
        """What names it in a resumption token."""
        return self.key

    @property
    def archive_file(self) -> str:
        """Name of the archive file, with `.gz` if any, without its folder."""
        return self.archive_path.rpartition("/")[2]

    @property
    def media_type(self) -> str | None:
        """The full MIME type; None if unknown."""
        return self.mime_type if "/" in self.mime_type else None

    @property
    def set_specs(self) -> tuple[str, ...]:
        """The minimal sets: its assigned collections', its host's, its full MIME type's, and its title's."""
        own = (self.mimetype_set,) if self.domain_set is None else (self.domain_set, self.mimetype_set)
        if self.title_set is not None:
            own = (*own, self.title_set)
        return (*[set_spec for set_spec, _ in self.collections], *own) if self.collections else own
