"""Stable identifiers of captures: a key from URL and capture time, and the OAI identifier with it.

The key depends only on the capture, so a rebuilt database has the same identifiers.
"""

import hashlib
import re
import uuid
from datetime import UTC, datetime

_KEY_BYTES = 16
_UTC_CHARACTERS = len("+00:00")
_KEY = re.compile(r"[0-9a-f]{32}")


def capture_digest(url: str, archived: datetime) -> bytes:
    """Return the key, sixteen bytes, of the capture of `url` at `archived` (with a time zone).

    It is the first 128 bits of the SHA-256 of `<time> <url>` in UTF-8. The time is UTC,
    `YYYY-MM-DDThh:mm:ss`, with a fraction of at most six digits only if there is one (without trailing
    zeros), and `Z`; so the number of zeros in a WARC-Date does not matter. Raises ValueError for a time
    without a zone.
    """
    if archived.tzinfo is not UTC:
        if archived.tzinfo is None:
            raise ValueError(f"{archived!r} has no time zone; a capture time needs one")
        archived = archived.astimezone(UTC)
    moment = archived.isoformat()[:-_UTC_CHARACTERS]
    if archived.microsecond:
        moment = moment.rstrip("0")
    return hashlib.sha256(f"{moment}Z {url}".encode()).digest()[:_KEY_BYTES]


def oai_identifier(namespace: str, key: uuid.UUID) -> str:
    """Return `oai:<namespace>:<32 lower-case hexadecimal digits>` (guidelines for oai-identifier)."""
    return f"oai:{namespace}:{key.hex}"


def parse_oai_identifier(namespace: str, text: str) -> uuid.UUID | None:
    """Return the key in an identifier of this namespace; None unless `oai_identifier` can produce it."""
    prefix = f"oai:{namespace}:"
    if not text.startswith(prefix):
        return None
    digits = text.removeprefix(prefix)
    return uuid.UUID(hex=digits) if _KEY.fullmatch(digits) else None
