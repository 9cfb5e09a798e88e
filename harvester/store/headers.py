"""The OAI header that travels with each stored record: read from its file, and marked as deleted."""

from lxml import etree

from harvester.reading.answers import Header
from oai.vocabulary import OAI_NAMESPACE
from oai.xml import parse

_OAI = f"{{{OAI_NAMESPACE}}}"


def read_header(data: bytes, *, source: str) -> Header:
    """The header in a record file's bytes.

    Raises MalformedXmlError where they are no XML, ValueError where they are no record with identifier and
    datestamp; both name `source`.
    """
    return _header(parse(data, source=source), source)


def marked_deleted(data: bytes, *, datestamp: str, source: str) -> bytes:
    """The record's bytes with a header that says `status="deleted"` since `datestamp`; the rest stays.

    Marking again gives the same bytes. Raises as `read_header` does.
    """
    root = parse(data, source=source)
    _header(root, source)
    header = root.find(_OAI + "header")
    assert header is not None  # noqa: S101 _header() has read it
    header.set("status", "deleted")
    for child in header.iterchildren(_OAI + "datestamp"):
        child.text = datestamp
    return etree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _header(root: etree._Element, source: str) -> Header:
    header = root.find(_OAI + "header") if root.tag == _OAI + "record" else None
    if header is None:
        raise ValueError(f"{source}: the root is {root.tag!r}, not a record with a header")
    identifier = (header.findtext(_OAI + "identifier") or "").strip()
    datestamp = (header.findtext(_OAI + "datestamp") or "").strip()
    if not identifier or not datestamp:
        raise ValueError(f"{source}: the header has no {'datestamp' if identifier else 'identifier'}")
    specs = ((child.text or "").strip() for child in header.iterchildren(_OAI + "setSpec"))
    return Header(
        identifier=identifier,
        datestamp=datestamp,
        set_specs=tuple(spec for spec in specs if spec),
        deleted=header.get("status") == "deleted",
    )
