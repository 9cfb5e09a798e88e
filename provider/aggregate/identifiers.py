"""Spelling of harvested identifiers and sets in the aggregate; each maps to exactly one original."""

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from oai.errors import UsageError
from provider.protocol.requests import is_uri

_SOURCE: Final = re.compile(r"[A-Za-z0-9\-_.]{1,60}")
_NOT_IN_SOURCE: Final = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_SET_PART: Final = re.compile(rb"[^A-Za-z0-9\-_.~*'()]")
_IN_LOCAL_IDENTIFIER: Final = "-_.!~*'();/?:@&=+$,"
"""Characters that the oai-identifier schema allows besides letters and digits (`%` marks encoded bytes)."""
_EMPTY_PART: Final = "!"


class Identifiers(StrEnum):
    """The identifiers under which a source's records are published."""

    ORIGINAL = "original"
    OWN = "own"


def identifier_key(identifier: str) -> uuid.UUID:
    """Return the first 128 bits of the identifier's SHA-256."""
    return uuid.UUID(bytes=hashlib.sha256(identifier.encode()).digest()[:16])


def given_identifier(identifier: str, *, how: str, namespace: Callable[[], str], source: str) -> str:
    """Return the identifier under which a harvested record is published.

    With `how` set to `own`, it is `oai:<namespace>:<source>:<original>`. An original that is not a URI is
    never published unchanged, because no request could name it. Characters that the schema does not allow
    are percent-encoded. `namespace` is called only if the identifier is changed.
    """
    if how == Identifiers.ORIGINAL and is_uri(identifier):
        return identifier
    return f"oai:{namespace()}:{source}:{quote(identifier, safe=_IN_LOCAL_IDENTIFIER)}"


def given_set(source: str, harvested: str) -> str:
    """Return the setSpec of a source's set: below the source's own, in characters that the protocol allows.

    Any other character, and `!`, is written as `!` and two hexadecimal digits for each of its UTF-8
    bytes; an empty part is written as `!`.
    """
    return ":".join((source, *(_set_part(part) for part in harvested.split(":"))))


def above(harvested: str) -> Iterable[str]:
    """Return the set and its ancestors in the source's spelling, topmost first: a, a:b, a:b:c."""
    parts = harvested.split(":")
    return (":".join(parts[:length]) for length in range(1, len(parts) + 1))


def source_name(text: str) -> str:
    """Return the text if it is valid as a source's set. Raises UsageError otherwise."""
    if not _SOURCE.fullmatch(text):
        raise UsageError(
            "set %(set)s: use 1 to 60 letters, digits, '-', '_' and '.', such as 'library-a'", set=repr(text)
        )
    return text


def suggested_name(base_url: str) -> str:
    """Return a name for the set of the repository with this base URL: its host name without www."""
    host = base_url.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
    words = _NOT_IN_SOURCE.split(host.lower().removeprefix("www."))
    return "-".join(filter(None, words))[:50] or "source"


def _set_part(part: str) -> str:
    return _NOT_IN_SET_PART.sub(lambda found: b"!%02X" % found[0][0], part.encode()).decode() or _EMPTY_PART
