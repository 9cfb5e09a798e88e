"""Removes what precedes or follows an answer's root and prevents parsing: other output, a DOCTYPE."""

import re
from dataclasses import dataclass

_OPENING = re.compile(rb"<((?:[A-Za-z_][\w.-]*:)?)OAI-PMH(?=[\s>])")
_DECLARATION = re.compile(rb"<\?xml\s[^<>]*\?>")
_QUOTED = rb"""(?:"[^"]*+"|'[^']*+')"""
_DOCTYPE = re.compile(
    rb"<!DOCTYPE\s+[^\s\[>]+(?:\s+(?:SYSTEM\s+%b|PUBLIC\s+%b\s+%b))?\s*"
    rb"(?:\[(?P<subset>(?>(?:[^\]\"'<]++|%b|<!--(?>.*?-->)|<(?!!--))*))\]\s*)?>" % ((_QUOTED,) * 4),
    re.DOTALL,
)
_CHANGES_CONTENT = re.compile(rb"<!ATTLIST|%")
"""Attribute defaults, and parameter entities, which may bring in defaults from elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Trimmed:
    """The answer alone, and what was removed."""

    body: bytes
    notes: tuple[str, ...] = ()
    removed: int = 0
    """Bytes removed before the root."""


def trimmed(body: bytes) -> Trimmed:
    """Return the answer without what precedes and follows it, and without a harmless DOCTYPE.

    Entities are never expanded: a record that uses one declared in the DOCTYPE is no longer well-formed. A
    DOCTYPE that could change the content of records otherwise is kept, so that the answer is rejected.
    """
    opening = _OPENING.search(body)
    if opening is None:
        return Trimmed(body=body)
    notes = []
    declaration = _DECLARATION.search(body, 0, opening.start())
    begin = body.find(b"<!DOCTYPE", 0, opening.start())
    doctype = _DOCTYPE.match(body, begin, opening.start()) if begin >= 0 else None
    if doctype is None and begin >= 0:
        return Trimmed(body=body)
    if doctype is not None and _CHANGES_CONTENT.search(doctype["subset"] or b""):
        return Trimmed(body=body)
    if doctype is not None:
        notes.append("the document type declaration was ignored")
    start = declaration.start() if declaration else doctype.start() if doctype else opening.start()
    if body[:start].removeprefix(b"\xef\xbb\xbf"):
        notes.append("there is content before the XML")
    closing = b"</" + opening[1] + b"OAI-PMH>"
    closed = body.rfind(closing, opening.start())
    end = closed + len(closing) if closed >= 0 else len(body)
    if body[end:].strip():
        notes.append("there is content after the XML")
    head = declaration[0] if declaration else b""
    between = b"" if doctype else body[declaration.end() if declaration else start : opening.start()]
    return Trimmed(
        body=head + between + body[opening.start() : end],
        notes=tuple(notes),
        removed=opening.start() - len(head + between),
    )
