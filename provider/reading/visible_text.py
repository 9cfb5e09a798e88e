"""The text that a reader of an HTML page sees, at bounded cost.

Scripts, styles and what elements hide by themselves are left out; style sheets are not read, so text that
only they hide counts as visible.
"""

from collections.abc import Iterator
from typing import Final

from lxml import etree

from provider.reading.titles import (
    decoded,
    has_known_encoding,
    in_one_line,
    is_success,
    may_have_title,
    unpacked,
)

PAGE_BYTES: Final = 512 * 1024
"""Bytes of a payload that are read, before and after decompression."""
MOST_CHARACTERS: Final = 100_000
_HIDDEN: Final = (
    "audio", "canvas", "head", "iframe", "math", "noscript", "object", "script", "select", "style", "svg",
    "template", "textarea", "video",
)  # fmt: skip
_INLINE: Final = frozenset(
    (
        "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i",
        "ins", "kbd", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u",
        "var", "wbr",
    )
)  # fmt: skip
"""Elements that do not separate words."""


def may_have_text(mime_type: str | None, http_status: int | None) -> bool:
    """Return whether content has a text: that of a page, or plain text, with a successful status if any."""
    return may_have_title(mime_type, http_status) or (_is_plain(mime_type) and is_success(http_status))


def text_of(payload: bytes, head: bytes, host: str, mime_type: str | None, most: int) -> str:
    """Return up to `most` characters of the text of a page or, if that is its type, of a plain text."""
    if not _is_plain(mime_type):
        return visible_text(payload, head, host, most)
    page = unpacked(payload[:PAGE_BYTES], head, PAGE_BYTES) if has_known_encoding(head) else b""
    return in_one_line(decoded(page, page, head, host))[:most]


def _is_plain(mime_type: str | None) -> bool:
    return (mime_type or "")[:10].lower() == "text/plain"


def visible_text(payload: bytes, head: bytes, host: str, most: int = MOST_CHARACTERS) -> str:
    """Return the visible text of the beginning of an HTML page, in one line; empty if it has none.

    `head` is the HTTP header, from which encoding and character set are taken as for titles
    (`provider.reading.titles.find_title`). The text has up to `most` characters.
    """
    if not has_known_encoding(head):
        return ""
    page = unpacked(payload[:PAGE_BYTES], head, PAGE_BYTES)
    # Without the limits lifted: libxml2 ignores elements that are nested too deeply.
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    # A parser of C strings would end at a NUL.
    text = in_one_line(decoded(page, page, head, host))
    try:
        root = etree.fromstring(text.encode(errors="replace"), parser)
    except (etree.ParserError, etree.XMLSyntaxError):  # nothing in it is HTML
        return ""
    if root is None:
        return ""
    etree.strip_elements(root, *_HIDDEN, with_tail=False)
    return in_one_line("".join(_pieces(root, most)))[:most]


def _pieces(root: etree._Element, most: int) -> Iterator[str]:
    """Yield the texts in order up to `most` characters, with blanks around elements that separate words."""
    left = most
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if element.tag not in _INLINE:
            yield " "
        piece = (element.text if event == "start" else element.tail) or ""
        yield piece
        left -= len(piece.strip())
        if left <= 0:
            return
