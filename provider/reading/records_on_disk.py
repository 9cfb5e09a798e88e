"""Reads one archived record back from its file: what its headers say, and the payload block by block.

The payload is given as it was archived, content encoding and all, but for the chunks of HTTP/1.1's transfer
encoding: those belong to the connection that it was captured from (RFC 9112, section 7.1), and the answer
that it is sent in now has a framing of its own.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from oai.errors import ZatvaError
from provider.reading.content import (
    Content,
    ContentSource,
    DamageError,
    EndedEarlyError,
    GzipMember,
    PlainBytes,
)
from provider.reading.digests import DigestCheck
from provider.reading.headers import RecordHeader, http_head, http_length, http_status, read_header

_GZIP: Final = b"\x1f\x8b"
_BLOCK: Final = 65_536
_LONGEST_CHUNK_LINE: Final = 4096
_CHUNK_LINE: Final = re.compile(rb"(?:\r\n)?([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
_FOLDED: Final = re.compile(rb"\r?\n[ \t]+")
_FIELD: Final = re.compile(rb"\n([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([^\r\n]*)")
_NOT_IN_VALUE: Final = re.compile(r"[^\t\x20-\x7e\xa0-\xff]")


class DigestError(ZatvaError):
    """What lies in the archive is not what was archived; the message says what was expected."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a record's headers say of its payload."""

    record_type: str
    target: str
    """The address as the record writes it."""
    http_status: int | None
    content_type: str | None
    """As archived, parameters included."""
    content_encoding: str | None
    length: int
    """Bytes as archived, with whatever chunks add."""
    chunked: bool
    refers_to_url: str | None
    """Of a revisit: the URL of the capture that holds the payload, where the record says."""
    refers_to_date: str | None
    """Of a revisit: that capture's time, as WARC writes it."""
    http_fields: Mapping[str, str]
    """The fields of the HTTP header, names in lower case; of a name that comes again, the first one."""


class _Opened(NamedTuple):
    source: ContentSource
    front: bytes
    """What was read of the record so far."""
    header: RecordHeader
    head: bytes
    """The HTTP header."""

    @property
    def begin(self) -> int:
        """Where the payload begins, from the record's first byte on."""
        return self.header.block + len(self.head)


class DiskRecord:
    """An open record; whoever opens it closes it."""

    def __init__(self, path: Path, offset: int, *, length: int | None = None) -> None:
        """Open the file and read the record's headers.

        `length` is that of the payload as it was indexed; it counts where the HTTP header agrees, for some
        records announce a wrong one. Raises OSError where the file cannot be read, and DamageError where no
        record begins at `offset`.
        """
        self._offset = offset
        self._file = path.open("rb")
        try:
            opened = self._open()
            self._end = opened.header.end
            if length is not None and http_length(opened.head) == length:
                self._end = opened.begin + length
            self.description = _described(opened, self._end)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def blocks(self, digest: str | None) -> Iterator[bytes]:
        """The payload from its beginning on, in blocks of at most 64 KiB.

        `digest` is the one that it must have, of the bytes as they were transferred or with the chunks
        joined: archives have either. Raises DamageError where the record breaks off, and DigestError behind
        the last block where the digest is another one; one of an unknown algorithm is not checked.
        """
        transferred, joined = (DigestCheck(digest or "") for _ in range(2))
        raw = self._raw(transferred)
        for block in _without_chunks(raw) if self.description.chunked else raw:
            joined.see(block)
            yield block
        for _ in raw:  # what follows the last chunk counts for the digest
            pass
        if joined.known and not (joined.well() or transferred.well()):
            raise DigestError(f"the content does not have the digest {digest!r} of its capture")

    def _open(self) -> _Opened:
        self._file.seek(self._offset)
        packed = self._file.read(len(_GZIP)) == _GZIP
        kind = GzipMember if packed else PlainBytes
        source: ContentSource = kind(self._file, self._offset)
        content = Content(source)
        header = read_header(content)
        if header is None:
            raise DamageError("only blank lines were found")
        return _Opened(source, content.front, header, http_head(content, header))._replace(
            front=content.front
        )

    def _raw(self, check: DigestCheck) -> Iterator[bytes]:
        source, front, _, _ = opened = self._open()
        left = self._end - opened.begin
        block = front[opened.begin : self._end]
        while left:
            block = block or source.read(min(left, _BLOCK))
            if not block:
                raise EndedEarlyError(f"the record is truncated {left:,} bytes before its end")
            left -= len(block)
            check.see(block)
            yield block
            block = b""


def _described(opened: _Opened, end: int) -> Description:
    header, head = opened.header, opened.head
    http, warc = _fields(head), _fields(opened.front[: header.block])
    own_type = header.mime_type if header.is_arc or header.record_type == "resource" else None
    return Description(
        record_type=header.record_type,
        target=header.target,
        http_status=http_status(head),
        content_type=http.get("content-type") if head else own_type,
        content_encoding=http.get("content-encoding"),
        length=end - opened.begin,
        chunked="chunked" in http.get("transfer-encoding", "").lower(),
        refers_to_url=warc.get("warc-refers-to-target-uri"),
        refers_to_date=warc.get("warc-refers-to-date"),
        http_fields=http,
    )


def _fields(head: bytes) -> dict[str, str]:
    """The fields of a header, names in lower case; what no header may have in a value is left out."""
    found = reversed(_FIELD.findall(_FOLDED.sub(b" ", head)))
    return {
        name.decode("ascii").lower(): _NOT_IN_VALUE.sub("", value.decode("iso-8859-1")).strip()
        for name, value in found
    }


def _without_chunks(raw: Iterator[bytes]) -> Iterator[bytes]:
    """The content of chunks joined. What is in no chunks, whatever its header says, is given as it is."""
    held = b""
    for block in raw:
        held += block
        while held:
            line = _CHUNK_LINE.match(held)
            if line is None:
                if len(held) < _LONGEST_CHUNK_LINE and b"\n" not in held.removeprefix(b"\r\n"):
                    break  # the line may go on in the next block
                yield held
                yield from raw
                return
            left = int(line[1], 16)
            if left == 0:
                return
            held = held[line.end() :]
            while left > len(held):
                yield held
                left -= len(held)
                held = next(raw, b"")
                if not held:
                    raise EndedEarlyError(f"a chunk is truncated {left:,} bytes before its end")
            yield held[:left]
            held = held[left:]
    if held.strip(b"\r\n"):
        yield held
