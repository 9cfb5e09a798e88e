"""Undoes the compression of a body by what its bytes are, for what the headers say of it may be a lie.

XML begins with none of the bytes that compressed data begin with, so the bytes can be believed.
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
_PLAIN_STARTS = (b"<", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0")


class TooLargeError(Exception):
    """The decompressed body is beyond a limit."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence())
        self.failure = failure


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """A body as it is meant; `found` names the compressions that were undone, outermost first.

    `fault` says what is wrong with the compressed data, where only a part could be had; else it is empty.
    """

    body: Body
    found: tuple[str, ...] = ()
    fault: str = ""


def decode(body: Body, announced: str, limits: AnswerLimits, *, spool: bool = False) -> Decoded:
    """Undo gzip and deflate, announced by Content-Encoding or not, also where it was done twice.

    A body that is announced as compressed and is not comes as it is. Never makes more bytes than the limits
    allow: raises TooLargeError instead.
    """
    found: list[str] = []
    fault = ""
    sent = len(body)  # of what is compressed twice, the outer bytes are what somebody paid for
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


def _compression(body: Body, announced: str) -> tuple[str, int]:
    """How the body is compressed, and the setting of zlib for it; an empty name where it is not."""
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
    """What data may unpack to, and where it goes; `sent` are the bytes that came."""

    limits: AnswerLimits
    sent: int
    spool: bool


def _inflated(body: Body, bits: int, terms: _Terms) -> tuple[Body, str]:
    """What the data hold, and what is wrong with them."""
    gathering = Gathering(spool=terms.spool)
    data: memoryview | Spooled = memoryview(body) if isinstance(body, bytes) else body
    position = 0
    while position < len(data):
        member = _Member(data, position, bits)
        for piece in member.pieces():
            _check(gathering.size + len(piece), terms)
            gathering.add(piece)
        if member.fault:
            # What stands behind the last member is mostly padding.
            padding = position and not member.came and bytes(data[position : position + 2]) != _GZIP
            return gathering.whole(), "" if padding else member.fault
        position = member.end
    return gathering.whole(), ""


def _check(size: int, terms: _Terms) -> None:
    """Raise TooLargeError if so many unpacked bytes are too many."""
    limits = terms.limits
    if size > limits.answer_bytes:
        raise TooLargeError(limits.failure(FailureCode.ANSWER_BYTES, limits.answer_bytes))
    if size > max(RATIO_COUNTS_FROM, terms.sent * limits.ratio):
        raise TooLargeError(
            limits.failure(FailureCode.ANSWER_RATIO, limits.ratio, sent=terms.sent, unpacked=size)
        )


class _Member:
    """One compressed stream in the data; gzip may join several."""

    def __init__(self, data: "memoryview | Spooled", start: int, bits: int) -> None:
        self.fault = ""
        self.came = False
        self.end = start
        self._data = data
        self._inflating = zlib.decompressobj(bits)

    def pieces(self) -> Iterator[bytes]:
        """What it holds, in pieces of bounded size, until its end or its fault."""
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
            self.came = self.came or bool(piece)
            yield piece
        self.end -= len(inflating.unused_data)
