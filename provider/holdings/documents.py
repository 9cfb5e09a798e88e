"""Archived documents by key: who may read one, where its bytes are, and whether they are intact.

A revisit has no payload of its own: it refers to that of another capture (`provider.holdings.revisits`). The
rules of both captures apply. Its HTTP header is its own, unless the server answered "not modified".
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Row, Select, func, select
from sqlalchemy.orm import Session

from oai.database import Database
from oai.errors import ZatvaError
from oai.proxies import Address
from oai.sections import ProviderSettings
from provider.holdings.record_matching import difference
from provider.holdings.revisits import MOST_CANDIDATES, Revisit
from provider.holdings.rules import Rule, in_reading_room, rights_of, strictest
from provider.models import UNLISTED, Access, Arc, Document
from provider.reading.archived_record import ArchivedRecord, DigestError
from provider.reading.content import DamageError
from provider.storage.files import open_record
from provider.storage.objects import ReplacedError

_HELD: Final = 256 * 1024
"""A checked document up to this many bytes is held in memory; a larger one is read again for sending."""

_log = logging.getLogger(__name__)


class NotServedError(ZatvaError):
    """The document is not served; the message states the reason to the client."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        """HTTP status of the response."""


class OriginalNotServedError(NotServedError):
    """A revisit is not served because the capture to which it refers is missing or may not be read."""


@dataclass(frozen=True, kw_only=True)
class Holding:
    """A document as it is stored."""

    id: int
    key: UUID
    url: str
    archived: datetime
    deleted: bool
    access: str
    embargo_until: datetime | None
    digest: str | None
    record_type: str
    length: int | None
    """Bytes of the payload, if the file has been read."""
    offset: int
    packed_length: int | None
    path: str | None
    """Path or URL of the archive file; None if only a CDX file has listed it."""
    arc: str
    """The archive file's name."""
    size: int
    """Bytes of the archive file."""
    tag: str | None
    """Of the archive file, if it is behind a URL."""
    title: str | None

    @property
    def rule(self) -> Rule:
        """Its effective rule."""
        return Rule(access=Access(self.access), embargo_until=self.embargo_until)

    @property
    def place(self) -> str:
        """File and offset, for logs."""
        return f"{self.path or self.arc}, offset {self.offset}"


@dataclass(frozen=True, kw_only=True)
class OpenDocument:
    """A document to be sent; the caller that receives it closes `record`."""

    asked: Holding
    """The requested document."""
    holder: Holding
    """The document whose record contains the payload; differs from `asked` for a revisit."""
    rule: Rule
    record: ArchivedRecord
    size: int | None
    """Bytes of the payload; None if they are not counted before sending."""
    held: bytes | None = None
    """The whole payload, checked, if it is small."""
    checked: bool = False
    """Whether the digest was verified."""


def open_document(
    database: Database,
    settings: ProviderSettings,
    key: UUID,
    reader: Address | None,
    *,
    staff: bool = False,
) -> OpenDocument:
    """Return the document with this key for a reader at this address, open and, unless it is large, checked.

    Staff may see reading-room documents wherever they are. Raises NotServedError with the reason if the
    document is not available.
    """
    with database.reading() as session:
        asked = _one(session, _holdings().where(Document.key == key, Document.datestamp < UNLISTED))
    if asked is None:
        raise NotServedError(404, "no document has this identifier")
    return open_holding(database, settings, asked, reader, staff=staff)


def open_holding(
    database: Database,
    settings: ProviderSettings,
    asked: Holding,
    reader: Address | None,
    *,
    staff: bool = False,
) -> OpenDocument:
    """Return a document whose row has been read, likewise."""
    rights = _Rights(settings, staff or in_reading_room(settings, reader))
    rights.admit(asked)
    record = _record(asked)
    holder = asked
    try:
        if record.description.record_type == "revisit":
            with database.reading() as session:
                holder, original = _original(session, rights, asked, record)
            if original is not record:
                record.close()
            record = original
    except BaseException:
        record.close()
        raise
    rule = strictest((asked.rule, holder.rule))
    return _checked(asked, holder, rule, record, settings.checked_document_bytes)


def holdings(session: Session, numbers: Sequence[int]) -> list[Holding]:
    """Return the listed documents with these ids, in the order of the ids."""
    chosen = _holdings().where(Document.id.in_(numbers), Document.datestamp < UNLISTED)
    return [_holding(row) for row in session.execute(chosen.order_by(Document.id))]


class _Rights(NamedTuple):
    """The rights of a reader."""

    settings: ProviderSettings
    in_reading_room: bool

    def admit(self, holding: Holding) -> None:
        """Raise NotServedError if the reader may not have the document."""
        rule = holding.rule
        if holding.deleted or rule.access == Access.WITHHELD:
            raise NotServedError(410, self.settings.rights_withheld)
        if rule.access == Access.OPEN:
            return
        if rule.access == Access.READING_ROOM and self.in_reading_room:
            return
        raise NotServedError(403, rights_of(self.settings, rule.access, rule.embargo_until))

    def admit_original(self, holding: Holding) -> None:
        """Raise OriginalNotServedError if the reader may not have what a revisit refers to."""
        try:
            self.admit(holding)
        except NotServedError as refusal:
            raise OriginalNotServedError(refusal.status, str(refusal)) from None


def _record(holding: Holding) -> ArchivedRecord:
    """Return the document's open record. Raises NotServedError, also if another record is in its place."""
    if holding.path is None:
        raise NotServedError(
            503,
            f"the archive file {holding.arc!r} is listed in a CDX file, but this server has not found it yet",
        )
    try:
        file = open_record(
            holding.path, size=holding.size, tag=holding.tag, packed_length=holding.packed_length
        )
        record = ArchivedRecord(file, holding.offset, length=holding.length)
    except OSError as error:
        raise unreadable(holding, error) from None
    except DamageError as damage:
        raise damaged(holding, damage) from None
    differs = difference(record.description, holding)
    if differs is not None:
        record.close()
        raise damaged(holding, DamageError(differs))
    return record


def unreadable(holding: Holding, error: OSError) -> NotServedError:
    """Log that an archive file cannot be read, and return the error for the client."""
    _log.error("document %s: %s: %s", holding.key, holding.place, error)
    if isinstance(error, ReplacedError):
        return NotServedError(
            503, "the archive file of this document was replaced; it is served when the new file is indexed"
        )
    return NotServedError(
        503, "the archive file of this document cannot be read at the moment; the operator has been informed"
    )


def damaged(holding: Holding, fault: DamageError | DigestError) -> NotServedError:
    """Log that a record differs from what was archived, and return the error for the client.

    The fault is for the log only: it may quote what is in the file now, which may be another document.
    """
    _log.error("document %s: %s: %s", holding.key, holding.place, fault)
    return NotServedError(500, "the archived record is damaged and is not served")


def _checked(asked: Holding, holder: Holding, rule: Rule, record: ArchivedRecord, most: int) -> OpenDocument:
    description = record.description
    if description.length > most:
        size = None if description.chunked else description.length
        return OpenDocument(asked=asked, holder=holder, rule=rule, record=record, size=size)
    size = 0
    held: list[bytes] = []
    try:
        for block in record.blocks(holder.digest):
            size += len(block)
            if size <= _HELD:
                held.append(block)
    except (DamageError, DigestError) as fault:
        record.close()
        raise damaged(holder, fault) from None
    except OSError as error:
        record.close()
        raise unreadable(holder, error) from None
    whole = b"".join(held) if size <= _HELD else None
    return OpenDocument(
        asked=asked, holder=holder, rule=rule, record=record, size=size, held=whole, checked=True
    )


def _holdings() -> Select[Any]:
    columns: tuple[Any, ...] = (
        Document.id,
        Document.key,
        Document.url,
        Document.archived,
        Document.deleted,
        Document.access,
        Document.embargo_until,
        Document.digest,
        Document.record_type,
        Document.length,
        Document.offset,
        Document.packed_length,
        Arc.path,
        func.coalesce(Arc.listed_name, Arc.name).label("arc"),
        Arc.size,
        Arc.tag,
        Document.title,
    )
    return select(*columns).join(Arc, Arc.id == Document.arc_id)


def _one(session: Session, statement: Select[Any]) -> Holding | None:
    row = session.execute(statement.limit(1)).one_or_none()
    return None if row is None else _holding(row)


def _holding(row: Row[Any]) -> Holding:
    return Holding(**row._mapping)  # noqa: SLF001 a row's public name


def _original(
    session: Session, rights: _Rights, asked: Holding, record: ArchivedRecord
) -> tuple[Holding, ArchivedRecord]:
    """Return the capture whose payload a revisit refers to, and its open record with the revisit's answer.

    The revisit's own record is that of a revisit of empty content. Raises OriginalNotServedError if the
    archive does not have the original, and if the reader may not have it.
    """
    revisit = Revisit(
        url=asked.url, archived=asked.archived, digest=asked.digest, description=record.description
    )
    for holder, is_certain in _candidates(session, revisit):
        rights.admit_original(holder)
        original = _record(holder)
        if is_certain or revisit.has_length(original.description):
            if revisit.has_answer:
                original.answer_as(record)
            return holder, original
        original.close()
    if revisit.is_empty:
        return asked, record
    raise OriginalNotServedError(
        404,
        f"this capture of {asked.url} only records that the content was unchanged since an "
        "earlier capture, and the archive does not have that capture",
    )


def _candidates(session: Session, revisit: Revisit) -> Iterator[tuple[Holding, bool]]:
    """Yield captures that may be the original, and whether their digest proves it; the most certain first."""
    for search in revisit.searches(session):
        nearest = func.abs(func.extract("epoch", Document.archived - search.moment))
        found = _holdings().where(
            search.condition, Document.record_type != "revisit", Document.datestamp < UNLISTED
        )
        for row in session.execute(found.order_by(nearest, Document.id).limit(MOST_CANDIDATES)):
            holder = _holding(row)
            is_same = revisit.has_digest(holder.digest)
            if is_same is not False:
                yield holder, bool(is_same)
