"""Reads one archived record from its file: the facts in its headers, and the payload block by block.

The payload is returned as archived, including its content encoding, but without the chunks of HTTP/1.1's
transfer encoding: those belong to the connection that was captured (RFC 9112, section 7.1), and the
response that now carries the payload has its own framing.
"""

import codecs
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from itertools import chain
from typing import BinaryIO, Final, NamedTuple

from oai.digests import DigestCheck
from oai.errors import ZatvaError
from provider.reading.content import (
    Content,
    ContentSource,
    DamageError,
    EndedEarlyError,
    GzipMember,
    PlainBytes,
)
from provider.reading.headers import (
    SEGMENTED,
    RecordHeader,
    decoded,
    http_head,
    http_length,
    http_status,
    read_header,
)
from provider.reading.zstd_frames import MAGIC, ZstdFile, ZstdRecord, is_skippable

_GZIP: Final = b"\x1f\x8b"
_RECOGNISED: Final = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd"})
_LEAST_TEXT: Final = 32
"""Bytes from which on text is not taken for Brotli, whose data begin with no mark."""
_TEXT: Final = 1024
_MOST_CODINGS: Final = 5
"""Codings, the outermost first, that are compared with the content."""
_BLOCK: Final = 65_536
_LONGEST_CHUNK_LINE: Final = 4096
_CHUNK_LINE: Final = re.compile(rb"(?:\r\n)?([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
_CUT_CHUNK_LINE: Final = re.compile(rb"(?:\r\n)?[0-9A-Fa-f]{1,15}[ \t]*(?:;[^\r\n]*)?\r?")
_TRAILER: Final = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\r?\n)*[\r\n]*")
_FOLDED: Final = re.compile(rb"\r?\n[ \t]+")
_FIELD: Final = re.compile(rb"\n([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([^\r\n]*)")
_LENGTH: Final = "content-length"
_CODINGS: Final = ("content-encoding", "transfer-encoding")
_COMPRESSIONS: Final = frozenset({"gzip", "x-gzip", "deflate", "compress", "x-compress"})
_FRAMING: Final = re.compile(
    rb"^(?:content-length|content-encoding|transfer-encoding)[ \t]*:[^\n]*\n(?:[ \t][^\r\n][^\n]*\n)*",
    re.IGNORECASE | re.MULTILINE,
)
_NOT_IN_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_NOT_IN_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")


class DigestError(ZatvaError):
    """The record's content differs from what was archived; the message states what was expected."""


class MismatchedDigestError(DigestError):
    """The digest is wrong but the gzip checksum is correct: the record was written so."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """The facts about the payload in a record's headers."""

    record_type: str
    target: str
    """The URL as the record writes it."""
    date: str
    """The time of capture, likewise."""
    is_arc: bool
    http_status: int | None
    content_type: str | None
    """As archived, including parameters."""
    content_encoding: str | None
    """Of the payload without chunks: the archived field, or otherwise what is left of Transfer-Encoding.

    Without codings that the payload does not have: some crawlers archive the decompressed content, and some
    servers repeat the field of a single one. None if none is left.
    """
    length: int
    """Bytes as archived, including chunk framing."""
    chunked: bool
    refers_to_url: str | None
    """For a revisit: the URL of the capture with the payload, if the record has it."""
    refers_to_date: str | None
    """For a revisit: that capture's time, as WARC writes it."""
    profile: str | None
    """For a revisit: the URI of what was compared (WARC 1.1, section 6.7.2)."""
    truncated: str | None
    """WARC-Truncated: why the crawler archived only a part of the payload; None for a revisit."""
    ip_address: str | None
    """Of the server that answered, if the record has it."""
    http_fields: Mapping[str, str]
    """The fields of the HTTP header, names in lower case; the first field of a repeated name.

    Repeated fields of encodings are joined into one list (RFC 9110, section 5.3).
    """


class _Opened(NamedTuple):
    source: ContentSource
    front: bytes
    """The bytes of the record read so far."""
    header: RecordHeader
    head: bytes
    """The HTTP header; of interim responses and the final one, that of the latter."""
    begin: int
    """Offset of the payload from the record's first byte."""

    @property
    def interim(self) -> bytes:
        """The headers of interim responses."""
        return self.front[self.header.block : self.begin - len(self.head)]


class ArchivedRecord:
    """A record of an open file; the caller that makes it closes it, and with it the file."""

    def __init__(self, file: BinaryIO, offset: int, *, length: int | None = None) -> None:
        """Read the record's headers; if that fails, the file is closed.

        `length` is the indexed length of the payload; it is used if the HTTP header agrees, because some
        records declare a wrong one. Raises OSError if the file cannot be read, and DamageError if no
        record begins at `offset`, or only a segment of one.
        """
        self._offset = offset
        self._file = file
        try:
            opened = self._open()
            self._header = opened.header
            self._end = opened.header.end
            self._interim = opened.interim
            self.head = opened.head
            if length is not None and http_length(opened.head) == length:
                self._end = opened.begin + length
            self.description = _described(opened, self._end)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def block_length(self) -> int:
        """Bytes of the content with its HTTP header."""
        return len(self._interim) + len(self.head) + self.description.length

    def block(self) -> Iterator[bytes]:
        """Yield the content as archived, after the HTTP header. Raises DamageError if it is truncated."""
        if self.head:
            yield self._interim + self.head
        opened = self._opened_again()
        yield from self._from(opened, opened.begin)

    def answer_as(self, revisit: "ArchivedRecord") -> None:
        """Replace the HTTP header by that of a revisit with this payload (WARC 1.1, section 6.7.2).

        The payload's bytes are those of this record, so the fields that say how they are encoded stay.
        """
        self._interim = b""
        self.head = _with_framing_of(self, revisit.head)
        fields = _fields(self.head)
        self.description = replace(
            self.description,
            http_status=http_status(self.head),
            content_type=fields.get("content-type"),
            http_fields=fields,
        )

    def blocks(self, digest: str | None) -> Iterator[bytes]:
        """Yield the payload from its beginning, in blocks of at most 128 kB.

        `digest` is the expected one, of the bytes as transferred or with the chunks joined: archives
        contain both kinds. Raises DamageError if the record is truncated, and DigestError after the last
        block if the digest differs; one of an unknown algorithm, or of wrong length, is not checked.
        """
        transferred, joined = (DigestCheck(digest or "") for _ in range(2))
        opened = self._opened_again()
        raw = self._raw(opened, transferred)
        for block in _without_chunks(raw) if self.description.chunked else raw:
            joined.see(block)
            yield block
        for _ in raw:  # bytes after the last chunk are part of the digest
            pass
        if joined.known and not (joined.well() or transferred.well()):
            reason = f"the content does not have the digest {digest!r} of its capture"
            if _ends_with_checksum(opened.source):
                raise MismatchedDigestError(f"{reason}, but its gzip checksum is correct")
            raise DigestError(reason)

    def _open(self) -> _Opened:
        source = self._source()
        content = Content(source)
        header = read_header(content)
        if header is None:
            raise DamageError("only blank lines were found")
        if header.is_segment:
            raise DamageError(SEGMENTED)
        head, begin = http_head(content, header)
        return _Opened(source, content.front, header, head, begin)

    def _opened_again(self) -> _Opened:
        opened = self._open()
        # The caller has compared the first header with the index; the file may be overwritten meanwhile.
        if opened.header != self._header:
            raise DamageError("another record was written in its place while it was read")
        return opened

    def _source(self) -> ContentSource:
        self._file.seek(self._offset)
        first = self._file.read(len(MAGIC))
        if not first:
            raise DamageError("the file ends before this place")
        if first == MAGIC:
            return ZstdRecord(ZstdFile(self._file), self._offset)
        kind = GzipMember if first.startswith(_GZIP) else PlainBytes
        return kind(self._file, self._offset)

    def _raw(self, opened: _Opened, check: DigestCheck) -> Iterator[bytes]:
        for block in self._from(opened, opened.begin):
            check.see(block)
            yield block

    def _from(self, opened: _Opened, begin: int) -> Iterator[bytes]:
        left = self._end - begin
        block = opened.front[begin : self._end]
        while left:
            block = block or opened.source.read(min(left, _BLOCK))
            if not block:
                raise EndedEarlyError(f"the record is truncated {left:,} bytes before its end")
            left -= len(block)
            yield block
            block = b""


def _ends_with_checksum(source: ContentSource) -> bool:
    """Return whether only blank lines and a correct checksum follow. Raises DamageError for a wrong one."""
    # Few reads: a member may go on for gigabytes.
    return (
        isinstance(source, GzipMember)
        and not any(source.read(_BLOCK).strip() for _ in range(3))
        and source.at_end()
    )


def _described(opened: _Opened, end: int) -> Description:
    header, head = opened.header, opened.head
    http, warc = _fields(head), _fields(opened.front[: header.block])
    stated = http.get("content-encoding") or _transfer_codings(http) or ""
    chunked = "chunked" in http.get("transfer-encoding", "").lower()
    front = opened.front[opened.begin : end]
    if chunked:
        front = b"".join(_without_chunks(iter((front,))))
    return Description(
        record_type=header.record_type,
        target=header.target,
        date=header.date,
        is_arc=header.is_arc,
        http_status=http_status(head),
        content_type=http.get("content-type") if head else header.own_type,
        content_encoding=_possible_codings(stated, front),
        length=end - opened.begin,
        chunked=chunked,
        refers_to_url=warc.get("warc-refers-to-target-uri"),
        refers_to_date=warc.get("warc-refers-to-date"),
        profile=warc.get("warc-profile"),
        # A revisit may have the field because its payload is omitted (WARC 1.1, section 6.7.2).
        truncated=None if header.record_type == "revisit" else warc.get("warc-truncated") or None,
        ip_address=_arc_address(opened) if header.is_arc else warc.get("warc-ip-address"),
        http_fields=http,
    )


def _arc_address(opened: _Opened) -> str | None:
    """Return the address in an ARC header line; crawlers that do not know it write another text, or zeros."""
    text = decoded(opened.front[: opened.header.block]).rsplit(" ", 4)[1]
    try:
        return None if ip_address(text).is_unspecified else text
    except ValueError:
        return None


def _possible_codings(stated: str, begin: bytes) -> str | None:
    """Return the codings that a payload with this beginning may have; None if it has none of those stated."""
    inner = [one for coding in stated.split(",") if (one := coding.strip())]
    possible: list[str] = []
    while inner and inner[-1].lower() in _RECOGNISED and len(possible) < _MOST_CODINGS:
        coding = inner.pop()
        content: bytes | None = None
        if coding.lower() == "deflate":
            # Servers send it with and without zlib's header.
            content = _inflated(begin, zlib.MAX_WBITS, -zlib.MAX_WBITS)
        elif coding.lower() == "br":
            content = None if _is_text(begin) else b""
        elif coding.lower() == "zstd":
            content = b"" if begin[: len(MAGIC)] == MAGIC[: len(begin)] or is_skippable(begin) else None
        elif begin[: len(_GZIP)] == _GZIP[: len(begin)]:
            content = (_inflated(begin, 16 + zlib.MAX_WBITS) if inner else None) or b""
        if content is not None:
            possible.insert(0, coding)
            begin = content
    return ", ".join((*inner, *possible)) or None


def _is_text(begin: bytes) -> bool:
    """Return whether content begins with some text in UTF-8, which compressed data do not."""
    front = begin[:_TEXT]
    if len(front) < _LEAST_TEXT or _NOT_IN_TEXT.search(front):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(front)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _inflated(begin: bytes, *windows: int) -> bytes | None:
    """Return what compressed content begins with, as far as it shows; None if it is not compressed."""
    for window in windows:
        inflate = zlib.decompressobj(window)
        try:
            content = inflate.decompress(begin, _BLOCK)
        except zlib.error:
            continue
        return None if inflate.unused_data else content
    return None


def _transfer_codings(fields: Mapping[str, str]) -> str | None:
    """Return the codings of Transfer-Encoding that stay when chunks are joined (RFC 9112, section 7.2)."""
    codings = (one.strip() for one in fields.get("transfer-encoding", "").lower().split(","))
    return ", ".join(one for one in codings if one in _COMPRESSIONS) or None


def _with_framing_of(record: ArchivedRecord, head: bytes) -> bytes:
    """Return a header with a record's fields for encoding and length in place of its own, if they differ."""
    own, kept = _fields(head), record.description.http_fields
    lengths = {None, kept.get(_LENGTH), str(record.description.length)}
    framing = b""
    if own.get(_LENGTH) not in lengths or any(own.get(name) != kept.get(name) for name in _CODINGS):
        framing = b"".join(line.rstrip() + b"\r\n" for line in _FRAMING.findall(record.head))
        head = _FRAMING.sub(b"", head)
    elif head.endswith((b"\n\n", b"\n\r\n")):
        return head
    return head.rstrip() + b"\r\n" + framing + b"\r\n"


def _fields(head: bytes) -> dict[str, str]:
    """Return the fields of a header, names in lower case; invalid characters in values are removed."""
    fields: dict[str, list[str]] = {}
    for raw, value in _FIELD.findall(_FOLDED.sub(b" ", head)):
        name = raw.decode("ascii").lower()
        if name not in fields or name in _CODINGS:
            text = _NOT_IN_VALUE.sub("", decoded(_escaped(name, value))).strip()
            fields.setdefault(name, []).append(text)
    return {name: ", ".join(values) for name, values in fields.items()}


def _escaped(name: str, value: bytes) -> bytes:
    """Return a field's value; a URL as clients request it, whatever character set its bytes are in."""
    return _NOT_ASCII.sub(lambda byte: b"%%%02X" % ord(byte[0]), value) if name == "location" else value


def _without_chunks(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the joined content of chunks. Content that is not chunked, despite its header, is unchanged."""
    first = b""
    while len(first) < _BLOCK and (block := next(raw, b"")):
        first += block
    whole = chain((first,) if first else (), raw)
    yield from _joined(whole) if _begins_chunked(first, is_whole=len(first) < _BLOCK) else whole


def _joined(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the content of chunks.

    The last chunk may be cut off in a complete record: crawlers end a response at limits of time and length.
    """
    held, at, left = b"", 0, 0
    for block in raw:
        held, at, parts, ended = held[at:] + block, 0, list[bytes](), False
        while at < len(held) and not ended:
            if left:
                parts.append(held[at : at + left])
                at, left = at + len(parts[-1]), left - len(parts[-1])
            elif line := _CHUNK_LINE.match(held, at):
                at, left = line.end(), int(line[1], 16)
                ended = left == 0
            elif len(held) - at < _LONGEST_CHUNK_LINE and b"\n" not in held[at:].removeprefix(b"\r\n"):
                break  # the line may continue in the next block
            else:
                yield b"".join((*parts, held[at:]))
                yield from raw
                return
        if parts:
            yield b"".join(parts)
        if ended:
            return
    if held[at:].strip(b"\r\n") and not _CUT_CHUNK_LINE.fullmatch(held, at):
        yield held[at:]


def _begins_chunked(first: bytes, *, is_whole: bool) -> bool:
    """Return whether the beginning of content, or all of it, is chunked, as far as it shows.

    A text may begin with a line of hexadecimal digits. So a chunk line is followed after its chunk by another
    one; if the content ends before, or the chunk is longer than the beginning, its own line break counts.
    """
    line = _CHUNK_LINE.match(first)
    if line is None:
        return False
    is_strict = line[0].endswith(b"\r\n")
    size = int(line[1], 16)
    if size == 0:
        return is_strict and is_whole and _TRAILER.fullmatch(first, line.end()) is not None
    rest = first[line.end() + size :]
    if _CHUNK_LINE.match(rest):
        return True
    return is_strict and (not rest.strip(b"\r\n") or _CUT_CHUNK_LINE.fullmatch(rest) is not None)
