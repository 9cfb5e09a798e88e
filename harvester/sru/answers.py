"""Turns an SRU server's bytes into values; does no input or output.

Elements are told by their local names: SRU 1.x and 2.0 have other namespaces for the same words, and servers
mix them up. Sources: SRU 1.1 and 1.2 (Library of Congress); searchRetrieve 2.0 (OASIS), section 4.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lxml import etree

from harvester.reading.encoding import readable
from harvester.reading.errors import MalformedAnswerError, NotOaiPmhError
from harvester.sru.diagnostics import Diagnostic, read_diagnostic
from oai.errors import MalformedXmlError
from oai.xml import parse

_HEAD: Final = 4096
_MOST_DIGITS: Final = 18


class NotSruError(NotOaiPmhError):
    """An answer, but not SRU."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A record of a result: its metadata, or why there is none."""

    position: int
    """In the whole result, from 1."""
    metadata: etree._Element | None = None
    identifier: str = ""
    """What the server calls it; empty where it does not."""
    reason: str = ""
    raw: bytes = b""
    """What came in place of metadata."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One answer to searchRetrieve."""

    version: str
    size: int | None
    """numberOfRecords: how many there are in all."""
    records: tuple[Found, ...] = ()
    next_position: int | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


def open_answer(body: bytes, name: str, *, url: str, content_type: str = "") -> etree._Element:
    """The root of an answer, which has to be called so. Raises MalformedAnswerError and NotSruError."""
    try:
        root = parse(readable(body, content_type).body, source=url)
    except MalformedXmlError as error:
        head = body[:_HEAD]
        if name.encode() in head.replace(b"\0", b""):
            raise MalformedAnswerError(url, f"the answer is not well-formed: {error.reason}") from None
        kind = "an HTML page" if b"<html" in head.lower() else "not XML"
        raise NotSruError(url, kind, head) from None
    if local_name(root) != name:
        raise NotSruError(url, f"<{local_name(root)}> instead of SRU's <{name}>", body[:_HEAD])
    return root


def read_result(body: bytes, *, url: str, start: int, content_type: str = "") -> Result:
    """Read an answer to searchRetrieve that asked for the records from position `start` on."""
    root = open_answer(body, "searchRetrieveResponse", url=url, content_type=content_type)
    return Result(
        version=child_text(root, "version"),
        size=_number(child_text(root, "numberOfRecords")),
        records=tuple(
            _found(record, start + index) for index, record in enumerate(_inner(root, "records", "record"))
        ),
        next_position=_number(child_text(root, "nextRecordPosition")),
        diagnostics=tuple(map(read_diagnostic, _inner(root, "diagnostics", "diagnostic"))),
    )


def record_data(record: etree._Element, *, source: str) -> etree._Element | None:
    """What a record holds, packed as XML or as a string of it; None where it holds nothing.

    Raises MalformedXmlError.
    """
    holder = child(record, "recordData")
    if holder is None:
        return None
    inside = next(holder.iterchildren(etree.Element), None)
    if inside is not None:
        return inside
    # Whatever recordPacking says: text is XML that was escaped.
    packed = (holder.text or "").strip()
    return parse(packed.encode(), source=source) if packed else None


def local_name(element: etree._Element) -> str:
    """The element's name without its namespace."""
    return etree.QName(element).localname


def children(element: etree._Element, name: str) -> Iterator[etree._Element]:
    """The children of that local name."""
    return (found for found in element.iterchildren(etree.Element) if local_name(found) == name)


def child(element: etree._Element, name: str) -> etree._Element | None:
    """The first of them."""
    return next(children(element, name), None)


def child_text(element: etree._Element, name: str) -> str:
    """Its text, in one line; empty where there is none."""
    found = child(element, name)
    return "" if found is None else " ".join((found.text or "").split())


def _inner(root: etree._Element, outer: str, name: str) -> Iterator[etree._Element]:
    for holder in children(root, outer):
        yield from children(holder, name)


def _found(record: etree._Element, expected: int) -> Found:
    position = _number(child_text(record, "recordPosition")) or expected
    try:
        metadata = record_data(record, source=f"record {position}")
    except MalformedXmlError as error:
        return Found(position=position, reason=f"its string is not XML: {error.reason}", raw=_bytes(record))
    if metadata is None:
        return Found(position=position, reason="it has no recordData", raw=_bytes(record))
    if local_name(metadata) in {"diagnostic", "diagnostics"}:
        inside = child(metadata, "diagnostic")
        told = read_diagnostic(metadata if inside is None else inside)
        return Found(position=position, reason=told.in_words(), raw=_bytes(record))
    return Found(position=position, metadata=metadata, identifier=child_text(record, "recordIdentifier"))


def _bytes(record: etree._Element) -> bytes:
    return etree.tostring(record, encoding="UTF-8", with_tail=False)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
