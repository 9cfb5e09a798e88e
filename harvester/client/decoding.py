"""Decompresses a body according to its bytes, because its headers may be wrong.

XML begins with none of the bytes with which compressed data begin, so the bytes are reliable.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from harvester.reading.spooled import Body, Gathering, Spooled
from oai.failures import Failure, FailureCode
from oai.limits import RATIO_COUNTS_FROM, AnswerLimits

_GZIP = b"\x1f\x8b"
_ZLIB_FIRST = 0x78
_ZLIB_CHECK = 31
_ANY_WRAPPING = 32 + zlib.MAX_WBITS
_NO_WRAPPING = -zlib.MAX_WBITS
_MOST_LAYERS = 3
_PIECE = 64 * 1024
_HEAD_BYTES = 4096
_NOT_ACCEPTED = frozenset({"br", "zstd", "compress", "x-compress"})
"""Codings that some servers use although they are not among those that a request accepts."""
_PLAIN_STARTS = (b"<", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0")


class TooLargeError(Exception):
    """The decompressed body exceeds a limit."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence())
        self.failure = failure


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """A decoded body; `found` names the compressions that were undone, outermost first.

    `fault` says what is wrong with the compressed data if only a part could be decompressed, else it is
    empty.
    """

    body: Body
    found: tuple[str, ...] = ()
    fault: str = ""


def decode(body: Body, announced: str, limits: AnswerLimits, *, spool: bool = False) -> Decoded:
    """Undo gzip and deflate, whether announced by Content-Encoding or not, also if applied twice.

    A body that is announced as compressed but is not is returned unchanged. The result never exceeds the
    limits: raises TooLargeError instead.
    """
    found: list[str] = []
    fault = ""
    sent = len(body)  # if compressed twice, the ratio is that to the outer bytes, which were transferred
    while not fault and len(found) < _MOST_LAYERS:
        name, bits = _compression(body, "" if found else announced)
        if not name:
            break
        inflated, fault = _inflated(body, bits, _Terms(limits=limits, sent=sent, spool=spool))
        if fault and not inflated:
            break
        body = inflated
        found.append(name)
    return Decoded(body=body, found=tuple(found), fault=fault)


def unknown_coding(body: Body, announced: str) -> str:
    """Return the announced coding that cannot be undone; empty if there is none or the body is plain XML."""
    if body[:_HEAD_BYTES].lstrip().startswith(_PLAIN_STARTS):
        return ""
    return next((one for one in announced.lower().replace(",", " ").split() if one in _NOT_ACCEPTED), "")


def _compression(body: Body, announced: str) -> tuple[str, int]:
    """Return the body's compression, and zlib's setting for it; an empty name if it is not compressed."""
    head = body[:_HEAD_BYTES]
    if head.startswith(_GZIP):
        return "gzip", _ANY_WRAPPING
    if len(head) > 1 and head[0] == _ZLIB_FIRST and int.from_bytes(head[:2]) % _ZLIB_CHECK == 0:
        return "deflate", _ANY_WRAPPING
    if "deflate" in announced.lower() and head and not head.lstrip().startswith(_PLAIN_STARTS):
        return "deflate", _NO_WRAPPING
    return "", 0


@dataclass(frozen=True, kw_only=True)
class _Terms:
    """Limits for decompressed data, and whether they go to a file; `sent` is the number of bytes received."""

    limits: AnswerLimits
    sent: int
    spool: bool


def _inflated(body: Body, bits: int, terms: _Terms) -> tuple[Body, str]:
    """Return the decompressed data, and what is wrong with them."""
    gathering = Gathering(spool=terms.spool)
    data: memoryview | Spooled = memoryview(body) if isinstance(body, bytes) else body
    position = 0
    while position < len(data):
        member = _Member(data, position, bits)
        for piece in member.pieces():
            _check(gathering.size + len(piece), terms)
            gathering.add(piece)
        if member.fault:
            # Bytes after the last member are mostly padding.
            padding = position and not member.has_output and bytes(data[position : position + 2]) != _GZIP
            return gathering.whole(), "" if padding else member.fault
        position = member.end
    return gathering.whole(), ""


def _check(size: int, terms: _Terms) -> None:
    """Raise TooLargeError if this number of decompressed bytes exceeds the limits."""
    limits = terms.limits
    if size > limits.answer_bytes:
        raise TooLargeError(limits.failure(FailureCode.ANSWER_BYTES, limits.answer_bytes))
    if size > max(RATIO_COUNTS_FROM, terms.sent * limits.ratio):
        raise TooLargeError(
            limits.failure(FailureCode.ANSWER_RATIO, limits.ratio, sent=terms.sent, unpacked=size)
        )


class _Member:
    """One compressed stream in the data; gzip allows several in a row."""

    def __init__(self, data: "memoryview | Spooled", start: int, bits: int) -> None:
        self.fault = ""
        self.has_output = False
        self.end = start
        self._data = data
        self._inflating = zlib.decompressobj(bits)

    def pieces(self) -> Iterator[bytes]:
        """Yield its content in pieces of bounded size, until its end or its fault."""
        inflating = self._inflating
        while not inflating.eof:
            chunk: bytes | memoryview = inflating.unconsumed_tail
            if not chunk:
                chunk = self._data[self.end : self.end + _PIECE]
                self.end += len(chunk)
            try:
                piece = inflating.decompress(chunk, _PIECE * 16)
            except zlib.error as error:
                self.fault = f"the compressed data are damaged ({error})"
                return
            if not piece and not chunk:
                self.fault = "the compressed data are truncated"
                return
            self.has_output = self.has_output or bool(piece)
            yield piece
        self.end -= len(inflating.unused_data)
