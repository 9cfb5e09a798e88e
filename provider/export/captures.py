"""Reads the captures of an export: each as a compressed record, or the reason why it is left out."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import IO, Final
from uuid import UUID

from oai.database import Database
from oai.digests import PayloadDigest
from oai.sections import ProviderSettings
from provider.export.warc_records import capture_header, compressed, spooled
from provider.holdings.documents import (
    Holding,
    NotServedError,
    OpenDocument,
    OriginalNotServedError,
    damaged,
    holdings,
    open_holding,
    unreadable,
)
from provider.reading.archived_record import DigestError
from provider.reading.content import DamageError

_AT_ONCE: Final = 500
_ANY_OK: Final = 200


class Reason(StrEnum):
    """Why a capture is left out of an export."""

    WITHHELD = "withheld"
    """Hidden, taken down, or withheld by an access rule."""
    RESTRICTED = "restricted"
    """Under embargo, or readable in the reading room only."""
    ORIGINAL_RESTRICTED = "original_restricted"
    """A revisit of a capture that is withheld or restricted."""
    ORIGINAL_MISSING = "original_missing"
    """A revisit of a capture that the archive does not have, or that its record does not identify."""
    UNAVAILABLE = "unavailable"
    """Its archive file is missing, was replaced, or cannot be read."""
    DAMAGED = "damaged"
    """Its record differs from what was archived."""


MISSING: Final = frozenset({Reason.ORIGINAL_MISSING, Reason.UNAVAILABLE, Reason.DAMAGED})
"""Reasons that mean a loss, not a rule: the reader may have the capture, and does not get it."""

_REASONS: Final = {
    403: Reason.RESTRICTED,
    410: Reason.WITHHELD,
    500: Reason.DAMAGED,
    503: Reason.UNAVAILABLE,
}
_REASONS_OF_ORIGINALS: Final = {
    403: Reason.ORIGINAL_RESTRICTED,
    404: Reason.ORIGINAL_MISSING,
    410: Reason.ORIGINAL_RESTRICTED,
}
"""By the HTTP status with which the capture would be refused to a browser."""


@dataclass(frozen=True, kw_only=True)
class ExportedCapture:
    """A capture with its record, which is open until the next capture is read."""

    documents: tuple[int, ...]
    """Ids of the documents whose rules apply: its own and, of a revisit, those that lead to its content."""
    key: UUID
    url: str
    archived: datetime
    title: str | None
    mime_type: str
    """Without parameters, in lower case; empty if the server stated none."""
    http_status: int
    """200 for a record without an HTTP header."""
    digest: str
    """Of the payload: `sha1:` and base32 unless the archive has another one."""
    truncated: bool
    """Whether the crawler archived only a part of its payload."""
    original: tuple[str, datetime] | None
    """URL and time of the capture to which a revisit refers."""
    record: IO[bytes]
    """A gzip member."""
    length: int
    """Its bytes."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A capture that is not exported."""

    document: int
    """Its id."""
    key: UUID
    url: str
    archived: datetime
    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True)
class CaptureReader:
    """Reads captures with the rights of an anonymous reader, or of one in the reading room."""

    database: Database
    settings: ProviderSettings
    reading_room: bool = False
    folder: Path | None = None
    """For temporary files; None means the system's folder for them."""
    on_bytes: Callable[[int], None] = lambda _count: None
    """Called with the length of each piece of a record before it goes to a temporary file; may raise."""

    def read(self, documents: Iterable[int]) -> Iterator[ExportedCapture | LeftOut]:
        """Yield the captures with these ids, in their order; one record is open at a time."""
        numbers = iter(documents)
        while page := list(islice(numbers, _AT_ONCE)):
            with self.database.session() as session:
                found = holdings(session, page)
            for one in found:
                capture = self._read(one)
                try:
                    yield capture
                finally:
                    if isinstance(capture, ExportedCapture):
                        capture.record.close()

    def _read(self, asked: Holding) -> ExportedCapture | LeftOut:
        try:
            opened = open_holding(self.database.read, self.settings, asked, None, staff=self.reading_room)
        except NotServedError as refusal:
            return _left_out(asked, refusal)
        try:
            return _exported(opened, self.folder, self.on_bytes)
        except NotServedError as fault:
            return _left_out(asked, fault)
        finally:
            opened.record.close()


def checked_digest(opened: OpenDocument) -> str:
    """Return the payload's digest, computed if the archive has none; reads an unchecked document.

    Raises NotServedError if it is damaged or cannot be read.
    """
    stated = opened.holder.digest
    if opened.checked and stated:
        return stated
    computed = PayloadDigest()
    try:
        for block in opened.record.blocks(stated):
            computed.see(block)
    except (DamageError, DigestError) as fault:
        raise damaged(opened.holder, fault) from None
    except OSError as error:
        raise unreadable(opened.holder, error) from None
    return stated or computed.text()


def _exported(opened: OpenDocument, folder: Path | None, on_bytes: Callable[[int], None]) -> ExportedCapture:
    digest = checked_digest(opened)
    pieces = compressed(capture_header(opened, digest), _content(opened))
    record, length = spooled(_watched(pieces, on_bytes), folder)
    description, asked, holder = opened.record.description, opened.asked, opened.holder
    return ExportedCapture(
        documents=tuple(dict.fromkeys(one.id for one in (asked, *opened.between, holder))),
        key=asked.key,
        url=asked.url,
        archived=asked.archived,
        title=holder.title,
        mime_type=(description.content_type or "").partition(";")[0].strip().lower(),
        http_status=description.http_status or _ANY_OK,
        digest=digest,
        truncated=description.truncated is not None,
        original=None if holder is asked else (holder.url, holder.archived),
        record=record,
        length=length,
    )


def _watched(pieces: Iterator[bytes], on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    for piece in pieces:
        on_bytes(len(piece))
        yield piece


def _content(opened: OpenDocument) -> Iterator[bytes]:
    """Yield the record's content. Raises NotServedError if its file has become unreadable since the check."""
    try:
        yield from opened.record.block()
    except DamageError as fault:
        raise damaged(opened.holder, fault) from None
    except OSError as error:
        raise unreadable(opened.holder, error) from None


def _left_out(asked: Holding, refusal: NotServedError) -> LeftOut:
    reasons = _REASONS_OF_ORIGINALS if isinstance(refusal, OriginalNotServedError) else _REASONS
    return LeftOut(
        document=asked.id,
        key=asked.key,
        url=asked.url,
        archived=asked.archived,
        reason=reasons[refusal.status],
        message=str(refusal),
    )
