"""Links in style sheets: `url(…)`, `@import "…"` and `image-set("…")`; all other bytes stay as they are."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from harvester.restoring.charsets import Edit

Resolve = Callable[[str], str | None]
"""Gives what a link is to become, in ASCII; None where it stays."""

# No part of it goes back over what it has read, and none begins anew in the middle of a word or a string: it
# takes time in proportion to the text, whatever that is.
_TOKEN: Final = re.compile(
    r"""
    (?P<comment>/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?)
    | (?P<import>@import\s*+)(?=["'])
    | (?P<set>(?:-webkit-)?image-set\()
    | (?P<close>\))
    | (?P<string>"(?:[^"\\\n]|\\[\s\S])*+"|'(?:[^'\\\n]|\\[\s\S])*+')
    | (?P<broken>"(?:[^"\\\n]|\\[\s\S])*+|'(?:[^'\\\n]|\\[\s\S])*+)
    | (?<![A-Za-z0-9_-])url\(\s*+(?:(?P<quoted>"(?:[^"\\\n]|\\[\s\S])*+"|'(?:[^'\\\n]|\\[\s\S])*+')
                |(?P<bare>(?:[^"'()\\\s]|\\[\s\S])++))\s*+\)
    | (?P<function>(?<![A-Za-z-])[A-Za-z-]++\()
    """,
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_ESCAPE: Final = re.compile(r"\\(?:([0-9A-Fa-f]{1,6})(?:\r\n|[ \t\r\n\f])?|(\r\n|[\n\f])|([\s\S]))")
_LAST_CHARACTER: Final = 0x10FFFF


def edits(text: str, resolve: Resolve, *, begin: int = 0, end: int | None = None) -> Iterator[Edit]:
    """The changes that the style sheet between the places needs."""
    importing, sets = False, []
    for found in _TOKEN.finditer(text, begin, len(text) if end is None else end):
        kind = found.lastgroup
        if kind == "import":
            importing = True
            continue
        if kind in {"set", "function"}:
            sets.append(kind == "set")
        elif kind == "close" and sets:
            sets.pop()
        elif kind in {"quoted", "bare"} or (kind == "string" and (importing or (sets and sets[-1]))):
            yield from _edit(found, kind or "", resolve)
        importing = importing and kind == "comment"


def _edit(found: re.Match[str], kind: str, resolve: Resolve) -> Iterator[Edit]:
    written = found[kind]
    link = written if kind == "bare" else written[1:-1]
    become = resolve(_unescaped(link)) if link.strip() else None
    if become is not None:
        # Whatever could end it is escaped in URLs.
        yield Edit(begin=found.start(kind), end=found.end(kind), text=f'"{become}"')


def _unescaped(link: str) -> str:
    return _ESCAPE.sub(_character, link) if "\\" in link else link


def _character(found: re.Match[str]) -> str:
    if found[1]:
        code = int(found[1], 16)
        return chr(code) if 0 < code <= _LAST_CHARACTER else "�"
    return found[3] or ""
