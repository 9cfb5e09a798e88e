"""Turns the bytes of a list of records, or of one, into a page; does no input or output.

Source: The Open Archives Initiative Protocol for Metadata Harvesting, version 2.0, sections 3.2 to 3.5, and
4.1, 4.3 and 4.5.
"""

from collections.abc import Callable
from typing import NamedTuple

from lxml import etree

from harvester.reading.answers import Fault, Header, Page, Record, ResumptionToken
from harvester.reading.envelope import Envelope, adopt, local_name, open_envelope, readable_body
from harvester.reading.errors import MalformedAnswerError
from harvester.reading.parts import HEADER, RECORD, TOKEN, read_header, read_record, read_token
from harvester.reading.prolog import trimmed
from harvester.reading.salvage import Cut, Piece, cut, escaped_ampersands, identifiers
from oai.errors import MalformedXmlError
from oai.vocabulary import Verb
from oai.xml import parse

_HEAD_BYTES = 4096


OnToken = Callable[[str], None]
"""Is told a page's resumptionToken before its records are looked at, if the answer is whole and has one."""


class Unread(NamedTuple):
    """An answer to ListRecords, ListIdentifiers or GetRecord as it came; see `read_page`."""

    body: bytes
    verb: Verb
    url: str
    content_type: str
    loose: bool

    def read(self, on_token: OnToken | None = None) -> Page:
        """The page. Raises as `read_page` does."""
        return read_page(**self._asdict(), on_token=on_token)


def read_page(
    body: bytes,
    verb: Verb,
    *,
    url: str,
    loose: bool = False,
    content_type: str = "",
    on_token: OnToken | None = None,
) -> Page:
    """Read an answer to ListRecords, ListIdentifiers or GetRecord; `content_type` is what HTTP says of it.

    Strictly, anything wrong raises MalformedAnswerError. With `loose`, what can be read alone is kept, what
    cannot is in the page's `faults`, and what was odd without costing a record in its `notes`; what a record
    holds is never made up or repaired.

    Raises NotOaiPmhError, MalformedAnswerError, and OaiError where the answer is one of the
    protocol's errors.
    """
    body, notes = readable_body(body, url, content_type, loose=loose)
    reader = _PageReader(verb=verb, url=url, notes=notes)
    try:
        envelope = open_envelope(body, verb, url, loose=loose)
    except MalformedAnswerError as error:
        if not loose:
            raise
        return _second_try(reader, body, error)
    if on_token is not None and (token := _token_at_the_end(envelope)):
        on_token(token)
    page = reader.read(envelope, size=len(body))
    if not loose and (page.faults or page.notes):
        raise MalformedAnswerError(url, page.faults[0].reason if page.faults else page.notes[0])
    return page


def looks_like_oai_pmh(body: bytes) -> bool:
    """Whether an answer with an HTTP error status is OAI-PMH all the same, as some servers do it."""
    return b"OAI-PMH" in body[:_HEAD_BYTES]


def _token_at_the_end(envelope: Envelope) -> str:
    """The token for the next page, where it stands where it belongs; else nothing."""
    last = envelope.children[-1] if envelope.children and not envelope.notes else None
    return read_token(last).value if last is not None and last.tag == TOKEN else ""


def _second_try(reader: "_PageReader", body: bytes, error: MalformedAnswerError) -> Page:
    """Read an answer that is broken as a whole: without what stands around it, or else in pieces."""
    around = trimmed(body)
    reader.notes += around.notes
    if around.notes:
        try:
            return reader.read(
                open_envelope(around.body, reader.verb, reader.url, loose=True), size=len(body)
            )
        except MalformedAnswerError as still:
            error = still
    cut_up = cut(around.body, reader.verb)
    if cut_up is None:
        raise error
    reader.notes.append(f"{error.reason}; its parts were read one by one")
    return reader.salvage(cut_up, size=len(around.body))


class _PageReader:
    """Gathers a page from the elements of a list."""

    def __init__(self, *, verb: Verb, url: str, notes: list[str]) -> None:
        self.verb = verb
        self.url = url
        self.notes = notes
        self._headers: list[Header] = []
        self._records: list[Record] = []
        self._token: ResumptionToken | None = None
        self._faults: list[Fault] = []

    def read(self, envelope: Envelope, *, size: int) -> Page:
        """The page in an envelope that is whole."""
        self.notes += envelope.notes
        for child in envelope.children:
            self._take(child)
        return self._page(envelope.response_date, size)

    def salvage(self, cut_up: Cut, *, size: int) -> Page:
        """The page that can be read from the pieces of a broken answer."""
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
            reason = "the answer breaks off before the list's end"
            self._faults.append(Fault(offset=size, reason=reason, raw=b""))
        return self._page(cut_up.response_date, size, cut_off=cut_off)

    def _take(self, element: etree._Element, offset: int = -1) -> None:
        """Take one child of the list; what is wrong with it goes to the faults."""
        if element.tag not in _KNOWN:
            self._adopt(element)
        try:
            self._read(element)
        except ValueError as error:
            if self._adopt(element):
                self._take(element, offset)
                return
            raw = etree.tostring(element, encoding="UTF-8", with_tail=False)
            self._faults.append(Fault(offset=offset, reason=str(error), raw=raw))

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
            raise ValueError(f"{local_name(element)!r} where a part of the list belongs")

    def _page(self, response_date: str, size: int, *, cut_off: bool = False) -> Page:
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

    def _alone(self, cut_up: Cut, piece: Piece) -> etree._Element | None:
        """The piece's element, parsed alone; else None, and a fault."""
        try:
            return _only_child(cut_up, piece, self.verb)
        except MalformedXmlError as error:
            named = next(identifiers(piece.raw), None)
            reason = f"record {named!r}: {error.reason}" if named else error.reason
            self._faults.append(Fault(offset=piece.offset, reason=reason, raw=piece.raw))
            return None

    def _token_of(self, cut_up: Cut, piece: Piece) -> etree._Element | None:
        """The token, whose bare ampersands can mean one thing only, and which the server will check."""
        try:
            return _only_child(cut_up, piece, self.verb)
        except MalformedXmlError:
            self.notes.append("the resumptionToken has ampersands that are not escaped")
        escaped = Piece(offset=piece.offset, raw=escaped_ampersands(piece.raw), fault=piece.fault)
        return self._alone(cut_up, escaped)


_KNOWN = frozenset({RECORD, HEADER, TOKEN})


def _only_child(cut_up: Cut, piece: Piece, verb: Verb) -> etree._Element:
    if piece.fault:
        raise MalformedXmlError("record", piece.fault)
    container = parse(cut_up.wrap(piece), source="record")[0]
    if local_name(container) != verb or len(container) != 1:
        raise MalformedXmlError("record", "not one element")
    return container[0]
