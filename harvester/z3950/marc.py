"""MARC 21 records as they are exchanged (ISO 2709), made into MARCXML.

Sources: MARC 21 Specifications for Record Structure, Character Sets, and Exchange Media; the MARCXML schema.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from lxml import etree
from pymarc import Record as Marc
from pymarc.exceptions import PymarcException
from pymarc.marcxml import record_to_xml

from oai.errors import MalformedXmlError
from oai.xml import parse

_END: Final = b"\x1d"
_LEADER: Final = 24
_CODING: Final = 9
_UTF_8: Final = ord("a")


class UnreadableMarcError(ValueError):
    """Bytes that are no MARC 21 record."""


def split(exchanged: bytes) -> Sequence[bytes]:
    """The records of a file, each with its terminator; what follows the last one is a part by itself."""
    parts = exchanged.split(_END)
    rest = [parts[-1]] if parts[-1].strip() else []
    return [*(part + _END for part in parts[:-1]), *rest]


def marcxml(record: bytes) -> etree._Element:
    """The record as `<record>` in the namespace of MARCXML. Raises UnreadableMarcError.

    A record that says that it is in MARC-8, and is UTF-8 to the last byte with more than ASCII in it, is in
    UTF-8: no text in MARC-8 looks like that, for there a letter's accent stands before it.
    """
    if len(record) <= _LEADER:
        raise UnreadableMarcError(f"{len(record)} bytes are not a MARC record")
    in_utf8 = record[_CODING] == _UTF_8 or _is_utf8(record)
    try:
        found = Marc(data=record, force_utf8=in_utf8, utf8_handling="strict")
        as_xml: bytes = record_to_xml(found, namespace=True)  # type: ignore[no-untyped-call]
        return parse(as_xml, source="MARC record")
    except MalformedXmlError as error:
        raise UnreadableMarcError(f"the record cannot be written as XML: {error.reason}") from None
    except (PymarcException, ValueError, IndexError, KeyError, AttributeError) as error:
        raise UnreadableMarcError(f"not a MARC 21 record: {str(error) or type(error).__name__}") from None


def readable_records(exchanged: bytes) -> Iterator[tuple[bytes, etree._Element | None, str]]:
    """Each record's bytes, with its MARCXML, or with why there is none."""
    for record in split(exchanged):
        try:
            yield record, marcxml(record), ""
        except UnreadableMarcError as error:
            yield record, None, str(error)


def _is_utf8(record: bytes) -> bool:
    if record.isascii():
        return False
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True
