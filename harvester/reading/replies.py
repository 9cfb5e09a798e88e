"""Parses the bytes of a list of records, or of one record, into a page; no input or output.

Source: The Open Archives Initiative Protocol for Metadata Harvesting, version 2.0, sections 3.2 to 3.5, and
4.1, 4.3 and 4.5.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, cast

from lxml import etree

from harvester.reading.answers import Fault, Header, Page, Record, Rest, ResumptionToken
from harvester.reading.envelope import Envelope, adopt, local_name, open_envelope, readable_body
from harvester.reading.errors import AnswerTooLargeError, MalformedAnswerError, PartError
from harvester.reading.list_elements import HEADER, RECORD, TOKEN, read_header, read_record, read_token
from harvester.reading.prolog import trimmed
from harvester.reading.repairs import Repair, repaired_answer
from harvester.reading.salvage import (
    Piece,
    SplitAnswer,
    cut,
    escaped_ampersands,
    fault_in,
    only_child,
    read_in_parts,
)
from harvester.reading.splitting import LargeAnswer, Part, Splitting, split
from harvester.reading.spooled import Body, Spooled
from harvester.reading.strictness import check_header, check_list, check_record, check_token
from oai.datestamps import format_datestamp, in_utc, read_moment
from oai.errors import MalformedXmlError
from oai.failures import Failure, FailureCode
from oai.limits import DEFAULT_LIMITS, AnswerLimits
from oai.vocabulary import Verb
from oai.xml import tags_in

_HEAD_BYTES = 4096
_MOST_STRAY = 100
"""Misplaced elements that are reported one by one; further ones are counted."""


OnToken = Callable[[str], None]
"""Called with a page's resumptionToken before its records are read, if the answer is complete and has one."""
_KNOWN = frozenset({RECORD, HEADER, TOKEN})
_CHECKS = {RECORD: check_record, HEADER: check_header, TOKEN: check_token}


class Unread(NamedTuple):
    """An answer to ListRecords, ListIdentifiers or GetRecord as received; see `read_page`."""

    body: Body
    """For an answer in a file, its parts are the pages."""
    verb: Verb
    url: str
    content_type: str
    loose: bool
    limits: AnswerLimits = DEFAULT_LIMITS
    received: datetime | None = None
    """When the answer was sent according to HTTP, else received; with a time zone."""
    repairs: tuple[Repair, ...] = ()
    """What a person has chosen to repair in records of this repository."""

    def read(self, on_token: OnToken | None = None) -> Page:
        """Return the page of an answer in memory. Raises as `read_page` does."""
        return read_page(**{**self._asdict(), "body": self.body[:]}, on_token=on_token)

    def split(self) -> Splitting:
        """Return an answer in a file, in parts. Raises as `read_page` does."""
        body = cast("Spooled", self.body)
        return split(
            LargeAnswer(body, self.verb, self.url, self.content_type, self.loose, self.limits, self.repairs)
        )

    def of(self, part: Part) -> "Unread":
        """Return a part of this answer as an answer; its records were checked to be within the limits."""
        limits = replace(self.limits, part_bytes=sys.maxsize, part_elements=sys.maxsize)
        return self._replace(body=part.body, content_type="", limits=limits)

    def in_parts(self) -> "Unread":
        """Return the answer as one to be split."""
        spooled = Spooled()
        spooled.append(self.body[:])
        return self._replace(body=spooled)


def with_rest(page: Page, part: Part, rest: Rest | None) -> Page:
    """Return the page read from a part, with what is known about the part; `rest` returns the next one."""
    return replace(
        page,
        # The offsets of the part's own faults in the whole answer are unknown.
        faults=(*(replace(fault, offset=-1) for fault in page.faults), *part.faults),
        notes=tuple(dict.fromkeys((*part.notes, *page.notes))),
        cut_off=page.cut_off or part.cut_off,
        part=part.number,
        rest=None if part.last else rest,
    )


def read_page(  # noqa: PLR0913 the fields of `Unread`, by name
    body: bytes,
    verb: Verb,
    *,
    url: str,
    loose: bool = False,
    content_type: str = "",
    limits: AnswerLimits = DEFAULT_LIMITS,
    received: datetime | None = None,
    repairs: tuple[Repair, ...] = (),
    on_token: OnToken | None = None,
) -> Page:
    """Read an answer to ListRecords, ListIdentifiers or GetRecord; `content_type` is that of HTTP.

    In strict reading, anything wrong raises MalformedAnswerError. With `loose`, the parts that can be read
    individually are kept, the others are in the page's `faults`, and oddities that cost no record in its
    `notes`; the content of a record is never invented, and repaired only as `repairs` say, with a note. A
    header without a datestamp gets the answer's: a readable responseDate, else `received`, else the present.

    Raises NotOaiPmhError, MalformedAnswerError, AnswerTooLargeError for what exceeds the limits, and OaiError
    if the answer is one of the protocol's errors.
    """
    if _has_many_elements(body, limits):
        return _joined(Unread(body, verb, url, content_type, loose, limits, received, repairs).in_parts())
    body, notes = readable_body(body, url, content_type, loose=loose)
    reader = _PageReader(verb=verb, url=url, notes=notes, limits=limits, received=received)
    try:
        envelope = open_envelope(body, verb, url, loose=loose, limits=replace(limits, part_bytes=sys.maxsize))
    except (MalformedAnswerError, AnswerTooLargeError) as error:
        unread = Unread(body, verb, url, "", loose, limits, received, repairs)
        page = _read_repaired(unread, on_token)
        if page is None and not loose:
            raise
        return replace(page, notes=(*notes, *page.notes)) if page else _second_try(reader, body, error)
    if not loose:
        _check_strictly(envelope, verb, url)
    if on_token is not None and (token := _token_at_the_end(envelope)):
        on_token(token)
    page = reader.read(envelope, size=len(body))
    return page if loose else _without_errors(page, url)


def _without_errors(page: Page, url: str) -> Page:
    """Return the page; raise MalformedAnswerError if anything is wrong or odd in it."""
    if page.faults or page.notes:
        raise MalformedAnswerError(url, page.faults[0].reason if page.faults else page.notes[0])
    return page


def _read_repaired(unread: Unread, on_token: OnToken | None) -> Page | None:
    """Return the page of a broken answer whose broken records were repaired; None if none could be."""
    repaired = repaired_answer(unread.body[:], unread.verb, unread.repairs, unread.limits)
    if not repaired.notes:
        return None
    page = unread._replace(body=repaired.body, repairs=()).read(on_token)
    faults = tuple(replace(one, offset=repaired.received_offset(one.offset)) for one in page.faults)
    return replace(page, faults=faults, notes=(*repaired.notes, *page.notes))


def _check_strictly(envelope: Envelope, verb: Verb, url: str) -> None:
    """Raise MalformedAnswerError for what the protocol's schema rejects around the metadata."""
    try:
        check_list(envelope.container, "header" if verb is Verb.LIST_IDENTIFIERS else "record")
        for child in envelope.children:
            if child.tag in _CHECKS:
                _CHECKS[child.tag](child)
    except ValueError as error:
        raise MalformedAnswerError(url, str(error)) from None


def _has_many_elements(body: bytes, limits: AnswerLimits) -> bool:
    """Return whether the answer may have more elements than a part may, so that each part must be checked."""
    return len(body) // 4 > limits.part_elements and tags_in(body) > limits.part_elements


def _joined(unread: Unread) -> Page:
    """Return the page of an answer in memory that has to be read in parts."""
    pages = [with_rest(unread.of(part).read(), part, None) for part in unread.split().parts]
    return replace(
        pages[-1],
        headers=tuple(header for page in pages for header in page.headers),
        records=tuple(record for page in pages for record in page.records),
        faults=tuple(fault for page in pages for fault in page.faults),
        notes=tuple(dict.fromkeys(note for page in pages for note in page.notes)),
        part=0,
        size=len(unread.body),
    )


def looks_like_oai_pmh(body: Body) -> bool:
    """Return whether an answer with an HTTP error status is still OAI-PMH, as from some servers."""
    return b"OAI-PMH" in body[:_HEAD_BYTES]


def _token_at_the_end(envelope: Envelope) -> str:
    """Return the token for the next page if it is in its proper place, else an empty text."""
    last = envelope.children[-1] if envelope.children and not envelope.notes else None
    return read_token(last).value if last is not None and last.tag == TOKEN else ""


def answer_date(response_date: str, received: datetime | None) -> str:
    """Return the responseDate as a datestamp; if it is unreadable, when the answer was received, or now.

    A date without a time zone is taken as UTC.
    """
    try:
        moment = read_moment(response_date)
    except ValueError:
        moment = received or datetime.now(UTC)
    return format_datestamp(in_utc(moment))


_Broken = MalformedAnswerError | AnswerTooLargeError


def _second_try(reader: "_PageReader", body: bytes, error: _Broken) -> Page:
    """Read an answer that is broken as a whole: without what surrounds it, or else in pieces."""
    around = trimmed(body)
    reader.notes += around.notes
    if around.notes:
        try:
            whole = replace(reader.limits, part_bytes=sys.maxsize)
            envelope = open_envelope(around.body, reader.verb, reader.url, loose=True, limits=whole)
            return reader.read(envelope, size=len(body))
        except (MalformedAnswerError, AnswerTooLargeError) as still:
            error = still
    cut_up = cut(around.body, reader.verb)
    if cut_up is None:
        raise error
    cut_up.pieces = [piece.moved(around.removed) for piece in cut_up.pieces]
    cut_up.token = cut_up.token and cut_up.token.moved(around.removed)
    page = reader.salvage(cut_up, size=around.removed + len(around.body), error=error)
    if not page.headers and error.failure is not None and error.failure.is_limit:
        raise error  # the answer may consist of just what exceeds a limit
    return page


class _PageReader:
    """Gathers a page from the elements of a list."""

    def __init__(
        self, *, verb: Verb, url: str, notes: list[str], limits: AnswerLimits, received: datetime | None
    ) -> None:
        self.limits = limits
        self._received = received
        self.verb = verb
        self.url = url
        self.notes = notes
        self._headers: list[Header] = []
        self._records: list[Record] = []
        self._token: ResumptionToken | None = None
        self._faults: list[Fault] = []
        self._stray = 0
        """Number of elements that do not belong to any list."""

    def read(self, envelope: Envelope, *, size: int) -> Page:
        """Return the page in a complete envelope."""
        self.notes += envelope.notes
        for child in envelope.children:
            self._take(child)
        return self._page(envelope.response_date, size)

    def salvage(self, cut_up: SplitAnswer, *, size: int, error: _Broken) -> Page:
        """Return the page that can be read from the pieces of an answer broken by the error."""
        reason = error.failure.sentence() if isinstance(error, AnswerTooLargeError) else error.reason
        self.notes.append(read_in_parts(reason))
        for piece in cut_up.pieces:
            element = self._alone(cut_up, piece)
            if element is not None:
                self._take(element, piece.offset)
        cut_off = not cut_up.ended
        if cut_up.ended and cut_up.token is not None:
            token = self._token_of(cut_up, cut_up.token)
            cut_off = token is None
            if token is not None:
                self._take(token)
        if cut_off and not self._faults:
            reason = "the answer is truncated before the end of the list"
            failure = Failure(code=FailureCode.DISCONNECTED)
            self._faults.append(Fault(offset=size, reason=reason, raw=b"", failure=failure))
        limit = error.failure if error.failure is not None and error.failure.is_limit else None
        if limit is not None and not any(fault.failure.is_limit for fault in self._faults):
            self._faults.append(Fault(offset=0, reason=reason, raw=b"", failure=limit))
        return self._page(cut_up.response_date, size, cut_off=cut_off)

    def _take(self, element: etree._Element, offset: int = -1) -> None:
        """Add one child of the list; if something is wrong with it, add it to the faults."""
        if element.tag not in _KNOWN:
            self._adopt(element)
        try:
            self._read(element)
        except PartError as error:
            if self._adopt(element):
                self._take(element, offset)
                return
            self._stray += element.tag not in _KNOWN
            if self._stray > _MOST_STRAY:
                return
            raw = etree.tostring(element, encoding="UTF-8", with_tail=False)
            self._faults.append(Fault(offset=offset, reason=str(error), raw=raw, failure=error.failure))

    def _adopt(self, element: etree._Element) -> bool:
        adopted = local_name(element) in {"record", "header", "resumptionToken"} and adopt(element)
        note = "parts of the list are in another namespace"
        if adopted and note not in self.notes:
            self.notes.append(note)
        return adopted

    def _read(self, element: etree._Element) -> None:
        if element.tag == RECORD:
            record = read_record(element)
            self._records.append(record)
            self._headers.append(record.header)
        elif element.tag == HEADER and self.verb is Verb.LIST_IDENTIFIERS:
            self._headers.append(read_header(element))
        elif element.tag == TOKEN:
            self._token = read_token(element)
        else:
            raise PartError(f"{local_name(element)!r} instead of a part of the list")

    def _page(self, response_date: str, size: int, *, cut_off: bool = False) -> Page:
        if any(header.undated for header in self._headers):
            self._date_headers(answer_date(response_date, self._received))
        more = self._stray - _MOST_STRAY
        if more > 0:
            reason = f"{more:,} more elements that are not parts of the list"
            failure = Failure(code=FailureCode.RECORD_STRUCTURE)
            self._faults.append(Fault(offset=-1, reason=reason, raw=b"", failure=failure))
        return Page(
            url=self.url,
            response_date=response_date,
            headers=tuple(self._headers),
            records=tuple(self._records),
            token=self._token,
            faults=tuple(self._faults),
            notes=tuple(self.notes),
            cut_off=cut_off,
            size=size,
        )

    def _date_headers(self, date: str) -> None:
        """Give the date to the headers without a datestamp; the records themselves stay as received."""
        self._headers = [replace(one, datestamp=date) if one.undated else one for one in self._headers]
        self._records = [
            replace(record, header=replace(record.header, datestamp=date))
            if record.header.undated
            else record
            for record in self._records
        ]

    def _alone(self, cut_up: SplitAnswer, piece: Piece) -> etree._Element | None:
        """Return the piece's element, parsed alone; if that fails, add a fault and return None."""
        try:
            element, notes = only_child(cut_up, piece, self.verb, self.limits)
        except MalformedXmlError as error:
            self._faults.append(fault_in(piece, error))
            return None
        self.notes += [note for note in notes if note not in self.notes]
        return element

    def _token_of(self, cut_up: SplitAnswer, piece: Piece) -> etree._Element | None:
        """Return the token; bare ampersands in it are unambiguous, and the server will check it."""
        try:
            return only_child(cut_up, piece, self.verb, self.limits).element
        except MalformedXmlError:
            self.notes.append("the resumptionToken has ampersands that are not escaped")
        escaped = escaped_ampersands(piece.raw)
        end = piece.offset + len(escaped)
        return self._alone(cut_up, replace(piece, source=escaped, end=end, shift=piece.offset))
