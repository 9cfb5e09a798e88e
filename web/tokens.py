"""Random tokens for links and cookies, and the hashes that the database keeps instead of them."""

import hashlib
import secrets

_BYTES = 32


def new_token() -> str:
    """A fresh URL-safe token of 256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def hashed(token: str) -> bytes:
    """The SHA-256 of the token; a token has enough randomness to need no salt."""
    # What a browser sends need not be UTF-8; aiohttp hands odd bytes on as surrogates.
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
