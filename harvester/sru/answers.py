"""Parse an SRU server's answers; performs no input or output.

Elements are recognised by their local names: SRU 1.x and 2.0 use different namespaces for the same names, and
servers mix them up. Sources: SRU 1.1 and 1.2 (Library of Congress); searchRetrieve 2.0 (OASIS), section 4.
"""

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lxml import etree

from harvester.reading.answers import FormatInfo
from harvester.reading.encoding import readable
from harvester.reading.errors import (
    BadArgumentError,
    CannotDisseminateFormatError,
    ClientError,
    MalformedAnswerError,
    NotOaiPmhError,
    OaiError,
)
from oai.errors import MalformedXmlError
from oai.failures import FailureCode
from oai.vocabulary import OAI_DC_NAMESPACE
from oai.xml import parse

_LIST: Final = "info:srw/diagnostic/1/"
VERSION_DIAGNOSTICS: Final = frozenset({"5", "8"})
"""Unsupported version, and unsupported parameter: SRU 2.0 has no `operation` and `version`."""
_ADVICE: Final[Mapping[str, str]] = {
    "10": "check the CQL of the query",
    "16": "the server does not support that index; to see what it offers, use `zatva probe`",
    "60": "the result exceeds the server's limit; narrow the query and harvest in parts",
    "61": "the server returns no records from this position; narrow the query and harvest in parts",
    "66": "choose another --format; to see what the server offers, use `zatva probe`",
    "67": "choose another --format; to see what the server offers, use `zatva probe`",
}
_FORMAT: Final = frozenset({"66", "67"})
_QUERY: Final = frozenset(str(code) for code in (*range(10, 50),))
_HEAD: Final = 4096
_MOST_DIGITS: Final = 18
_DECLARATION: Final = re.compile(r"<\?xml\s[^>]*\?>\s*")


class SruError(OaiError):
    """The server's diagnostic; `code` is `diagnostic` and its number, or its URI if it is not standard."""

    failure_code = FailureCode.BAD_REQUEST


class SruQueryError(SruError, BadArgumentError):
    """The server does not accept the query."""


class SruFormatError(SruError, CannotDisseminateFormatError):
    """The server does not deliver records in the schema."""

    failure_code = FailureCode.FORMAT_NOT_OFFERED


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One diagnostic."""

    code: str
    message: str
    details: str

    def in_words(self) -> str:
        """Return the diagnostic for messages."""
        return f"diagnostic {self.code}: {self._text}".rstrip(": ")

    @property
    def _text(self) -> str:
        return f"{self.message} ({self.details})".strip() if self.details else self.message

    def error(self, url: str) -> ClientError:
        """Return the corresponding error."""
        kind = SruError
        if self.code in _FORMAT:
            kind = SruFormatError
        elif self.code in _QUERY:
            kind = SruQueryError
        advice = _ADVICE.get(self.code, "")
        return kind(url, f"diagnostic {self.code}", "; ".join(filter(None, (self._text, advice))))


def read_diagnostic(element: etree._Element) -> Diagnostic:
    """Read a `<diagnostic>` of either version, in any namespace."""
    found = {etree.QName(child).localname: child.text or "" for child in element.iterchildren(etree.Element)}
    uri = " ".join(found.get("uri", "").split())
    return Diagnostic(
        code=uri.removeprefix(_LIST) or "unknown",
        message=" ".join(found.get("message", "").split()),
        details=" ".join(found.get("details", "").split()),
    )


class NotSruError(NotOaiPmhError):
    """An answer that is not SRU."""


@dataclass(frozen=True, kw_only=True)
class SruResultPage:
    """A record of a result: its metadata, or why it has none; both if it has more than can be stored."""

    position: int
    """The position in the whole result, from 1."""
    metadata: etree._Element | None = None
    identifier: str = ""
    """The server's identifier of the record; empty if there is none."""
    reason: str = ""
    raw: bytes = b""
    """The content received, if there is a reason."""


@dataclass(frozen=True, kw_only=True)
class SruResult:
    """An answer to searchRetrieve."""

    version: str
    size: int | None
    """numberOfRecords: the size of the whole result."""
    records: tuple[SruResultPage, ...] = ()
    next_position: int | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


def open_answer(body: bytes, name: str, *, url: str, content_type: str = "") -> etree._Element:
    """Return an answer's root, which must have this name. Raises MalformedAnswerError and NotSruError."""
    try:
        # Scripts often send line breaks before the XML declaration.
        root = parse(readable(body, content_type).body.removeprefix(codecs.BOM_UTF8).lstrip(), source=url)
    except MalformedXmlError as error:
        head = body[:_HEAD]
        if name.encode() in head.replace(b"\0", b""):
            raise MalformedAnswerError(url, f"the answer is not well-formed: {error.reason}") from None
        kind = "an HTML page" if b"<html" in head.lower() else "not XML"
        raise NotSruError(url, kind, head) from None
    if local_name(root) != name:
        raise NotSruError(url, f"<{local_name(root)}> instead of SRU's <{name}>", body[:_HEAD])
    return root


def read_result(body: bytes, *, url: str, start: int, content_type: str = "") -> SruResult:
    """Read an answer to searchRetrieve for the records from position `start` on."""
    root = open_answer(body, "searchRetrieveResponse", url=url, content_type=content_type)
    return SruResult(
        version=child_text(root, "version"),
        size=_number(child_text(root, "numberOfRecords")),
        records=tuple(
            _found(record, start + index) for index, record in enumerate(_inner(root, "records", "record"))
        ),
        next_position=_number(child_text(root, "nextRecordPosition")),
        diagnostics=tuple(map(read_diagnostic, _inner(root, "diagnostics", "diagnostic"))),
    )


def record_data(record: etree._Element, *, source: str) -> etree._Element | None:
    """Return the content of a record, embedded as XML or as escaped text; None if it is empty.

    Raises MalformedXmlError.
    """
    holder = child(record, "recordData")
    if holder is None:
        return None
    inside = next(holder.iterchildren(etree.Element), None)
    if inside is not None:
        return inside
    # Regardless of recordPacking: text is escaped XML.
    # It is decoded already, so an encoding that it declares itself no longer means anything.
    packed = _DECLARATION.sub("", (holder.text or "").strip(), count=1)
    return parse(packed.encode(), source=source) if packed else None


def local_name(element: etree._Element) -> str:
    """Return the element's name without its namespace."""
    return etree.QName(element).localname


def children(element: etree._Element, name: str) -> Iterator[etree._Element]:
    """Yield the children with that local name."""
    return (found for found in element.iterchildren(etree.Element) if local_name(found) == name)


def child(element: etree._Element, name: str) -> etree._Element | None:
    """Return the first child with that local name."""
    return next(children(element, name), None)


def child_text(element: etree._Element, name: str) -> str:
    """Return the first such child's text, on one line; empty if there is none."""
    found = child(element, name)
    return "" if found is None else " ".join((found.text or "").split())


def _inner(root: etree._Element, outer: str, name: str) -> Iterator[etree._Element]:
    for holder in children(root, outer):
        yield from children(holder, name)


def _found(record: etree._Element, expected: int) -> SruResultPage:
    position = _number(child_text(record, "recordPosition")) or expected
    try:
        metadata = record_data(record, source=f"record {position}")
    except MalformedXmlError as error:
        return SruResultPage(
            position=position, reason=f"its string is not XML: {error.reason}", raw=_bytes(record)
        )
    if metadata is None:
        return SruResultPage(position=position, reason="it has no recordData", raw=_bytes(record))
    if local_name(metadata) in {"diagnostic", "diagnostics"}:
        inside = child(metadata, "diagnostic")
        diagnostic = read_diagnostic(metadata if inside is None else inside)
        return SruResultPage(position=position, reason=diagnostic.in_words(), raw=_bytes(record))
    others = next(metadata.itersiblings(etree.Element), None) is not None
    return SruResultPage(
        position=position,
        metadata=metadata,
        identifier=child_text(record, "recordIdentifier"),
        reason="only the first element of its recordData is stored" if others else "",
        raw=_bytes(record) if others else b"",
    )


def _bytes(record: etree._Element) -> bytes:
    return etree.tostring(record, encoding="UTF-8", with_tail=False)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The content of an explain answer; empty where the server provides nothing."""

    title: str = ""
    contact: str = ""
    version: str = ""
    schemas: tuple[FormatInfo, ...] = ()
    """`metadata_prefix` is the schema's short name, `namespace` its identifier."""
    most_at_once: int | None = None


def read_explanation(body: bytes, *, url: str, content_type: str = "") -> Explanation:
    """Read an answer to explain. Raises MalformedAnswerError and NotSruError."""
    root = open_answer(body, "explainResponse", url=url, content_type=content_type)
    record = child(root, "record")
    try:
        explain = None if record is None else record_data(record, source=url)
    except MalformedXmlError as error:
        raise MalformedAnswerError(url, f"the explain record is not XML: {error.reason}") from None
    if explain is None:
        raise MalformedAnswerError(url, "the answer has no explain record")
    server = child(explain, "serverInfo")
    database = child(explain, "databaseInfo")
    return Explanation(
        title="" if database is None else child_text(database, "title"),
        contact="" if database is None else child_text(database, "contact"),
        version=child_text(root, "version") or ("" if server is None else server.get("version", "")),
        schemas=tuple(_schemas(explain)),
        most_at_once=_most_at_once(explain),
    )


def _schemas(explain: etree._Element) -> Iterator[FormatInfo]:
    for schema in explain.iter(etree.Element):
        name = schema.get("name", "")
        if local_name(schema) == "schema" and name and schema.get("retrieve", "true") != "false":
            yield FormatInfo(
                metadata_prefix=name,
                schema=schema.get("location", ""),
                namespace=schema.get("identifier", ""),
                only_named=True,
            )


def _most_at_once(explain: etree._Element) -> int | None:
    for setting in explain.iter(etree.Element):
        text = (setting.text or "").strip()
        if setting.get("type") == "maximumRecords" and text.isascii() and text.isdigit() and int(text[:9]):
            return int(text[:9])
    return None


_DC_NAMESPACE: Final = "http://purl.org/dc/elements/1.1/"
_ALIKE: Final[Sequence[frozenset[str]]] = (
    frozenset(
        {
            "oai_dc", "dc", "simpledc", "dublincore", "info:srw/schema/1/dc-v1.1",
            "info:srw/schema/1/dc-schema",
            "http://purl.org/dc/elements/1.1/", "http://www.openarchives.org/oai/2.0/oai_dc/",
        }
    ),
    frozenset(
        {
            "marcxml", "marc21", "marc21-xml", "marc", "info:srw/schema/1/marcxml-v1.1",
            "info:srw/schema/1/marcxml-v1.2", "http://www.loc.gov/marc21/slim",
        }
    ),
)  # fmt: skip
"""Names and identifiers of schemas, in lower case, that are equivalent."""


def choose_schema(wanted: str, offered: Sequence[FormatInfo]) -> str | None:
    """Return the server's name of the schema; None if it offers only others.

    If the server does not list its schemas, the name is used unchanged, or `dc` for Dublin Core.
    """
    if not offered:
        return "dc" if wanted == "oai_dc" else wanted
    names = [found.metadata_prefix for found in offered]
    if wanted in names:
        return wanted
    alike = next((group for group in _ALIKE if wanted.lower() in group), frozenset({wanted.lower()}))
    for found in offered:
        if {found.metadata_prefix.lower(), found.namespace.lower()} & alike:
            return found.metadata_prefix
    return None


_OAI_DC: Final[Mapping[str, str]] = {"oai_dc": OAI_DC_NAMESPACE, "dc": _DC_NAMESPACE}


def as_oai_dc(metadata: etree._Element) -> etree._Element:
    """Wrap Dublin Core in oai_dc, because servers use several wrappers; its elements stay unchanged.

    Metadata other than Dublin Core is returned unchanged.
    """
    inside = list(metadata.iterchildren(etree.Element))
    fits = local_name(metadata) in {"dc", "record"} and all(
        etree.QName(element).namespace == _DC_NAMESPACE for element in inside
    )
    if not fits or not inside or metadata.tag == f"{{{OAI_DC_NAMESPACE}}}dc":
        return metadata
    wrapper = etree.Element(f"{{{OAI_DC_NAMESPACE}}}dc", nsmap=dict(_OAI_DC))
    wrapper.extend(inside)
    etree.cleanup_namespaces(wrapper, keep_ns_prefixes=["oai_dc", "dc"])
    return wrapper
