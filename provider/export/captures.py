"""Reads the captures of an export: each as a compressed record, or the reason why it is left out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final
from uuid import UUID

from sqlalchemy import select

from oai.database import Database
from oai.sections import ProviderSettings
from provider.export.warc_records import capture_header, compressed, spooled
from provider.holdings.documents import (
    NotServedError,
    OpenDocument,
    OriginalNotServedError,
    damaged,
    open_document,
    unreadable,
)
from provider.models import UNLISTED, Document
from provider.reading.archived_record import DigestError
from provider.reading.content import DamageError
from provider.reading.digests import PayloadDigest

_AT_ONCE: Final = 500
_ANY_OK: Final = 200


class Reason(StrEnum):
    """Why a capture is left out of an export."""

    WITHHELD = "withheld"
    """Hidden, taken down, or withheld by an access rule."""
    RESTRICTED = "restricted"
    """Under embargo, or readable in the reading room only."""
    ORIGINAL_RESTRICTED = "original restricted"
    """A revisit of a capture that is withheld or restricted."""
    ORIGINAL_MISSING = "original missing"
    """A revisit of a capture that the archive does not have."""
    UNAVAILABLE = "unavailable"
    """Its archive file is missing, was replaced, or cannot be read."""
    DAMAGED = "damaged"
    """Its record differs from what was archived."""


MISSING: Final = frozenset({Reason.ORIGINAL_MISSING, Reason.UNAVAILABLE, Reason.DAMAGED})
"""Reasons that mean a loss, not a rule: the reader may have the capture, and does not get it."""

_REASONS: Final = {
    403: Reason.RESTRICTED,
    404: Reason.WITHHELD,  # withheld since it was chosen, and as if it did not exist
    410: Reason.WITHHELD,
    500: Reason.DAMAGED,
    503: Reason.UNAVAILABLE,
}


@dataclass(frozen=True, kw_only=True)
class ExportedCapture:
    """A capture with its record, which is open until the next capture is read."""

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
    original: tuple[str, datetime] | None
    """URL and time of the capture to which a revisit refers."""
    record: IO[bytes]
    """A gzip member."""
    length: int
    """Its bytes."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A capture that is not exported."""

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

    def read(self, documents: Iterable[int]) -> Iterator[ExportedCapture | LeftOut]:
        """Yield the captures with these ids, in their order; one record is open at a time."""
        numbers = iter(documents)
        while page := list(islice(numbers, _AT_ONCE)):
            for row in self._rows(page):
                found = self._read(row)
                yield found
                if isinstance(found, ExportedCapture):
                    found.record.close()

    def _rows(self, numbers: list[int]) -> list[Any]:
        columns = (Document.id, Document.key, Document.url, Document.archived)
        chosen = select(*columns).where(Document.id.in_(numbers), Document.datestamp < UNLISTED)
        with self.database.session() as session:
            return list(session.execute(chosen.order_by(Document.id)))

    def _read(self, row: Any) -> ExportedCapture | LeftOut:  # noqa: ANN401 a row of `_rows`
        try:
            opened = open_document(self.database, self.settings, row.key, None, staff=self.reading_room)
        except NotServedError as refusal:
            return _left_out(row, refusal)
        try:
            return _exported(row, opened, self.folder)
        except NotServedError as fault:
            return _left_out(row, fault)
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


def _exported(row: Any, opened: OpenDocument, folder: Path | None) -> ExportedCapture:  # noqa: ANN401 as above
    digest = checked_digest(opened)
    record, length = spooled(compressed(capture_header(opened, digest), _content(opened)), folder)
    said, holder = opened.record.description, opened.holder
    return ExportedCapture(
        key=row.key,
        url=row.url,
        archived=row.archived,
        title=holder.title,
        mime_type=(said.content_type or "").partition(";")[0].strip().lower(),
        http_status=said.http_status or _ANY_OK,
        digest=digest,
        original=None if holder.key == row.key else (holder.url, holder.archived),
        record=record,
        length=length,
    )


def _content(opened: OpenDocument) -> Iterator[bytes]:
    """Yield the record's content. Raises NotServedError if its file has become unreadable since the check."""
    try:
        yield from opened.record.block()
    except DamageError as fault:
        raise damaged(opened.holder, fault) from None
    except OSError as error:
        raise unreadable(opened.holder, error) from None


def _left_out(row: Any, refusal: NotServedError) -> LeftOut:  # noqa: ANN401 as above
    reason = _REASONS[refusal.status]
    if isinstance(refusal, OriginalNotServedError):
        reason = Reason.ORIGINAL_MISSING if refusal.status == 404 else Reason.ORIGINAL_RESTRICTED  # noqa: PLR2004
    return LeftOut(key=row.key, url=row.url, archived=row.archived, reason=reason, message=str(refusal))
