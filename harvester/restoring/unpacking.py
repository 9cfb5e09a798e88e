"""Undoes the content encoding that a document was archived with."""

import zlib
from importlib import import_module
from typing import Any, Final

_ANY_WRAPPING: Final = 32 + zlib.MAX_WBITS
_NO_WRAPPING: Final = -zlib.MAX_WBITS


class PackedError(Exception):
    """The content cannot be unpacked; the message says why."""


def unpacked(body: bytes, encoding: str, *, most: int) -> bytes:
    """The content without its encodings, as Content-Encoding lists them, at most so many bytes.

    Raises PackedError for an encoding that is unknown here, broken data, and more bytes than that.
    """
    for name in reversed([one.strip().lower() for one in encoding.split(",")]):
        if name in {"gzip", "x-gzip", "deflate"}:
            body = _inflated(body, most)
        elif name == "br":
            body = _brotli(body, most)
        elif name not in {"", "identity", "none", "utf-8"}:
            raise PackedError(f"Content-Encoding {name!r} is not supported")
    return body


def _inflated(body: bytes, most: int) -> bytes:
    if not body:
        return body
    for bits in (_ANY_WRAPPING, _NO_WRAPPING):
        inflate = zlib.decompressobj(bits)
        try:
            content = inflate.decompress(body, most)
        except zlib.error as error:
            fault = error
            continue
        if inflate.unconsumed_tail:
            raise PackedError(f"it is larger than {most:,} bytes when decompressed")
        if not inflate.eof:
            raise PackedError("its compressed data are truncated")
        return content
    if body.lstrip().startswith(b"<"):
        return body  # announced as packed, and is not
    raise PackedError(f"its compressed data are damaged ({fault})")


def _brotli(body: bytes, most: int) -> bytes:
    try:
        brotli: Any = import_module("brotli")
    except ImportError:
        raise PackedError(
            "Content-Encoding is 'br': install the package brotli, then run the same command again"
        ) from None
    try:
        content: bytes = brotli.decompress(body)
    except brotli.error as error:
        raise PackedError(f"its compressed data are damaged ({error})") from None
    if len(content) > most:
        raise PackedError(f"it is larger than {most:,} bytes when decompressed")
    return content
