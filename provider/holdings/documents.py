"""Archived documents by key: who may read one, where its bytes are, and whether they are intact.

A revisit has no payload of its own: it refers to that of another capture (`provider.holdings.revisits`),
which may be a revisit, too. The rules of all these captures apply. Its HTTP header is its own, unless the
server answered "not modified".
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Row, Select, and_, func, select
from sqlalchemy.orm import Session

from oai.errors import ZatvaError
from oai.proxies import Address
from oai.sections import ProviderSettings
from provider.holdings.record_matching import difference
from provider.holdings.revisits import MOST_CANDIDATES, Revisit, Search
from provider.holdings.rules import Rule, in_reading_room, rights_of, strictest
from provider.models import UNLISTED, Access, Arc, Document
from provider.reading.archived_record import ArchivedRecord, DigestError
from provider.reading.content import DamageError
from provider.storage.files import open_record
from provider.storage.objects import ReplacedError
from provider.storage.places import SCHEMES

_HELD: Final = 256 * 1024
"""A checked document up to this many bytes is held in memory; a larger one is read again for sending."""

_MOST_STEPS: Final = 5
"""Revisits that are followed to the capture with the payload."""
_UNNAMED: Final = "whose time it does not state, and which was not found by URL and digest"

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class Query(Protocol):
    """Does work in a session of the database that only reads, such as `Database.read`."""

    def __call__(self, work: Callable[[Session], _Result], /) -> _Result:
        """Return what the work returns."""


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
    def is_remote(self) -> bool:
        """Whether its archive file is behind a URL."""
        return self.path is not None and self.path.startswith(SCHEMES)

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
    between: tuple[Holding, ...]
    """The revisits that lead from one to the other, whose rules apply, too."""
    size: int | None
    """Bytes of the payload; None if they are not counted before sending."""
    held: bytes | None = None
    """The whole payload, checked, if it is small."""
    checked: bool = False
    """Whether the digest was verified."""


def open_document(
    query: Query, settings: ProviderSettings, key: UUID, reader: Address | None
) -> OpenDocument:
    """Return the document with this key for a reader at this address, open and, unless it is large, checked.

    Raises NotServedError with the reason if the document is not available.
    """
    return open_holding(query, settings, query(partial(find_document, key=key)), reader)


def find_document(session: Session, *, key: UUID) -> Holding:
    """Return the listed document with this key. Raises NotServedError if there is no such document."""
    found = _holdings().where(Document.key == key, Document.datestamp < UNLISTED)
    row = session.execute(found.limit(1)).one_or_none()
    if row is None:
        raise NotServedError(404, "no document has this identifier")
    return _holding(row)


def open_holding(
    query: Query,
    settings: ProviderSettings,
    asked: Holding,
    reader: Address | None,
    *,
    staff: bool = False,
) -> OpenDocument:
    """Return a document whose row has been read, likewise.

    Staff may see reading-room documents wherever they are. No query is under way while files are read.
    """
    rights = _Rights(settings, staff or in_reading_room(settings, reader))
    rights.admit(asked)
    record = _record(asked)
    captures = [asked]
    try:
        if record.description.record_type == "revisit":
            captures, original = _original(query, rights, asked, record)
            if original is not record:
                record.close()
                address = record.description.ip_address
                original.description = replace(original.description, ip_address=address)
            record = original
    except BaseException:
        record.close()
        raise
    return _checked(captures, record, settings.checked_document_bytes)


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
    return NotServedError(503, "the archive file of this document cannot be read at the moment")


def damaged(holding: Holding, fault: DamageError | DigestError) -> NotServedError:
    """Log that a record differs from what was archived, and return the error for the client.

    The fault is for the log only: it may quote what is in the file now, which may be another document.
    """
    _log.error("document %s: %s: %s", holding.key, holding.place, fault)
    return NotServedError(500, "the archived record is damaged and is not served")


def _checked(captures: Sequence[Holding], record: ArchivedRecord, most: int) -> OpenDocument:
    description, holder = record.description, captures[-1]
    opened = OpenDocument(
        asked=captures[0],
        holder=holder,
        rule=strictest([one.rule for one in captures]),
        record=record,
        between=tuple(captures[1:-1]),
        size=None if description.chunked else description.length,
    )
    if description.length > most:
        return opened
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
    return replace(opened, size=size, held=whole, checked=True)


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


def _holding(row: Row[Any]) -> Holding:
    return Holding(**row._mapping)  # noqa: SLF001 a row's public name


class _Step(NamedTuple):
    """A revisit on the way to the payload."""

    holding: Holding
    record: ArchivedRecord
    """Its record, whose file may be closed."""

    @property
    def revisit(self) -> Revisit:
        """What it refers to."""
        one = self.holding
        description = self.record.description
        return Revisit(url=one.url, archived=one.archived, digest=one.digest, description=description)


def _original(
    query: Query, rights: _Rights, asked: Holding, record: ArchivedRecord
) -> tuple[list[Holding], ArchivedRecord]:
    """Return a revisit, those between, and the capture with the payload; and the open record of the latter.

    The record has the answer of the first of the revisits that has one. The revisit's own record is that of
    a revisit of empty content. Raises OriginalNotServedError if the archive does not have the original, and
    if the reader may not have it or one between.
    """
    steps = [_Step(asked, record)]
    while True:
        for holder, is_certain in _candidates(query, steps):
            rights.admit_original(holder)
            original = _record(holder)
            if is_certain or all(step.revisit.has_length(original.description) for step in steps):
                answer = next((step.record for step in steps if step.revisit.has_answer), None)
                if answer is not None:
                    original.answer_as(answer)
                return [*(step.holding for step in steps), holder], original
            original.close()
        if steps[0].revisit.is_empty:
            return [asked], record
        between = query(lambda session: _named_revisit(session, steps))
        if between is None or len(steps) == _MOST_STEPS:
            break
        rights.admit_original(between)
        steps.append(_Step(between, _record(between)))
        steps[-1].record.close()
    raise OriginalNotServedError(
        404,
        f"this capture of {asked.url} only records that the content was unchanged since an earlier capture, "
        + ("and the archive does not have that capture" if steps[0].revisit.names_time else _UNNAMED),
    )


def _candidates(query: Query, steps: Sequence[_Step]) -> Iterator[tuple[Holding, bool]]:
    """Yield captures that may be the original, and whether their digest proves it; the most certain first."""
    condition = Document.record_type != "revisit"
    for search in query(lambda session: list(steps[-1].revisit.searches(session))):
        yield from query(partial(_found, search=search, steps=steps, condition=condition))


def _named_revisit(session: Session, steps: Sequence[_Step]) -> Holding | None:
    """Return the revisit that the last one's record names; None if it names no other."""
    search = steps[-1].revisit.named(session)
    if search is None:
        return None
    known = [step.holding.id for step in steps]
    is_other = and_(Document.record_type == "revisit", Document.id.not_in(known))
    return next((holding for holding, _ in _found(session, search, steps, is_other)), None)


def _found(
    session: Session, search: Search, steps: Sequence[_Step], condition: ColumnElement[bool]
) -> list[tuple[Holding, bool]]:
    """Return the captures whose digest may be that of the revisits, and whether it is; the nearest first."""
    nearest = func.abs(func.extract("epoch", Document.archived - search.moment))
    found = _holdings().where(search.condition, condition, Document.datestamp < UNLISTED)
    captures = []
    for row in session.execute(found.order_by(nearest, Document.id).limit(MOST_CANDIDATES)):
        holding = _holding(row)
        are_same = [step.revisit.has_digest(holding.digest) for step in steps]
        if False not in are_same:
            captures.append((holding, True in are_same))
    return captures
