"""Payload digests of archives: an algorithm, a colon, and base32, hexadecimal or base64 (also URL-safe)."""

import base64
import binascii
import hashlib
from typing import Final

_ALGORITHMS: Final = {
    "sha1": "sha1", "sha-1": "sha1", "sha256": "sha256", "sha-256": "sha256", "sha512": "sha512",
    "sha-512": "sha512", "md5": "md5",
}  # fmt: skip

_LENGTHS: Final = {
    hashlib.new(name, usedforsecurity=False).digest_size: name for name in _ALGORITHMS.values()
}


class PayloadDigest:
    """A SHA-1 digest, computed incrementally."""

    def __init__(self, algorithm: str = "sha1") -> None:
        self._hashed = hashlib.new(algorithm, usedforsecurity=False)
        self.see = self._hashed.update

    def text(self) -> str:
        """Return `sha1:` and base32, as most archives write it."""
        return "sha1:" + base64.b32encode(self._hashed.digest()).decode("ascii")

    def value(self) -> bytes:
        """Return the digest's bytes."""
        return self._hashed.digest()


class DigestCheck:
    """Compares a stated digest with that of the payload."""

    def __init__(self, stated: str) -> None:
        found = _value(stated) if ":" in stated else None
        self._value = found and found[1]
        self._digest = found and PayloadDigest(found[0])

    @property
    def known(self) -> bool:
        """Whether the algorithm is supported, and the value is one of it."""
        return self._digest is not None

    def see(self, piece: bytes) -> None:
        """Add a piece of the payload."""
        if self._digest is not None:
            self._digest.see(piece)

    def well(self) -> bool:
        """Return whether they agree; False if the stated one is not known."""
        return self._digest is not None and self._digest.value() == self._value


def written_forms(stated: str) -> list[str]:
    """Return a digest in all notations in which archives write it, in lower case."""
    found = _value(stated)
    if found is None:
        return [stated.lower()]
    algorithm, value = found
    notations = (base64.b32encode, base64.b64encode, base64.urlsafe_b64encode)
    encoded = [encode(value).decode("ascii").lower() for encode in notations]
    digits = [value.hex(), *encoded, *(padded.rstrip("=") for padded in encoded)]
    names = [f"{name}:" for name, known in _ALGORITHMS.items() if known == algorithm]
    return [f"{name}{written}" for name in (*names, "") for written in digits]


def same_digest(one: str | None, other: str | None) -> bool | None:
    """Return whether two digests are equal, whatever their notation; None if they cannot be compared."""
    values = _value(one), _value(other)
    if values[0] is None or values[1] is None or values[0][0] != values[1][0]:
        return None
    return values[0] == values[1]


def is_of_nothing(stated: str | None) -> bool:
    """Return whether a digest is that of no bytes."""
    found = _value(stated)
    return found is not None and found[1] == hashlib.new(found[0], usedforsecurity=False).digest()


def _value(stated: str | None) -> tuple[str, bytes] | None:
    """Return algorithm and value of a digest, whose algorithm may be left out; None if it is not known."""
    name, _, digits = (stated or "").rpartition(":")
    for read in (_hexadecimal, _base32, _base64):
        value = read(digits)
        algorithm = _ALGORITHMS.get(name.lower()) if name else _LENGTHS.get(len(value))
        if algorithm is not None and algorithm == _LENGTHS.get(len(value)):
            return algorithm, value
    return None


def _hexadecimal(digits: str) -> bytes:
    """Return the bytes; none for other text."""
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return b""


def _base32(digits: str) -> bytes:
    """Return the bytes of digits with or without padding; none for other text."""
    bare = digits.rstrip("=")
    try:
        return base64.b32decode(bare + "=" * (-len(bare) % 8), casefold=True)
    except binascii.Error:
        return b""


def _base64(digits: str) -> bytes:
    """Return the bytes of digits of either alphabet, with or without padding; none for other text."""
    bare = digits.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:
        return b""
