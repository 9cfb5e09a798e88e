"""The requirements of the protocol's XML Schema for an answer's envelope and its records' headers.

Strict reading rejects what the schema (http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd) rejects, without
fetching it; the content of the metadata is checked by very strict harvests, which fetch the formats' schemas.

Each function raises PartError that says what is wrong.
"""

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Final

from lxml import etree

from harvester.reading.errors import PartError
from oai.vocabulary import OAI_NAMESPACE, Verb

_OAI: Final = f"{{{OAI_NAMESPACE}}}"
_XSI: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
_ZONE: Final = r"(?:Z|[+-][0-9]{2}:[0-9]{2})"
_DAY: Final = re.compile(rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}}){_ZONE}?")
_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?"
    rf"(?P<zone>{_ZONE}?)"
)
_SET_SPEC: Final = re.compile(r"[A-Za-z0-9\-_.!~*'()]+(?::[A-Za-z0-9\-_.!~*'()]+)*")
_COUNT: Final = re.compile(r"\s*\+?[0-9]+\s*")
_VERBS: Final = frozenset(verb.value for verb in Verb)
_ARGUMENTS: Final = frozenset(
    {"verb", "identifier", "metadataPrefix", "from", "until", "set", "resumptionToken"}
)
_TOKEN_ATTRIBUTES: Final = frozenset({"expirationDate", "completeListSize", "cursor"})


def check_envelope(root: etree._Element) -> None:
    """Check the answer's root: the date, the echo of the request, then one verb's element or errors."""
    children = _children(root, "OAI-PMH")
    names = [_name(child) for child in children]
    if names[:2] != ["responseDate", "request"]:
        raise PartError("the answer does not begin with responseDate and request")
    moment = _text(children[0])
    if not _is_moment(moment):
        raise PartError(f"the responseDate is {moment!r}, which is not a date with a time")
    _attributes(children[1], "request", _ARGUMENTS)
    verb = children[1].get("verb")
    if verb is not None and verb not in _VERBS:
        raise PartError(f"the repeated request has the verb {verb!r}")
    rest = names[2:]
    if set(rest) != {"error"} and (len(rest) != 1 or rest[0] not in _VERBS):
        raise PartError(
            f"after the request there is {', '.join(rest) or 'no element'}, not one verb's element"
        )


def check_list(element: etree._Element, item: str) -> None:
    """Check a list (or GetRecord's record): items, and at most one token, at the end."""
    _attributes(element, _name(element), frozenset())
    names = [_name(child) for child in _children(element, _name(element))]
    if names and names[-1] == "resumptionToken":
        names.pop()
    if not names:
        raise PartError(f"the list has no {item}; an empty list must be answered with noRecordsMatch")
    if set(names) != {item}:
        odd = next(name for name in names if name != item)
        raise PartError(f"{odd!r} instead of a {item}")


def check_record(element: etree._Element) -> None:
    """Check a record: header, metadata with one element of another namespace, similar about containers."""
    _attributes(element, "record", frozenset())
    children = _children(element, "record")
    if children and _name(children[0]) == "header":
        check_header(children[0])
    for child in children[1:]:
        _attributes(child, _name(child), frozenset())
        held = _children(child, _name(child))
        if len(held) != 1:
            raise PartError(f"{_of(element)}{_name(child)} has {len(held)} elements instead of one")
        if etree.QName(held[0]).namespace in {None, OAI_NAMESPACE}:
            raise PartError(
                f"{_of(element)}{_name(child)} has {held[0].tag!r}, which is not in a namespace of its own"
            )


def check_header(element: etree._Element) -> None:
    """Check a header: identifier, datestamp, setSpecs, in this order, and only the status `deleted`."""
    _attributes(element, "header", frozenset({"status"}))
    if element.get("status", "deleted") != "deleted":
        raise PartError(f"{_of(element)}the status is {element.get('status')!r}, not 'deleted'")
    children = _children(element, "header")
    names = [_name(child) for child in children]
    if names[:2] != ["identifier", "datestamp"] or set(names[2:]) - {"setSpec"}:
        raise PartError(f"{_of(element)}the header does not consist of identifier, datestamp and setSpecs")
    _check_datestamp(children[1], _of(element))
    for child in children[2:]:
        if not _SET_SPEC.fullmatch(_text(child)):
            raise PartError(f"{_of(element)}{_text(child)!r} is not a valid setSpec")


def check_token(element: etree._Element) -> None:
    """Check a resumptionToken's attributes."""
    _attributes(element, "resumptionToken", _TOKEN_ATTRIBUTES)
    for name, least in (("completeListSize", 1), ("cursor", 0)):
        value = element.get(name)
        if value is not None and (not _COUNT.fullmatch(value) or int(value) < least):
            raise PartError(f"the resumptionToken's {name} is {value!r}")
    expires = element.get("expirationDate")
    if expires is not None and not _is_moment(expires):
        raise PartError(f"the resumptionToken's expirationDate is {expires!r}")


def _check_datestamp(element: etree._Element, of: str) -> None:
    text = _text(element).strip()
    found = _MOMENT.fullmatch(text)
    if not _is_day(text) and not (found and found["zone"] == "Z" and _is_moment(text)):
        raise PartError(f"{of}{text!r} is not a datestamp (YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ)")


def _is_day(text: str) -> bool:
    found = _DAY.fullmatch(text)
    return found is not None and _is_possible(date, found)


def _is_moment(text: str) -> bool:
    found = _MOMENT.fullmatch(text.strip())
    return found is not None and _is_possible(datetime, found)


def _is_possible(kind: Callable[..., object], found: re.Match[str]) -> bool:
    numbers = [int(group) for group in found.groups() if group.isdigit()]
    try:
        kind(*numbers)
    except ValueError:
        return False
    return True


def _children(element: etree._Element, name: str) -> list[etree._Element]:
    """Return the child elements of an element that may not contain text beside them."""
    texts = [element.text, *(child.tail for child in element)]
    stray = next((text for text in texts if text and text.strip()), "")
    if stray:
        raise PartError(f"{name} contains text: {stray.strip()[:60]!r}")
    return [child for child in element if not callable(child.tag)]


def _attributes(element: etree._Element, name: str, allowed: frozenset[str]) -> None:
    odd = [key for key in map(str, element.keys()) if key not in allowed and not key.startswith(_XSI)]
    if odd:
        raise PartError(f"{name} has the attribute {odd[0]!r}")


def _name(element: etree._Element) -> str:
    """Return the element's name; with its namespace if that is not the protocol's."""
    return str(element.tag).removeprefix(_OAI)


def _text(element: etree._Element) -> str:
    """Return all text in the element; other checks reject child elements."""
    return "".join(map(str, element.itertext(etree.Element)))


def _of(element: etree._Element) -> str:
    found = element.find(f".//{_OAI}identifier")
    return f"record {(found.text or '').strip()!r}: " if found is not None else ""
