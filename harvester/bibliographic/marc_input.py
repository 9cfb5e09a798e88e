"""MARC records of a harvested repository or of a file, one after the other in bounded memory."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from lxml import etree
from sqlalchemy import text

from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.marc21.kinds import is_marc
from harvester.bibliographic.record import BibliographicRecord
from harvester.bibliographic.stored_marc import MarcSource, stored_metadata, why_not_bibliographic
from harvester.z3950.client import UnreadableMarcError, marcxml
from oai.database import Database
from oai.errors import MalformedXmlError, UsageError
from oai.xml import PARSER_OPTIONS, as_utf8, malformed, refuse_doctype

_HEAD: Final = 65_536
"""Bytes in which a file's format and a document type declaration are looked for."""
_CHUNK: Final = 1 << 20
_LONGEST: Final = 99_999
"""Bytes of a record in ISO 2709, whose length has five digits."""
_END: Final = b"\x1d"
_BETWEEN: Final = b"\r\n \t\0\x1a" + codecs.BOM_UTF8
"""Line breaks, padding, the end-of-file character of DOS and the byte order marks of concatenated files."""
_COMPRESSED: Final = (b"\x1f\x8b", b"PK\x03\x04")
_RECORDS: Final = ("{*}record", "{*}oai_marc")
_DELETED: Final = text(
    """
    SELECT identifier FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix AND status = 'deleted'
    ORDER BY identifier_key
    """
)
_AT_ONCE: Final = 1000
_CONVERTER: Final = Marc21Converter()


_CONTROL_NUMBER: Final = etree.XPath("string((.//*[@tag='001' or @id='001'])[1])")
_TITLE: Final = etree.XPath("string((.//*[@tag='245' or @id='245']/*[@code='a' or @label='a'])[1])")
"""These two also read `oai_marc`."""


@dataclass(frozen=True, kw_only=True)
class MarcInput:
    """A MARC record, or what is in its place. It can be read only until the next one is requested."""

    place: str
    """The OAI identifier, or the file and the number of the record in it."""
    identifier: str | None = None
    """The OAI identifier; None for a record from a file."""
    element: etree._Element | None = None
    """The metadata's root element; None if the record cannot be read or is deleted."""
    unreadable: str = ""
    """Why it cannot be read."""
    deleted: bool = False
    """Whether the repository has deleted it."""

    @property
    def control_number(self) -> str:
        """Field 001, read without converting the record, which takes ten times as long."""
        return "" if self.element is None else str(_CONTROL_NUMBER(self.element)).strip('" ')

    @property
    def title(self) -> str:
        """Field 245 $a as written."""
        return "" if self.element is None else str(_TITLE(self.element))

    def converted(self) -> BibliographicRecord:
        """Return the bibliographic record; only for an input with an element."""
        if self.element is None:
            raise RuntimeError(f"internal error: {self.place} has no record to convert")
        return _CONVERTER.convert(self.element)


def stored_marc_input(database: Database, source: MarcSource) -> Iterator[MarcInput]:
    """Yield the harvested records of a repository, also the deleted ones.

    Records that are not bibliographic MARC records are left out.
    """
    for stored, metadata in stored_metadata(database, source):
        named = stored.identifier
        if metadata is not None:
            yield MarcInput(place=named, identifier=named, element=metadata)
        elif stored.unreadable:
            yield MarcInput(place=named, identifier=named, unreadable=stored.unreadable)
    values = {"repository_id": source.repository_id, "prefix": source.metadata_prefix}
    with database.session() as session:
        options = {"yield_per": _AT_ONCE}
        for named in session.scalars(_DELETED, values, execution_options=options):
            yield MarcInput(place=named, identifier=named, deleted=True)


def read_marc_file(file: Path) -> Iterator[MarcInput]:
    """Yield the records of a file in MARCXML or ISO 2709.

    In MARCXML, the records may be in a collection or in an OAI-PMH response. What follows a fault of the XML
    is one unreadable record. Records that are not bibliographic are left out. Raises UsageError if there is
    no such file, or no MARC record in it.
    """
    if not file.is_file():
        raise UsageError(f"{file}: no such file")
    found = False
    with file.open("rb") as stream:
        head = stream.read(_HEAD)
        stream.seek(0)
        is_xml = as_utf8(head).lstrip().startswith(b"<")
        if is_xml or _may_be_exchanged(head):
            for one in _xml_records(stream, head, file.name) if is_xml else _exchanged(stream, file.name):
                found = True
                yield one
    if not found:
        raise UsageError(f"{file}: no bibliographic MARC record in it; use MARCXML or ISO 2709")


def _may_be_exchanged(head: bytes) -> bool:
    """Return whether a file that begins with these bytes may contain records in ISO 2709."""
    has_length = head.lstrip(_BETWEEN)[:5].isdigit()
    return not head.startswith(_COMPRESSED) and (has_length or _END in head)


def _xml_records(stream: BinaryIO, head: bytes, name: str) -> Iterator[MarcInput]:
    number = 0
    parsed = etree.iterparse(stream, events=("end",), tag=_RECORDS, **PARSER_OPTIONS)
    try:
        refuse_doctype(head, name)
        for _, element in parsed:
            number += is_marc(element)
            if not why_not_bibliographic(element):
                yield MarcInput(place=f"{name}, record {number}", element=element)
            _forget(element)
    except etree.XMLSyntaxError as error:
        reason = str(malformed(error, name, parsed.error_log))
        yield MarcInput(place=f"{name}, all after record {number}", unreadable=reason)
    except MalformedXmlError as error:
        yield MarcInput(place=name, unreadable=str(error))


def _forget(element: etree._Element) -> None:
    """Free the memory of an element and of all before it."""
    element.clear()
    parent = element.getparent()
    if parent is not None:
        del parent[: parent.index(element)]


def _exchanged(stream: BinaryIO, name: str) -> Iterator[MarcInput]:
    for number, data in enumerate(_split(stream), start=1):
        place = f"{name}, record {number}"
        if len(data) > _LONGEST:
            reason = f"longer than {_LONGEST:,} bytes, the longest record in ISO 2709"
            if not data.endswith(_END):
                reason = f"more than {_LONGEST:,} bytes without the end of a record"
            yield MarcInput(place=place, unreadable=reason)
            continue
        try:
            element = marcxml(data)
        except UnreadableMarcError as error:
            yield MarcInput(place=place, unreadable=str(error))
            continue
        if not why_not_bibliographic(element):
            yield MarcInput(place=place, element=element)


def _split(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the records of a file in ISO 2709; one that is too long may be cut, but is still too long."""
    rest = b""
    while chunk := stream.read(_CHUNK):
        *whole, rest = (rest + chunk).split(_END)
        yield from (data.lstrip(_BETWEEN) + _END for data in whole)
        rest = rest.lstrip(_BETWEEN)[: _LONGEST + 1]
    if rest:
        yield rest
