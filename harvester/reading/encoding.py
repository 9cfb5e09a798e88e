"""Determines an answer's encoding from everything that is stated about it and from its possible decodings.

OAI-PMH requires UTF-8 (section 3.2), an XML declaration may say otherwise, and HTTP may also name a charset
(RFC 7303, section 3). Servers get each of the three wrong. This module does not guess from the language of a
text: it uses only an encoding that is stated somewhere, and only if all bytes are valid in it.
"""

import codecs
import contextlib
import re
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from typing import Generic, TypeVar, cast

from lxml import etree

from harvester.reading.spooled import Body, Gathering, Spooled, chunks_of
from oai.charsets import text_codec

BodyT = TypeVar("BodyT", bytes, Spooled)
_HEAD_BYTES = 4096
_DECLARATION = re.compile(rb"\s*<\?xml\s[^>]*?\?>")
_ENCODING = re.compile(rb"""\sencoding\s*=\s*["']([^"']*)["']""")
_ASCII = frozenset({"us-ascii", "ascii"})
_UTF_8 = _ASCII | {"utf-8"}
# Encodings with one or more bytes per character that preserve ASCII and mean here what they mean to Python;
# others mean what they mean to browsers.
_KNOWN = re.compile(
    r"iso-8859-\d{1,2}|latin-?\d{1,2}|(windows|cp)-?125\d|koi8-[ru]|macintosh|ibm8\d\d|cp8\d\d"
    r"|gb2312|gbk|gb18030|big5|shift_jis|euc-(jp|kr)"
)
_WIDE = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    # Before those of UTF-16, with which they begin.
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)


@dataclass(frozen=True, kw_only=True)
class Readable(Generic[BodyT]):
    """An answer's bytes with a correct statement of their encoding; `note` says what was incorrect."""

    body: BodyT
    note: str = ""


def readable(body: BodyT, content_type: str = "") -> Readable[BodyT]:
    """Return the answer in a form that the parser can read, in memory or in a file as it was received.

    UTF-16 and UTF-32 become UTF-8. An answer that is valid UTF-8 is read as such, unless its declaration and
    HTTP agree on another encoding. Otherwise the XML declaration is used or, if that says UTF-8 or nothing
    and the bytes are not UTF-8, the charset of HTTP. If nothing fits, the bytes are returned unchanged.
    """
    for mark, codec in _WIDE:
        if body[: len(mark)] == mark:
            return _decoded(body, codec) or Readable(body=body)
    declared, http_charset = declared_encoding(body).lower(), _charset(content_type)
    if not declared or (declared in _UTF_8 and (declared not in _ASCII or _is_ascii(body))):
        if http_charset in _UTF_8 or not http_charset or _is_utf_8(body):
            return Readable(body=body)
        note = f"it declares {declared}, but is {http_charset}, as HTTP declares" if declared else ""
        return _decoded(body, _codec(http_charset), note=note) or Readable(body=body)
    return _against_declaration(body, declared, http_charset)


def _against_declaration(body: BodyT, declared: str, http_charset: str) -> Readable[BodyT]:
    """Return an answer whose declaration names another encoding than UTF-8."""
    codec = _declared_codec(declared)
    parsed = bool(codec) and _is_parsed(declared)
    if parsed and (declared == http_charset or _is_ascii(body)):
        return Readable(body=body)
    wrong = f'the XML declaration has encoding="{declared_encoding(body)}"'
    if _is_utf_8(body):
        note = f'{wrong}, but the answer is in UTF-8; it should be encoding="UTF-8"'
        return Readable(body=_without_declaration(body), note=note)
    if parsed:
        return Readable(body=body)
    read_as, used = (codec, codec) if codec else (f"{http_charset}, as HTTP declares", _codec(http_charset))
    return _decoded(body, used, note=f"{wrong}; the answer was read as {read_as}") or Readable(body=body)


def declared_encoding(body: Body) -> str:
    """Return the encoding in the XML declaration as it is written; empty if there is none."""
    declaration = _DECLARATION.match(body if isinstance(body, bytes) else body[:_HEAD_BYTES])
    found = _ENCODING.search(declaration[0]) if declaration else None
    return found[1].decode("ascii", errors="replace").strip() if found else ""


def _charset(content_type: str) -> str:
    message = Message()
    message["Content-Type"] = content_type
    return (message.get_content_charset() or "").lower()


def _is_ascii(body: Body) -> bool:
    return all(chunk.isascii() for chunk in chunks_of(body))


def _is_utf_8(body: Body) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in chunks_of(body):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=256)
def _is_parsed(label: str) -> bool:
    """Return whether the parser reads XML whose declaration has this label."""
    try:
        etree.XMLParser(encoding=label)
    except (LookupError, ValueError):
        return False
    return True


def _declared_codec(declared: str) -> str:
    """Return the codec of a declaration that was read as ASCII; empty for UTF-8 and what cannot be meant."""
    codec = "" if declared in _UTF_8 else _codec(declared)
    return codec if codec not in {"", "utf-8"} and "<?xml".encode(codec) == b"<?xml" else ""


def _codec(label: str) -> str:
    """Return Python's codec for the label; empty if there is none that only decodes."""
    if _KNOWN.fullmatch(label):
        with contextlib.suppress(LookupError):
            return codecs.lookup(label).name
    return text_codec(label)


def _decoded(body: BodyT, codec: str, *, note: str = "") -> Readable[BodyT] | None:
    """Return the body as UTF-8 without a declaration; None if there is no codec or it is not valid in it."""
    if not codec:
        return None
    try:
        return Readable(body=_recoded(body, codecs.getincrementaldecoder(codec)()), note=note)
    except UnicodeError:
        return None


def _recoded(body: BodyT, decoder: codecs.IncrementalDecoder) -> BodyT:
    gathering = Gathering(spool=not isinstance(body, bytes), at_once=True)
    first = True
    for chunk in chunks_of(body):
        text = decoder.decode(chunk)
        if first and text:
            gathering.add(_undeclared(text.lstrip("\ufeff").encode("utf-8")))
            first = False
        else:
            gathering.add(text.encode("utf-8"))
    gathering.add(decoder.decode(b"", final=True).encode("utf-8"))
    return cast("BodyT", gathering.whole())


def _without_declaration(body: BodyT) -> BodyT:
    gathering = Gathering(spool=not isinstance(body, bytes), at_once=True)
    for number, chunk in enumerate(chunks_of(body)):
        gathering.add(chunk if number else _undeclared(chunk))
    return cast("BodyT", gathering.whole())


def _undeclared(body: bytes) -> bytes:
    found = _DECLARATION.match(body)
    return body[found.end() :] if found else body
