"""Character references in HTML attributes: what they stand for, and how a new value is written."""

import html
import re
from html.entities import html5
from typing import Final

_REFERENCE: Final = re.compile(r"&(#[0-9]+;?|#[xX][0-9A-Fa-f]+;?|[A-Za-z][A-Za-z0-9]*;?)(=?)")


def unescaped(value: str) -> str:
    """An attribute's value as it is meant.

    A name without a semicolon stands for itself where a letter, a digit or `=` follows (HTML Standard,
    section 13.2.5.73): in `?a=1&copy=2` there is no copyright sign.
    """
    return _REFERENCE.sub(_meant, value) if "&" in value else value


def escaped(value: str) -> str:
    """A value as it is written between quotation marks of either kind."""
    return value.replace("&", "&amp;").replace('"', "&quot;").replace("'", "&#39;").replace("<", "&lt;")


def _meant(found: re.Match[str]) -> str:
    name = found[1]
    if name.startswith("#"):
        return html.unescape(f"&{name.removesuffix(';')};") + found[2]
    if name in html5 and (name.endswith(";") or not found[2]):
        return html5[name] + found[2]
    return found[0]
