"""The envelope around an answer's records: the root, the verb's element, the protocol's errors.

In strict reading it must conform to section 3.2 of the specification. In lenient reading, other namespaces,
none, and the answers of OAI-PMH 1.1 are read as intended, and oddities are noted.
"""

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape

from lxml import etree

from harvester.reading.encoding import readable
from harvester.reading.errors import (
    AnswerTooLargeError,
    ClientError,
    MalformedAnswerError,
    NotOaiPmhError,
    ObsoleteVersionError,
    PartError,
    oai_error,
)
from harvester.reading.spooled import Body
from harvester.reading.strictness import check_envelope
from oai.errors import MalformedXmlError, XmlLimitError
from oai.limits import DEFAULT_LIMITS, AnswerLimits
from oai.vocabulary import OAI_NAMESPACE, ErrorCode, Verb
from oai.xml import parse

OAI = f"{{{OAI_NAMESPACE}}}"
_ROOT = OAI + "OAI-PMH"
_TOKEN = OAI + "resumptionToken"
_LISTED = frozenset({OAI + "record", OAI + "header"})
_ERROR = OAI + "error"
_OLD = "http://www.openarchives.org/OAI/1."
_HEAD_BYTES = 4096
_BEGINS = re.compile(rb"<(?:!DOCTYPE\s+|[\w.-]+:)?OAI-PMH")
"""The root element or its document type; a page may mention the protocol in its text."""
_ERROR_ANSWER = re.compile(
    rb"""<(?P<p>(?:[\w.-]+:)?)OAI-PMH(?:\s[^<>]*)?>\s*
    (?:<(?P=p)responseDate>(?P<date>[^<]*)</(?P=p)responseDate>\s*)?
    (?:<(?P=p)request(?:\s[^<>]*)?(?:/>|>[^<]*</(?P=p)request>)\s*)?
    <(?P=p)error\s[^<>]*?\bcode\s*=\s*["'](?P<code>%s)["'][^<>]*>(?P<message>[^<]*)"""
    % "|".join(ErrorCode).encode(),
    re.VERBOSE,
)
"""An error of the protocol right after the date and the repeated request, whatever follows."""
_NAMES = ("date", "code", "message")
_PART = re.compile(rb"<(?:[\w.-]+:)?(?:record|header|resumptionToken)[\s/>]")
_PARTS = frozenset({"record", "header", "resumptionToken"})
_PARTS_OF = {
    "record": frozenset({"header", "metadata", "about"}),
    "header": frozenset({"identifier", "datestamp", "setSpec"}),
}


@dataclass(kw_only=True)
class Envelope:
    """An answer without errors: its verb's element, and the elements that belong in it."""

    response_date: str
    container: etree._Element
    children: Sequence[etree._Element]
    notes: list[str] = field(default_factory=list)
    obsolete: bool = False
    """Of OAI-PMH 1.1: the verb's element is the root."""


def readable_body(body: bytes, url: str, content_type: str, *, loose: bool) -> tuple[bytes, list[str]]:
    """Return the body in its true encoding, and what was wrong with the stated one.

    In strict reading, a wrong encoding raises MalformedAnswerError.
    """
    found = readable(body, content_type)
    if found.note and not loose:
        raise MalformedAnswerError(url, found.note)
    return found.body, [found.note] if found.note else []


def open_envelope(
    body: bytes, verb: Verb, url: str, *, loose: bool = False, limits: AnswerLimits = DEFAULT_LIMITS
) -> Envelope:
    """Open the envelope of an answer to the verb.

    Raises NotOaiPmhError, MalformedAnswerError, AnswerTooLargeError for an answer beyond the limits, and
    OaiError if the answer is one of the protocol's errors; with `loose`, also if it is not well-formed.
    """
    try:
        root = parse(body, source=url, limits=limits, only_uris=True)
    except XmlLimitError as error:
        raise AnswerTooLargeError(url, error.failure) from None
    except MalformedXmlError as error:
        raise (loose and _broken_error(body, url)) or _not_well_formed(error, body, url) from None
    notes: list[str] = []
    if root.tag != _ROOT:
        notes.append(_in_our_namespace(root, verb, url, body))
    of_1_1 = local_name(root) == verb
    containers = [root] if of_1_1 else root.findall(OAI + verb)
    stray = (
        [] if of_1_1 else [child for child in root.iterchildren(etree.Element) if local_name(child) in _PARTS]
    )
    date = text_at(root, OAI + "responseDate")
    children = [child for container in containers for child in container.iterchildren(etree.Element)]
    if of_1_1:
        children = [child for child in children if local_name(child) in _PARTS]
    notes += _read_errors(root, children + stray, url, date)
    notes += _odd_parts(containers, stray, verb, url)
    if not loose:
        _check_strictly(root, notes, url, obsolete=of_1_1)
    return Envelope(
        response_date=date,
        container=containers[0] if containers else root,
        children=children + stray,
        notes=notes,
        obsolete=of_1_1,
    )


def error_answer(body: Body) -> re.Match[bytes] | None:
    """Return where an answer, well-formed or not, has one of the protocol's errors in place of a list."""
    return _ERROR_ANSWER.search(body[:_HEAD_BYTES])


def _broken_error(body: bytes, url: str) -> ClientError | None:
    """Return the error of an answer that is not well-formed; None if it has none, or parts of a list."""
    found = error_answer(body)
    if found is None or _PART.search(body):
        return None
    date, code, message = (unescape((found[name] or b"").decode(errors="replace")) for name in _NAMES)
    return oai_error(url, code, message, response_date=date.strip())


def _check_strictly(root: etree._Element, notes: Sequence[str], url: str, *, obsolete: bool) -> None:
    if obsolete:
        raise ObsoleteVersionError(url, notes[0])
    if notes:
        raise MalformedAnswerError(url, notes[0])
    try:
        check_envelope(root)
    except ValueError as error:
        raise MalformedAnswerError(url, str(error)) from None


def _odd_parts(
    containers: Sequence[etree._Element], stray: Sequence[etree._Element], verb: Verb, url: str
) -> Iterator[str]:
    """Yield oddities in the position of the list's parts; raise MalformedAnswerError if it has none."""
    if not containers and not stray:
        raise MalformedAnswerError(url, f"the answer has neither a {verb} nor an error element")
    if len(containers) > 1:
        yield f"the answer has {len(containers)} {verb} elements"
    if stray:
        yield f"parts of the list are outside the {verb} element"


def adopt(element: etree._Element) -> bool:
    """Move a record, header or token, with the parts defined by the protocol, into its namespace.

    The content of the metadata is left unchanged. Return whether anything was in another namespace.
    """
    changed = _adopt_one(element)
    wanted = _PARTS_OF.get(local_name(element), frozenset())
    for child in element.iterchildren(etree.Element):
        if local_name(child) in wanted:
            changed = adopt(child) or changed
    return changed


def text_of(element: etree._Element) -> str:
    """Return the element's text without surrounding blanks; comments and instructions in it do not end it.

    Raises PartError if it contains other elements.
    """
    text = element.text or ""
    for child in element:
        if not callable(child.tag):
            break
        text += child.tail or ""
    else:
        return text.strip()
    raise PartError(f"{local_name(element)!r} contains elements besides text: {text.strip()!r}")


def text_at(element: etree._Element, path: str) -> str:
    """Return the text of the first element at the path; empty if there is none, or it has child elements."""
    found = element.find(path)
    if found is None:
        return ""
    try:
        return text_of(found)
    except ValueError:
        return (found.text or "").strip()


def local_name(element: etree._Element) -> str:
    """Return the element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _adopt_one(element: etree._Element) -> bool:
    if element.tag.startswith(OAI):
        return False
    element.tag = OAI + local_name(element)
    return True


def _in_our_namespace(root: etree._Element, verb: Verb, url: str, body: bytes) -> str:
    """Move an irregular envelope into our namespace; return what was irregular. Records are not changed."""
    found = etree.QName(root).namespace or ""
    name = local_name(root)
    if name == verb and found.startswith(_OLD):
        note = "the answer is of OAI-PMH 1.1"
    elif name == "OAI-PMH":
        note = f"the answer's namespace is {found!r}, not {OAI_NAMESPACE!r}"
    else:
        reason = f"XML with the root element {root.tag!r}, not OAI-PMH 2.0"
        raise NotOaiPmhError(url, reason, body, other_xml=name.lower() != "html")
    for element in [root, *root.iterchildren(etree.Element)]:
        _adopt_one(element)
    for element in root.iterfind("*" if name == verb else f"{OAI}{verb}/*"):
        adopt(element)
    return note


def _not_well_formed(error: MalformedXmlError, body: bytes, url: str) -> ClientError:
    head = body[:_HEAD_BYTES].lstrip(codecs.BOM_UTF8)
    # In UTF-16, each letter is next to a NUL.
    if _BEGINS.search(head.replace(b"\0", b"")):
        # libxml2 usually names the position itself.
        has_place = "line" in error.reason or not error.line
        where = "" if has_place else f" (line {error.line}, column {error.column})"
        return MalformedAnswerError(url, f"the answer is not well-formed: {error.reason}{where}")
    kind = "an HTML page" if b"<html" in head.lower() else "not XML"
    return NotOaiPmhError(url, kind, head)


def _read_errors(root: etree._Element, children: Sequence[etree._Element], url: str, date: str) -> list[str]:
    """Raise OaiError for the protocol's errors; return what is odd if the list denies noRecordsMatch.

    That is if it has records, or a resumption token that is not empty.
    """
    errors = root.findall(_ERROR)
    if not errors:
        return []
    codes = [error.get("code", "") for error in errors]
    listed = any(
        child.tag in _LISTED or (child.tag == _TOKEN and (child.text or "").strip()) for child in children
    )
    if listed and set(codes) == {ErrorCode.NO_RECORDS_MATCH}:
        return ["the answer has the error noRecordsMatch beside a list"]
    message = "; ".join(
        " ".join("".join(map(str, error.itertext(etree.Element))).split()) for error in errors
    )
    others = [code for code in codes[1:] if code != codes[0]]
    if others:
        message = f"{message} (also {', '.join(others)})"
    raise oai_error(url, codes[0], message.strip("; "), response_date=date)
