"""Safe XML input and output: one escaping function, one parser without entities, network or DTD."""

import codecs
import contextlib
import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from xml.parsers import expat

from lxml import etree

from oai.errors import MalformedXmlError, XmlLimitError
from oai.failures import FailureCode
from oai.limits import DEFAULT_LIMITS, AnswerLimits
from oai.vocabulary import OAI_NAMESPACE

_FORBIDDEN: Final = [
    *(code for code in range(0x20) if chr(code) not in "\t\n\r"),
    *range(0xD800, 0xE000),
    0xFFFE,
    0xFFFF,
]
_REPLACEMENTS: Final[dict[str, str]] = {
    **dict.fromkeys(map(chr, _FORBIDDEN), ""),
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    # A parser would normalise these to blanks inside an attribute, or to line feeds.
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}
_SPECIAL: Final = re.compile('[&<>"\x00-\x1f\ud800-\udfff\ufffe\uffff]')

DOCTYPE_REFUSED: Final = "a document type declaration (DOCTYPE), which is not allowed"
_PROLOG: Final = re.compile(rb"\s*+(?>(?:<\?.*?\?>\s*+|<!--.*?-->\s*+)*)", re.DOTALL)
_WIDE_ENCODINGS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\x00", "utf-16-le"),
    (b"\x00<", "utf-16-be"),
)


PARSER_OPTIONS: Final[dict[str, Any]] = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "dtd_validation": False,
    # Otherwise libxml2 calls an answer in which an `xml:id` occurs twice not well-formed.
    "collect_ids": False,
}
_METADATA: Final = f"{{{OAI_NAMESPACE}}}metadata"
_NO_MEMORY: Final = 2
_CODES: Final[Mapping[int, FailureCode]] = {
    0: FailureCode.RECORD_ENCODING,
    8: FailureCode.RECORD_CHARACTER,
    9: FailureCode.RECORD_CHARACTER,
    31: FailureCode.RECORD_ENCODING,
    32: FailureCode.RECORD_ENCODING,
    81: FailureCode.RECORD_ENCODING,
}
"""By libxml2's error codes (xmlParserErrors): character references and characters; encodings."""
_BRACE: Final = re.compile("[{}]")
_NO_URI: Final = 99
"""libxml2's error code for a namespace name that is not a URI."""
LIMIT_CODES: Final = frozenset({45, 110, 114})
"""libxml2's error codes for its own limits: a comment or name that is too long, any other limit."""


def metadata_of(record: etree._Element) -> etree._Element | None:
    """Return the root element of the metadata in a `record` element; None if there is none."""
    metadata = record.find(_METADATA)
    return None if metadata is None else next(metadata.iterchildren(etree.Element), None)


def indented(element: etree._Element) -> str:
    """Return the element as readable text, its children on separate lines."""
    shown = copy.deepcopy(element)
    etree.indent(shown)
    return etree.tostring(shown, encoding="unicode", with_tail=False)


def escape(text: str) -> str:
    """Escape text for element content and for attributes in double quotes.

    Characters that XML 1.0 forbids (production 2 of its specification) are omitted.
    """
    # No printable character is forbidden. Three times as fast as the expression for URLs with a query.
    if not text.isprintable():
        return _SPECIAL.sub(_replacement, text)
    if "&" in text:
        text = text.replace("&", "&amp;")
    if "<" in text:
        text = text.replace("<", "&lt;")
    if ">" in text:
        text = text.replace(">", "&gt;")
    return text.replace('"', "&quot;") if '"' in text else text


def _replacement(found: re.Match[str]) -> str:
    return _REPLACEMENTS[found[0]]


def parse(
    data: bytes,
    *,
    source: str,
    max_bytes: int | None = None,
    limits: AnswerLimits = DEFAULT_LIMITS,
    offset: int = 0,
    only_uris: bool = False,
) -> etree._Element:
    """Parse one document strictly and return its root element.

    `source` names the document in errors. Nothing is fetched and no entity is expanded. A document type
    declaration is refused, because it has no use here and enables all known attacks. The document counts
    as one part of an answer for `limits`; `offset` is where the part begins in the answer. With `only_uris`,
    a namespace name that is not a URI is an error, as for libxml2; in Namespaces in XML 1.0, section 7, it is
    none.

    Raises XmlLimitError for a document that exceeds the limits, and MalformedXmlError with line and
    column if the parser knows them.
    """
    if max_bytes is not None and len(data) > max_bytes:
        raise MalformedXmlError(source, f"{len(data):,} bytes; the limit is {max_bytes:,}")
    refuse_doctype(data, source)
    _check_size(data, limits, source, offset)
    root = _parsed(data, limits, source, offset, only_uris=only_uris)
    if root.getroottree().docinfo.internalDTD is not None:
        raise MalformedXmlError(source, DOCTYPE_REFUSED)
    return root


def _parsed(
    data: bytes, limits: AnswerLimits, source: str, offset: int, *, only_uris: bool
) -> etree._Element:
    """Parse the document and return its root.

    libxml2's own limits (256 levels, texts of 10 MB) cost nothing and suffice for nearly every document.
    A document that exceeds them is scanned first and, if it is within ours, parsed without them.
    """
    careful = limits.part_depth < DEFAULT_LIMITS.part_depth
    try:
        if not careful:
            return _tree(data, huge_tree=False, only_uris=only_uris)
    except etree.XMLSyntaxError as error:
        if getattr(error, "code", 0) not in LIMIT_CODES:
            raise malformed(error, source) from None
    _scan(data, limits, source, offset)
    try:
        return _tree(data, huge_tree=True, only_uris=only_uris)
    except etree.XMLSyntaxError as error:
        raise malformed(error, source) from None


def _tree(data: bytes, *, huge_tree: bool, only_uris: bool) -> etree._Element:
    parser = etree.XMLParser(**PARSER_OPTIONS, huge_tree=huge_tree)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError:
        # With a brace in a namespace, lxml could not tell it from an element's name.
        if only_uris or any(one.type != _NO_URI or _BRACE.search(one.message) for one in parser.error_log):
            raise
    # It has parsed the whole document as if the name were right, and only then refused it.
    return etree.fromstring(data, etree.XMLParser(**PARSER_OPTIONS, huge_tree=huge_tree, recover=True))


def malformed(
    error: etree.XMLSyntaxError, source: str, log: Iterable[etree._LogEntry] = ()
) -> MalformedXmlError:
    """Translate the parser's error; raise MemoryError for libxml2's code for a lack of memory.

    `log` is the error log of `iterparse`, the only place where it reports an undefined entity.
    """
    number = getattr(error, "code", 0)
    if number == _NO_MEMORY:
        raise MemoryError
    line, column = error.position or (0, 0)
    words = error.msg or "not XML"
    logged = next((one for one in log if one.level == etree.ErrorLevels.FATAL), None)
    if logged is not None and not line:
        number, line, column = logged.type, logged.line, logged.column
        words = f"{logged.message}, line {line}, column {column}"
    # libxml2 distinguishes bytes that are not UTF-8 from forbidden characters only in the message.
    code = _CODES.get(0 if "UTF-8" in words else number, FailureCode.RECORD_XML)
    return MalformedXmlError(source, words, line=line or 0, column=column or 0, code=code)


def tags_in(data: bytes) -> int:
    """Return the maximum number of start tags: CDATA and comments may contain what looks like a tag."""
    return data.count(b"<") - data.count(b"</")


def _check_size(data: bytes, limits: AnswerLimits, source: str, offset: int) -> None:
    if len(data) > limits.part_bytes:
        failure = limits.failure(FailureCode.PART_BYTES, limits.part_bytes, offset=offset)
        raise XmlLimitError(source, failure)
    # No element is shorter than `<a/>`, so most documents are too short to have too many.
    if len(data) // 4 > limits.part_elements and tags_in(data) > limits.part_elements:
        _scan(data, limits, source, offset)


def _scan(data: bytes, limits: AnswerLimits, source: str, offset: int) -> None:
    """Count elements and levels one by one. Raises XmlLimitError if there are too many."""
    counted = depth = 0

    def begin(_name: str, _attributes: object) -> None:
        nonlocal counted, depth
        counted, depth = counted + 1, depth + 1
        if counted > limits.part_elements:
            failure = limits.failure(FailureCode.PART_ELEMENTS, limits.part_elements, offset=offset)
            raise XmlLimitError(source, failure)
        if depth > limits.part_depth:
            failure = limits.failure(FailureCode.PART_DEPTH, limits.part_depth, offset=offset)
            raise XmlLimitError(source, failure)

    def end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    scanner = expat.ParserCreate()
    scanner.StartElementHandler, scanner.EndElementHandler = begin, end
    with contextlib.suppress(expat.ExpatError, ValueError):  # the parser reports malformed input
        scanner.Parse(data, True)  # noqa: FBT003 expat's signature


def as_utf8(head: bytes) -> bytes:
    """Return the beginning of a document without a byte order mark; UTF-16 and UTF-32 become UTF-8.

    What cannot be decoded is replaced.
    """
    for mark, encoding in _WIDE_ENCODINGS:
        if head.startswith(mark):
            head = head.decode(encoding, errors="replace").encode("utf-8", errors="replace")
            break
    return head.removeprefix(codecs.BOM_UTF8)


def refuse_doctype(data: bytes, source: str) -> None:
    """Raise MalformedXmlError if a document type declaration precedes the root."""
    head = as_utf8(data)
    prolog = _PROLOG.match(head)
    position = prolog.end() if prolog else 0
    if head.startswith(b"<!DOCTYPE", position):
        line = head.count(b"\n", 0, position) + 1
        column = position - head.rfind(b"\n", 0, position)
        raise MalformedXmlError(source, DOCTYPE_REFUSED, line=line, column=column)
