"""Payload digests in the notation of archives: an algorithm, a colon, and base32 or hexadecimal digits."""

import base64
import hashlib
from typing import Final

_ALGORITHMS: Final = {"sha1": "sha1", "sha-1": "sha1", "sha256": "sha256", "sha-256": "sha256", "md5": "md5"}


class PayloadDigest:
    """A SHA-1 digest, computed incrementally."""

    def __init__(self, algorithm: str = "sha1") -> None:
        self._hashed = hashlib.new(algorithm, usedforsecurity=False)
        self.see = self._hashed.update

    def text(self) -> str:
        """Return `sha1:` and base32, as most archives write it."""
        return "sha1:" + base64.b32encode(self._hashed.digest()).decode("ascii")

    def spellings(self) -> frozenset[str]:
        """Return the value in each notation that archives use, in lower case."""
        value = self._hashed.digest()
        return frozenset({base64.b32encode(value).decode("ascii").rstrip("=").lower(), value.hex()})


class DigestCheck:
    """Compares a stated digest with that of the payload."""

    def __init__(self, stated: str) -> None:
        name, _, value = stated.partition(":")
        self._value = value.rstrip("=").lower()
        algorithm = _ALGORITHMS.get(name.lower())
        self._digest = PayloadDigest(algorithm) if algorithm else None

    @property
    def known(self) -> bool:
        """Whether the algorithm is supported."""
        return self._digest is not None

    def see(self, piece: bytes) -> None:
        """Add a piece of the payload."""
        if self._digest is not None:
            self._digest.see(piece)

    def well(self) -> bool:
        """Return whether they agree; False for an unknown algorithm."""
        return self._digest is not None and self._value in self._digest.spellings()
