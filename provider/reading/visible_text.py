"""The text that a reader of an HTML page sees, at bounded cost.

Scripts, styles and what elements hide by themselves are left out; style sheets are not read, so text that
only they hide counts as visible.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

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
_MOST_DEPTH: Final = 256
"""Elements within each other, as libxml2 allows them in a tree."""
_PIECE_BYTES: Final = 8192
_HIDDEN: Final = frozenset(
    (
        "audio", "canvas", "head", "iframe", "math", "noscript", "object", "script", "select", "style",
        "svg", "template", "textarea", "video",
    )
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
    # With a target, because in a tree each attribute costs time for all before it in its tag.
    target = _VisibleText(most)
    # The stubs demand `comment`, too, which the parser does not need.
    parser = etree.HTMLParser(encoding="utf-8", target=cast("Any", target))
    # A parser of C strings would end at a NUL.
    text = in_one_line(decoded(page, page, head, host))
    encoded = text.encode(errors="replace")
    # A syntax error: nothing in it is HTML. The target ends the parsing only between two pieces.
    with suppress(_EnoughError, etree.ParserError, etree.XMLSyntaxError):
        for start in range(0, len(encoded), _PIECE_BYTES):
            parser.feed(encoded[start : start + _PIECE_BYTES])
        parser.close()
    return in_one_line(target.close())[:most]


class _EnoughError(Exception):
    """Ends the parsing: the text is long enough, or elements are nested too deeply."""


class _VisibleText:
    """Receives what the parser reads; gives the text, with blanks around elements that separate words."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._depth = 0
        self._hidden = 0
        """How many elements that hide their content are open."""
        self._pieces: list[str] = []

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        # Each end tag without a start tag is looked for among all open elements.
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise _EnoughError
        self._hidden += tag in _HIDDEN
        self._separate(tag)

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._hidden -= tag in _HIDDEN
        self._separate(tag)

    def data(self, text: str) -> None:
        if self._hidden:
            return
        self._pieces.append(text)
        self._left -= len(text.strip())
        if self._left <= 0:
            raise _EnoughError

    def close(self) -> str:
        return "".join(self._pieces)

    def _separate(self, tag: str) -> None:
        if not self._hidden and tag not in _INLINE and tag not in _HIDDEN:
            self._pieces.append(" ")
