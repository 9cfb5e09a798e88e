"""Compression by the libraries of the extra `fast` where they are installed, otherwise by zlib.

zlib-ng compresses answers in a third of zlib's time, to a tenth fewer bytes (both at level 5). isal
decompresses members of archive files in half of zlib's time. Their errors are not zlib's: catch
`INFLATE_ERRORS`.

Zstandard is in the standard library from Python 3.14 on (PEP 784), and in the extra `zstd` for those before.
"""

import gzip
import importlib
import zlib
from typing import Any, Final, Protocol


def _library(name: str) -> Any:  # noqa: ANN401 a module, or None where it is not installed
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


ZLIB_NG: Final = _library("zlib_ng.gzip_ng")
ISAL: Final = _library("isal.isal_zlib")
ZSTD: Final = _library("compression.zstd") or _library("backports.zstd")
"""The module of PEP 784; None where there is neither."""


class Inflater(Protocol):
    """What `zlib.decompressobj` returns, as far as it is used.

    How much is left in `unconsumed_tail` differs between the libraries while output is pending, so no place
    in a file may be computed from it; `unused_data` at the end is the same.
    """

    @property
    def eof(self) -> bool:
        """Whether the end of the compressed data was reached."""

    @property
    def unconsumed_tail(self) -> bytes:
        """Input that was not used because of the limit; pass it on with the next call."""

    @property
    def unused_data(self) -> bytes:
        """Input behind the end of the compressed data."""

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes:
        """Return at most `max_length` further bytes. Raises one of `INFLATE_ERRORS`."""


INFLATE_ERRORS: Final[tuple[type[Exception], ...]] = (
    (zlib.error,) if ISAL is None else (zlib.error, ISAL.error)
)


def inflater(window: int) -> Inflater:
    """Return an object that decompresses; `window` as for `zlib.decompressobj`."""
    made: Inflater = (zlib if ISAL is None else ISAL).decompressobj(window)
    return made


def gzipped(data: bytes, level: int) -> bytes:
    """Return the data as a gzip member without a time; `level` is from 1 (fast) to 9 (small)."""
    packed: bytes = (gzip if ZLIB_NG is None else ZLIB_NG).compress(data, level, mtime=0)
    return packed
