"""Whether the record at a document's offset is the one that was indexed: its file may have been replaced.

Without this comparison, a document would answer with whatever record is at its offset now, also with one that
was taken down. A digest does not prove it for all documents: revisits and lines of CDX files may lack one.
"""

from datetime import datetime
from typing import Protocol

from provider.holdings.urlkeys import WwwRule, stored_key
from provider.reading.archived_record import Description
from provider.reading.capture_facts import RefusedError, address_of, capture_time
from provider.reading.captures import TAKEN


class IndexedRecord(Protocol):
    """The facts about a record in the row of its document."""

    @property
    def url(self) -> str:
        """As indexed."""

    @property
    def archived(self) -> datetime:
        """Time of capture."""

    @property
    def record_type(self) -> str:
        """response, resource or revisit."""

    @property
    def length(self) -> int | None:
        """Bytes of the payload; None if only a CDX file has listed it."""


def difference(found: Description, indexed: IndexedRecord) -> str | None:
    """Return how a record differs from the row of its document; None if it does not.

    A document that only a CDX file has listed has no length yet; its type is a guess, and its URL may be
    another spelling of the same key.
    """
    is_listed = indexed.length is None
    if found.record_type != indexed.record_type and not (is_listed and found.record_type in TAKEN):
        return f"a record of type {found.record_type!r} was found, not {indexed.record_type!r}"
    try:
        url, archived = address_of(found.target)[0], capture_time(found.date, is_arc=found.is_arc)[0]
    except RefusedError as refused:
        return f"a different record was found: {refused}"
    if url != indexed.url and not (is_listed and _key(url) == _key(indexed.url)):
        return f"a record of {url} was found"
    # To the second, as in CDX files: a document keeps the time from there when its record is read.
    if archived.replace(microsecond=0) != indexed.archived.replace(microsecond=0):
        return f"a record of {archived:%Y-%m-%dT%H:%M:%SZ} was found"
    if not is_listed and found.length != indexed.length:
        declared = f"the record declares {found.length:,} bytes of content"
        return f"{declared}, but {indexed.length:,} when it was indexed"
    return None


def _key(url: str) -> str:
    return stored_key(url, WwwRule.KEPT)
