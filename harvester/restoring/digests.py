"""Whether a document's bytes are what was archived, by the digest that the archive states."""

import base64
import hashlib
from typing import Final

_ALGORITHMS: Final = {
    "sha1": "sha1", "sha-1": "sha1", "sha256": "sha256", "sha-256": "sha256", "sha512": "sha512",
    "sha-512": "sha512", "md5": "md5",
}  # fmt: skip


def agrees(stated: str, body: bytes) -> bool | None:
    """Whether the bytes have the digest `algorithm:value`, in base32 or hexadecimal digits.

    None where there is no digest, or one of an algorithm that is not known here.
    """
    name, _, value = stated.partition(":")
    algorithm = _ALGORITHMS.get(name.lower())
    if algorithm is None or not value:
        return None
    digest = hashlib.new(algorithm, body, usedforsecurity=False).digest()
    spellings = {base64.b32encode(digest).decode("ascii").rstrip("=").lower(), digest.hex()}
    return value.rstrip("=").lower() in spellings
