"""Finds the title of an archived HTML page, at bounded cost.

Only the payload's beginning is searched, as bytes, and only the title itself is decoded. The character
set is the first of these that exists and in which it is valid, except for a few bytes: byte order mark, HTTP
header, `meta`, XML declaration, UTF-8; then windows-1250 for hosts of central Europe and windows-1252 for
all others.
"""

import codecs
import html
import re
import zlib
from collections.abc import Iterator
from typing import Final

from oai.charsets import text_codec

TITLE_WINDOW: Final = 65_536
"""Number of bytes of the payload that are searched, before and after decompression."""

_HTML: Final = ("text/html", "application/xhtml+xml")
_SUCCESS: Final = range(200, 300)
_LONGEST: Final = 300
_LONGEST_RAW: Final = 8192
_CENTRAL_EUROPE: Final = frozenset(
    ("cz", "sk", "pl", "hu", "si", "hr", "ro", "rs", "ba", "me", "al", "xn--90a3ac")
)
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_WIDE: Final = ("utf-16", "utf-32")
"""Character sets in which markup is not ASCII: a page cannot declare them in itself."""

# Beginning and end are searched apart: one expression for both would be tried at each of many beginnings.
_TITLE = re.compile(rb"<title[\s>]", re.IGNORECASE)
_TITLE_END = re.compile(rb"</title", re.IGNORECASE)
_NO_MARKUP: Final = {b"<!--": b"-->", b"<script": b"</script", b"<style": b"</style"}
"""What contains no elements, and how it ends."""
_RARE: Final = ("iframe", "noembed", "noframes", "noscript", "svg", "template", "textarea", "xmp")
"""Further elements in which a title is not that of the page."""
_BEGIN_OF_RARE = re.compile(f"<(?:{'|'.join(_RARE)})".encode())
_BEGIN_OF_NO_MARKUP = re.compile(b"|".join(_NO_MARKUP) + b"|" + _BEGIN_OF_RARE.pattern)
_MOST_CANDIDATES: Final = 10
# An atomic group: before 3.11.5, Python fails to match a possessive quantifier of alternatives (gh-106052).
_IN_VALUE = re.compile(rb"<[A-Za-z](?>(?:[^\"'>]|\"[^\"]*+\"|'[^']*+')*)([\"'])[^>]*+")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.DOTALL)
_META = re.compile(rb"<meta\s[^>]{0,500}?charset\s*+=\s*+[\"']?+\s*+([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\s[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{1,40})")
_HTTP_CHARSET = re.compile(
    rb"\ncontent-type[ \t]*:[^\r\n]*charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE
)
_ENCODING = re.compile(rb"\n(content|transfer)-encoding[ \t]*:([^\r\n]*)", re.IGNORECASE)
_COMPRESSIONS: Final = frozenset({b"gzip", b"x-gzip", b"deflate"})
_KNOWN_ENCODINGS: Final = frozenset({b"", b"chunked", b"identity", *_COMPRESSIONS})
_MOST_ENCODINGS: Final = 4
_GZIP: Final = b"\x1f\x8b"
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[^\r\n]{0,200}\r\n")
# With halves of surrogate pairs, which JSON may contain and nothing can store.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def is_success(http_status: int | None) -> bool:
    """Return whether a response has a successful status, or there is no HTTP."""
    return http_status is None or http_status in _SUCCESS


def may_have_title(mime_type: str | None, http_status: int | None) -> bool:
    """Return whether to search: HTML or XHTML with a successful status, or without HTTP."""
    if not mime_type or not is_success(http_status):
        return False
    return mime_type[:21].lower().startswith(_HTML)


def find_title(payload: bytes, head: bytes, host: str) -> str | None:
    """Return the title in the beginning of a payload; None if there is none, or it is blank.

    `head` is the HTTP header, whose Content-Encoding (gzip, deflate), Transfer-Encoding and character set
    determine how the payload is read. Brotli is not supported: there is no library for it here. Entities
    are resolved, white space is collapsed, and titles of more than 300 characters end with an ellipsis.
    """
    page = unpacked(payload, head)
    if page[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        page = page.decode("utf-16", "replace").encode()
        head = b""
    # This check alone settles most pages without a title.
    begin = page.find(b"<t")
    if begin < 0 and page.find(b"<T") < 0:
        return None
    found = _in_markup(page, _TITLE)
    begin = page.find(b">", found.end() - 1) + 1 if found else 0
    end = _TITLE_END.search(page, begin) if begin else None
    if end is None:
        return None
    text = decoded(page[begin : end.start()][:_LONGEST_RAW], page, head, host)
    if "<![" in text:
        text = _CDATA.sub(lambda section: html.escape(section[1]), text)
    return tidy(html.unescape(text))


def _in_markup(page: bytes, tag: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """Return the first of these tags that begins an element of the page, or None."""
    place = 0
    for _ in range(_MOST_CANDIDATES):
        found = tag.search(page, place)
        after = found and _after_no_markup(page, found.start())
        if found is None or after is None:
            return None
        if after == found.start():
            return found
        place = after
    return None


def _after_no_markup(page: bytes, place: int) -> int | None:
    """Return where the comment, script, attribute, … around a position ends, otherwise the position.

    None if it does not end.
    """
    before = page[:place].lower()
    # Nearly always true, and quicker than to go from one to the next.
    if _BEGIN_OF_RARE.search(before) is None and not _is_open(before):
        return _after_value(page, place)
    at = 0
    while found := _BEGIN_OF_NO_MARKUP.search(before, at):
        end = _NO_MARKUP.get(found[0]) or b"</" + found[0][1:]
        at = before.find(end, found.end())
        if at < 0:
            at = page[place:].lower().find(end)
            return None if at < 0 else place + at
    return _after_value(page, place)


def _is_open(before: bytes) -> bool:
    """Return whether a comment, script or style begins in these bytes and does not end in them."""
    for begin, end in _NO_MARKUP.items():
        last = before.rfind(begin)
        if last >= 0 and before.find(end, last) < 0:
            return True
    return False


def _after_value(page: bytes, place: int) -> int:
    """Return where the attribute's value around a position ends, otherwise the position."""
    begin = page.rfind(b"<", 0, place)
    if begin < 0 or page.find(b">", begin, place) >= 0:
        return place
    found = _IN_VALUE.fullmatch(page, begin, place)
    return (found and page.find(found[1], place) + 1) or place


def tidy(text: str) -> str | None:
    """Return a title without control characters and repeated blanks, shortened; None if it is blank."""
    folded = in_one_line(text)
    if len(folded) > _LONGEST:
        folded = folded[: _LONGEST - 1].rstrip() + "…"
    return folded or None


def in_one_line(text: str) -> str:
    """Return a text without control characters and repeated blanks."""
    # Nearly all titles are printable, and the check is much quicker.
    return " ".join((text if text.isprintable() else _CONTROL.sub(" ", text)).split())


def decoded(raw: bytes, page: bytes, head: bytes, host: str) -> str:
    """Return bytes of a page as text, in the first character set that it declares and that fits them.

    Invalid bytes, or a character that is cut, become U+FFFD.
    """
    # ISO 2022, HZ and UTF-16 write other characters with bytes of ASCII.
    if raw.isascii():
        text = raw.decode("ascii")
        if "\x1b" not in text and "~{" not in text and "\0" not in text:
            return text
    for charset in _likely(page, head):
        text = raw.decode(charset, "replace")
        if "\ufffd" not in text:
            return text
        if _is_mostly_valid(text):
            break
    else:
        central = host.rpartition(".")[2] in _CENTRAL_EUROPE
        text = raw.decode("cp1250" if central else "cp1252", "replace")
    try:
        return raw.decode()  # hardly any text of another character set is valid UTF-8
    except UnicodeDecodeError:
        return text


def _is_mostly_valid(text: str) -> bool:
    """Return whether more characters that are not ASCII were decoded than replaced as invalid.

    All other characters are right if a single byte is invalid or cut off. In a page that declares UTF-8 and
    is in windows-1250 as a whole, a common fault, nearly each character that is not ASCII is invalid.
    """
    other_than_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return other_than_ascii > 2 * text.count("\ufffd")


def _likely(page: bytes, head: bytes) -> Iterator[str]:
    """Yield the character sets that the page declares, by Python's names, strongest first, then UTF-8."""
    for mark, charset in _MARKS:
        if page.startswith(mark):
            yield charset
    by_http = _codec(_HTTP_CHARSET.search(head))
    if by_http and (b"\0" in page or not by_http.startswith(_WIDE)):
        yield by_http
    for found in (_in_markup(page[:TITLE_WINDOW], _META), _XML.match(page)):
        by_itself = _codec(found)
        if by_itself and not by_itself.startswith(_WIDE):
            yield by_itself
    yield "utf-8"


def _codec(declared: re.Match[bytes] | None) -> str:
    return text_codec(declared[1].decode("ascii")) if declared else ""


def has_known_encoding(head: bytes) -> bool:
    """Return whether `unpacked` knows the encodings of an HTTP header, or there are none."""
    return _KNOWN_ENCODINGS.issuperset(_encodings(head))


def unpacked(payload: bytes, head: bytes, most: int = TITLE_WINDOW) -> bytes:
    """Return the beginning of a payload without chunks and compression; up to `most` bytes if compressed.

    An encoding (of content or transfer) that the payload does not have is ignored, as is an unknown one.
    Empty if the compressed data are damaged.
    """
    for name in _encodings(head)[:_MOST_ENCODINGS]:
        if name == b"chunked":
            payload = _joined(payload)
        elif name in _COMPRESSIONS:
            payload = _inflated(payload, name, most)
    return payload


def _encodings(head: bytes) -> list[bytes]:
    """Return the encodings in the order in which they are undone: those of the transfer first."""
    fields = _ENCODING.findall(head)
    if not fields:
        return []
    if len(fields) > 1:
        fields.sort(key=lambda field: field[0].lower())
    names = b",".join([value for _, value in fields]).lower().split(b",")
    return [name.strip() for name in reversed(names)]


def _inflated(payload: bytes, name: bytes, most: int) -> bytes:
    # Servers send deflate with and without zlib's header.
    for window in (32 + zlib.MAX_WBITS, -zlib.MAX_WBITS) if name == b"deflate" else (32 + zlib.MAX_WBITS,):
        try:
            return zlib.decompressobj(window).decompress(payload, most)
        except zlib.error:
            continue
    return b"" if payload.startswith(_GZIP) else payload


def _joined(payload: bytes) -> bytes:
    """Return a chunked payload (RFC 9112, section 7.1) in one piece; any other unchanged."""
    pieces = []
    place = 0
    while (size := _CHUNK.match(payload, place)) and (length := int(size[1], 16)):
        pieces.append(payload[size.end() : size.end() + length])
        place = size.end() + length + 2
    return b"".join(pieces) or payload
