"""The character sets that archived pages declare, as Python's codecs."""

import codecs
from typing import Final

# Text encodings to Python, but no character sets of pages. Some raise other errors than UnicodeDecodeError,
# or give halves of surrogate pairs, which nothing can store.
_NO_CHARSETS: Final = frozenset(
    {"undefined", "unicode-escape", "raw-unicode-escape", "idna", "punycode", "utf-7"}
)


def text_codec(label: str) -> str:
    """Return the name of Python's codec for a character set; empty if it is unknown or none for pages.

    >>> text_codec("Windows-1250"), text_codec("hex"), text_codec("undefined")
    ('cp1250', '', '')
    """
    try:
        found = codecs.lookup(label)
    except (LookupError, ValueError):
        return ""
    # `hex` and `zip` are no text encodings.
    known = found._is_text_encoding and found.name not in _NO_CHARSETS  # noqa: SLF001 there is no public name for it
    return found.name if known else ""
