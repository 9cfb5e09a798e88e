"""The character set of a document, and editing of its text without altering other bytes."""

import codecs
import contextlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from html.entities import html5
from typing import Final

from oai.charsets import text_codec

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOOKED_AT: Final = 1024
"""In bytes; browsers search for a declaration no further (HTML Standard, 13.2.3.2)."""
_META: Final = re.compile(rb"<meta[\s/][^>]*?charset\s*+=\s*+[\"']?+\s*+([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_XML: Final = re.compile(rb"\A<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]+)[\"']")
_CSS: Final = re.compile(rb'\A@charset "([A-Za-z0-9_.:-]+)";')
_REFERENCE: Final = re.compile(r"&(#[0-9]+;?|#[xX][0-9A-Fa-f]+;?|[A-Za-z][A-Za-z0-9]*;?)(=?)")


def charset_of(content_type: str) -> str:
    """Return the charset parameter of a Content-Type unchanged; empty if there is none."""
    message = Message()
    message["Content-Type"] = content_type
    try:
        return str(message.get_param("charset") or "").strip(" \"'")
    except (LookupError, ValueError):
        return ""


@dataclass(frozen=True, kw_only=True)
class Charset:
    """The character set of a document."""

    codec: str
    """Python's name of the codec."""
    declared_by_http: str = ""
    """Its name if only the HTTP header declares it: without the header it would be lost."""


def html_charset(body: bytes, content_type: str) -> Charset:
    """Return an HTML page's charset from its byte order mark, else the HTTP header, else its declaration."""
    return _found(body, content_type, _META, "cp1252", looked_at=_LOOKED_AT)


def xml_charset(body: bytes, content_type: str) -> Charset:
    """Return the character set of XML, which is UTF-8 unless declared otherwise."""
    charset = _found(body, content_type, _XML, "utf-8", looked_at=_LOOKED_AT)
    return Charset(codec="utf-8") if charset.codec == "utf-8" and not _XML.search(body) else charset


def css_charset(body: bytes, content_type: str) -> Charset:
    """Return the character set of a style sheet; for pure ASCII it does not matter."""
    charset = _found(body, content_type, _CSS, "utf-8", looked_at=_LOOKED_AT)
    return Charset(codec=charset.codec) if body.isascii() else charset


def _found(
    body: bytes, content_type: str, declaration: re.Pattern[bytes], default: str, *, looked_at: int
) -> Charset:
    for mark, name in _BOMS:
        if body.startswith(mark):
            return Charset(codec=name)
    declared = declaration.search(body[:looked_at])
    own = text_codec(declared[1].decode("ascii")) if declared else ""
    own = "utf-8" if own.startswith("utf-16") else own  # a declaration in ASCII cannot be in UTF-16
    label = charset_of(content_type)
    by_http = text_codec(label)
    if by_http:
        return Charset(codec=by_http, declared_by_http="" if by_http == own else label)
    return Charset(codec=own or default)


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A change of a text: the part between two positions is replaced with `text`."""

    begin: int
    end: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Text:
    """The text of a document, with which its bytes can be reconstructed."""

    text: str
    codec: str

    def edited(self, edits: Sequence[Edit]) -> bytes:
        """Return the document's bytes with the edits applied and no other change.

        Inserted characters that the codec cannot encode are written as character references.
        """
        pieces, place = [], 0
        for edit in sorted(edits, key=lambda edit: edit.begin):
            pieces += [self.text[place : edit.begin], edit.text]
            place = edit.end
        return "".join([*pieces, self.text[place:]]).encode(self.codec, "xmlcharrefreplace")


def text_of(body: bytes, name: str) -> Text:
    """Decode the bytes with this codec.

    If they are invalid in it, each byte becomes one character (ISO 8859-1): this can be reversed exactly, and
    markup is in ASCII.
    """
    with contextlib.suppress(UnicodeError):
        text = body.decode(name)
        if text.encode(name) == body:
            return Text(text=text, codec=name)
    return Text(text=body.decode("latin-1"), codec="latin-1")


def unescaped(value: str) -> str:
    """Return an attribute's value with its character references replaced.

    A name without a semicolon is kept literally if a letter, a digit or `=` follows (HTML Standard, section
    13.2.5.73): `?a=1&copy=2` contains no copyright sign.
    """
    return _REFERENCE.sub(_meant, value) if "&" in value else value


def escaped(value: str) -> str:
    """Escape a value for use between quotation marks of either kind."""
    return value.replace("&", "&amp;").replace('"', "&quot;").replace("'", "&#39;").replace("<", "&lt;")


def _meant(found: re.Match[str]) -> str:
    name = found[1]
    if name.startswith("#"):
        return html.unescape(f"&{name.removesuffix(';')};") + found[2]
    if name in html5 and (name.endswith(";") or not found[2]):
        return html5[name] + found[2]
    return found[0]
