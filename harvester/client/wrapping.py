"""Makes a record of another protocol into a `<record>` of OAI-PMH, with identifier and datestamp.

Sources: MARC 21 Format for Bibliographic Data, fields 001 (control number), 005 (date and time of latest
transaction) and 008/00-05 (date entered on file); OAI-PMH 2.0, section 2.5.
"""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from lxml import etree

from harvester.reading.answers import Header, Record
from oai.datestamps import format_datestamp
from oai.vocabulary import OAI_NAMESPACE

MARC21_NAMESPACE: Final = "http://www.loc.gov/MARC21/slim"
UNKNOWN_DATE: Final = "1970-01-01T00:00:00Z"
"""The datestamp of a record that does not say when it was changed.

It is the same each time, so that a record that comes again as it was counts as unchanged.
"""
_DC: Final = "{http://purl.org/dc/elements/1.1/}"
_MARC: Final = f"{{{MARC21_NAMESPACE}}}"
_OAI: Final = f"{{{OAI_NAMESPACE}}}"
_CHANGED: Final = re.compile(r"([0-9]{14})(\.[0-9]*)?\s*")
_ENTERED: Final = re.compile(r"([0-9]{6})")
_UNPREFIXED: Final[dict[Any, str]] = {None: OAI_NAMESPACE}
_DIGEST_DIGITS: Final = 32


def wrapped(metadata: etree._Element, *, prefix: str, own: str = "") -> Record:
    """The record with the metadata in it; the element is moved, not copied.

    Its identifier is the prefix, a colon, and the first there is of: `own`, which the server calls it by; the
    control number; dc:identifier; and where it has no name at all, a digest of what it says.
    """
    header = Header(identifier=f"{prefix}:{own or name_of(metadata)}", datestamp=datestamp_of(metadata))
    record = etree.Element(_OAI + "record", nsmap=_UNPREFIXED)
    head = etree.SubElement(record, _OAI + "header")
    etree.SubElement(head, _OAI + "identifier").text = header.identifier
    etree.SubElement(head, _OAI + "datestamp").text = header.datestamp
    metadata.tail = None
    etree.SubElement(record, _OAI + "metadata").append(metadata)
    return Record(header=header, element=record)


def name_of(metadata: etree._Element) -> str:
    """What a record calls itself, in one line; a digest of it where it does not."""
    for text in (_control_field(metadata, "001"), metadata.findtext(_DC + "identifier")):
        name = " ".join((text or "").split())
        if name:
            return name
    digest = hashlib.sha256(etree.tostring(metadata, method="c14n2", with_tail=False))
    return f"sha256-{digest.hexdigest()[:_DIGEST_DIGITS]}"


def datestamp_of(metadata: etree._Element) -> str:
    """When a record says that it was changed, else entered on file; MARC 21 names no time zone."""
    changed = _CHANGED.fullmatch(_control_field(metadata, "005").strip())
    entered = _ENTERED.match(_control_field(metadata, "008"))
    for digits, form in ((changed, "%Y%m%d%H%M%S"), (entered, "%y%m%d")):
        if digits is None:
            continue
        try:
            moment = datetime.strptime(digits[1], form).replace(tzinfo=UTC)
        except ValueError:
            continue  # such as 00000000000000, which stands for no date
        # Of two digits for a year, those that would be still to come are of the century before.
        if moment <= datetime.now(UTC) + timedelta(days=1) or form == "%Y%m%d%H%M%S":
            return format_datestamp(moment)
        return format_datestamp(moment.replace(year=moment.year - 100))
    return UNKNOWN_DATE


def _control_field(metadata: etree._Element, tag: str) -> str:
    # Some servers give MARCXML without its namespace, or the records in a collection of one.
    for element in metadata.iter(_MARC + "controlfield", "controlfield"):
        if element.get("tag") == tag:
            return element.text or ""
    return ""
