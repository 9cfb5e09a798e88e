"""Turns a repository's bytes into typed answers; does no input or output.

Source: The Open Archives Initiative Protocol for Metadata Harvesting, version 2.0, sections 3.2 to 4.6.
"""

import codecs
from collections.abc import Iterator

from lxml import etree

from harvester.client.answers import (
    Fault,
    FormatInfo,
    Header,
    Identity,
    Page,
    Record,
    ResumptionToken,
    SetInfo,
)
from harvester.client.errors import ClientError, MalformedAnswerError, NotOaiPmhError, OaiError
from harvester.client.salvage import Cut, Piece, cut, identifiers
from oai.errors import MalformedXmlError
from oai.vocabulary import OAI_IDENTIFIER_NAMESPACE, OAI_NAMESPACE, Verb
from oai.xml import parse

_OAI = f"{{{OAI_NAMESPACE}}}"
_ROOT = _OAI + "OAI-PMH"
_RECORD = _OAI + "record"
_HEADER = _OAI + "header"
_IDENTIFIER = _OAI + "identifier"
_DATESTAMP = _OAI + "datestamp"
_SET_SPEC = _OAI + "setSpec"
_METADATA = _OAI + "metadata"
_ABOUT = _OAI + "about"
_TOKEN = _OAI + "resumptionToken"
_ERROR = _OAI + "error"
_HEAD_BYTES = 4096


def read_page(body: bytes, verb: Verb, *, url: str, loose: bool = False) -> Page:
    """Read an answer to ListRecords, ListIdentifiers or GetRecord.

    Strictly, anything wrong raises MalformedAnswerError. With `loose`, what can be read alone is kept, and
    what cannot is in the page's `faults`; no record is ever made up or repaired.

    Raises NotOaiPmhError, MalformedAnswerError, and OaiError where the answer is one of the
    protocol's errors.
    """
    try:
        container, date = _container(body, verb, url)
    except MalformedAnswerError:
        cut_up = cut(body, verb) if loose and verb is not Verb.GET_RECORD else None
        if cut_up is None:
            raise
        return _salvaged(cut_up, verb, url, len(body))
    reader = _PageReader(url=url)
    for child in container:
        reader.take(child)
    if reader.faults and not loose:
        raise MalformedAnswerError(url, reader.faults[0].reason)
    return reader.page(response_date=date, size=len(body))


def read_identity(body: bytes, *, url: str) -> Identity:
    """Read an answer to Identify."""
    container, date = _container(body, Verb.IDENTIFY, url)
    found = container.find(f".//{{{OAI_IDENTIFIER_NAMESPACE}}}repositoryIdentifier")
    return Identity(
        repository_name=_text(container, "repositoryName"),
        base_url=_text(container, "baseURL"),
        protocol_version=_text(container, "protocolVersion"),
        admin_emails=tuple(_texts(container, "adminEmail")),
        earliest_datestamp=_text(container, "earliestDatestamp"),
        deleted_record=_text(container, "deletedRecord"),
        granularity=_text(container, "granularity"),
        compression=tuple(_texts(container, "compression")),
        repository_identifier=found.text if found is not None else None,
        response_date=date,
    )


def read_sets(body: bytes, *, url: str) -> tuple[tuple[SetInfo, ...], ResumptionToken | None]:
    """Read an answer to ListSets."""
    container, _ = _container(body, Verb.LIST_SETS, url)
    sets = tuple(
        SetInfo(set_spec=_text(element, "setSpec"), set_name=_text(element, "setName"))
        for element in container.iterfind(_OAI + "set")
    )
    token = container.find(_TOKEN)
    return sets, None if token is None else _token(token)


def read_formats(body: bytes, *, url: str) -> tuple[FormatInfo, ...]:
    """Read an answer to ListMetadataFormats."""
    container, _ = _container(body, Verb.LIST_METADATA_FORMATS, url)
    return tuple(
        FormatInfo(
            metadata_prefix=_text(element, "metadataPrefix"),
            schema=_text(element, "schema"),
            namespace=_text(element, "metadataNamespace"),
        )
        for element in container.iterfind(_OAI + "metadataFormat")
    )


def looks_like_oai_pmh(body: bytes) -> bool:
    """Whether an answer with an HTTP error status is OAI-PMH all the same, as some servers do it."""
    return b"OAI-PMH" in body[:_HEAD_BYTES]


def _container(body: bytes, verb: Verb, url: str) -> tuple[etree._Element, str]:
    """The verb's element, and the responseDate."""
    try:
        root = parse(body, source=url)
    except MalformedXmlError as error:
        raise _not_well_formed(error, body, url) from None
    if root.tag != _ROOT:
        raise NotOaiPmhError(url, f"XML with the root element {root.tag!r}, not OAI-PMH 2.0", body)
    date = _text(root, "responseDate")
    _raise_errors(root, url, date)
    container = root.find(_OAI + verb)
    if container is None:
        raise MalformedAnswerError(url, f"there is neither a {verb} nor an error element in the answer")
    return container, date


def _not_well_formed(error: MalformedXmlError, body: bytes, url: str) -> ClientError:
    head = body[:_HEAD_BYTES].lstrip(codecs.BOM_UTF8)
    # UTF-16 puts a NUL beside each letter.
    if b"OAI-PMH" in head.replace(b"\0", b""):
        where = f" (line {error.line}, column {error.column})" if error.line else ""
        return MalformedAnswerError(url, f"the answer is not well-formed: {error.reason}{where}")
    kind = "an HTML page" if b"<html" in head.lower() else "no XML"
    return NotOaiPmhError(url, kind, head)


def _raise_errors(root: etree._Element, url: str, date: str) -> None:
    errors = root.findall(_ERROR)
    if errors:
        message = "; ".join(" ".join((error.text or "").split()) for error in errors)
        code = errors[0].get("code", "")
        others = [error.get("code", "") for error in errors[1:] if error.get("code", "") != code]
        if others:
            message = f"{message} (also {', '.join(others)})"
        raise OaiError(url, code, message.strip("; "), response_date=date)


class _PageReader:
    """Gathers a page from the elements of a list."""

    def __init__(self, *, url: str) -> None:
        self._url = url
        self._headers: list[Header] = []
        self._records: list[Record] = []
        self._token: ResumptionToken | None = None
        self.faults: list[Fault] = []

    def take(self, element: etree._Element, offset: int = -1) -> None:
        """Take one child of the list; what is wrong with it goes to the faults."""
        try:
            self._read(element)
        except ValueError as error:
            raw = etree.tostring(element, encoding="UTF-8", with_tail=False)
            self.faults.append(Fault(offset=offset, reason=str(error), raw=raw))

    def _read(self, element: etree._Element) -> None:
        if element.tag == _RECORD:
            record = _record(element)
            self._records.append(record)
            self._headers.append(record.header)
        elif element.tag == _HEADER:
            self._headers.append(_header(element))
        elif element.tag == _TOKEN:
            self._token = _token(element)

    def page(self, *, response_date: str, size: int, cut_off: bool = False) -> Page:
        return Page(
            url=self._url,
            response_date=response_date,
            headers=tuple(self._headers),
            records=tuple(self._records),
            token=self._token,
            faults=tuple(self.faults),
            cut_off=cut_off,
            size=size,
        )


def _salvaged(cut_up: Cut, verb: Verb, url: str, size: int) -> Page:
    reader = _PageReader(url=url)
    for piece in cut_up.pieces:
        element = _alone(cut_up, piece, verb, reader)
        if element is not None:
            reader.take(element, piece.offset)
    token_read = False
    if cut_up.ended and cut_up.token is not None:
        element = _alone(cut_up, cut_up.token, verb, reader)
        if element is not None:
            reader.take(element)
            token_read = True
    cut_off = not cut_up.ended or (cut_up.token is not None and not token_read)
    if cut_off and not reader.faults:
        reader.faults.append(
            Fault(offset=size, reason="the answer breaks off before the list's end", raw=b"")
        )
    return reader.page(response_date=cut_up.response_date, size=size, cut_off=cut_off)


def _alone(cut_up: Cut, piece: Piece, verb: Verb, reader: _PageReader) -> etree._Element | None:
    """The piece's element, parsed alone; else None, and a fault."""
    try:
        return _only_child(cut_up, piece, verb)
    except MalformedXmlError as error:
        named = next(identifiers(piece.raw), None)
        reason = f"record {named!r}: {error.reason}" if named else error.reason
        reader.faults.append(Fault(offset=piece.offset, reason=reason, raw=piece.raw))
        return None


def _only_child(cut_up: Cut, piece: Piece, verb: Verb) -> etree._Element:
    if piece.fault:
        raise MalformedXmlError("record", piece.fault)
    container = parse(cut_up.wrap(piece), source="record")[0]
    if container.tag != _OAI + verb or len(container) != 1:
        raise MalformedXmlError("record", "not one element")
    return container[0]


def _record(element: etree._Element) -> Record:
    header_element = element.find(_HEADER)
    if header_element is None:
        raise ValueError("a record without a header")
    header = _header(header_element)
    children = list(element.iterchildren(tag=etree.Element))
    tags = [child.tag for child in children]
    if tags[0] != _HEADER or tags[1:2] not in ([], [_METADATA]) or set(tags[2:]) - {_ABOUT}:
        raise ValueError(f"record {header.identifier!r} is not made of header, metadata and about")
    if not header.deleted and (len(tags) == 1 or not len(children[1])):
        raise ValueError(f"record {header.identifier!r} has no metadata and is not deleted")
    return Record(header=header, element=element)


def _header(element: etree._Element) -> Header:
    identifier = datestamp = ""
    set_specs: list[str] = []
    for child in element:
        text = (child.text or "").strip()
        if len(child):
            raise ValueError(f"a header whose {child.tag!r} holds more than text: {text!r}")
        if child.tag == _IDENTIFIER:
            identifier = text
        elif child.tag == _DATESTAMP:
            datestamp = text
        elif child.tag == _SET_SPEC and text:
            set_specs.append(text)
    if not identifier:
        raise ValueError("a header without an identifier")
    if not datestamp:
        raise ValueError(f"record {identifier!r} has no datestamp")
    deleted = element.get("status") == "deleted"
    return Header(identifier=identifier, datestamp=datestamp, set_specs=tuple(set_specs), deleted=deleted)


def _token(element: etree._Element) -> ResumptionToken:
    return ResumptionToken(
        value=(element.text or "").strip(),
        cursor=_number(element.get("cursor")),
        complete_list_size=_number(element.get("completeListSize")),
        expiration_date=element.get("expirationDate"),
    )


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None  # noqa: PLR2004 bigint


def _text(element: etree._Element, name: str) -> str:
    return (element.findtext(_OAI + name) or "").strip()


def _texts(element: etree._Element, name: str) -> Iterator[str]:
    return ((child.text or "").strip() for child in element.iterfind(_OAI + name))
