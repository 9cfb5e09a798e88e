"""Reads ARC and WARC records into captures: what stood at a URL at a moment, and where it lies in the file.

Takes WARC records of the types response, resource and revisit, and ARC records (WARC 1.1, section 6; ARC
1.0). Everything else is counted by type and left. A record whose facts are impossible becomes a problem.
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

from provider.framing import LINE_LIMIT, DamageError, Problem, read_blocks, read_records, skip
from provider.sets import host_of

_TAKEN = frozenset({"response", "resource", "revisit"})
# By-products of crawlers and name look-ups; they are at no address that anybody can ask for.
_LEFT_SCHEMES = frozenset({"metadata", "filedesc"})
_LONGEST_HOST = 253
_NAMED_KINDS = frozenset(
    {
        "warcinfo",
        "request",
        "metadata",
        "conversion",
        "continuation",
        "empty",
        "filedesc",
        "dns",
        "whois",
        "urn",
    }
)
_FOLD = b" \t"
_BLANK_LINES = frozenset({b"\r\n", b"\n"})
_LENGTH_DIGITS = 15
_HEADER_LIMIT = 1 << 20
_HTTP_LIMIT = 256 * 1024
_ARC_FIELDS = 5

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WARC_DATE = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?Z)?)?)?"
)
_ARC_DATE = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})()")
_DIGEST = re.compile(rb"[A-Za-z0-9-]{1,32}:[A-Za-z0-9+/=_-]{1,256}")
_STATUS = re.compile(rb"HTTP/[0-9.]+[ \t]+([0-9]{3})\b")
_CONTENT_TYPE = re.compile(rb"^content-type[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """One archived answer."""

    offset: int
    """Byte in the file where the record (or its gzip member) begins."""
    record_type: str
    """response, resource or revisit; an ARC record is a response."""
    url: str
    host: str
    """As `provider.sets.host_of` gives it."""
    archived: datetime
    """UTC, as finely as stated, to the microsecond."""
    http_status: int | None
    mime_type: str | None
    """As the HTTP header says it, else as the record does; not checked."""
    digest: str | None
    """As the record says it; else computed: `sha1:` and base32 of the payload."""
    length: int
    """Bytes of the content, HTTP headers left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ignored:
    """A good record of a kind that is no document."""

    kind: str
    """Its WARC type, or the scheme of its address: `request`, `dns`, …"""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Record:
    """What a record's own header says; `block` is its content's length."""

    record_type: str
    target: str
    date: str
    mime_type: str | None
    digest: str | None
    block: int
    is_arc: bool


class _RefusedError(Exception):
    """The record is whole, but a fact in it is impossible."""


def read_captures(file: BinaryIO) -> Iterator[Capture | Ignored | Problem]:
    """Everything in an open ARC or WARC file, plain or gzipped, in order; memory stays flat."""
    return read_records(file, _take)


def _take(stream: BinaryIO, offset: int) -> Capture | Ignored | Problem:
    line = stream.readline(LINE_LIMIT)
    while line and not line.strip():
        line = stream.readline(LINE_LIMIT)
    if not line:
        return Ignored(kind="empty")
    record = _warc_record(stream) if line.startswith(b"WARC/") else _arc_record(line)
    kind = _kind_left(record)
    if kind is not None:
        skip(stream, record.block)
        return Ignored(kind=kind if kind in _NAMED_KINDS else "other")
    try:
        url, host = _address(record.target)
        archived = _date(record.date, _ARC_DATE if record.is_arc else _WARC_DATE)
    except _RefusedError as refusal:
        skip(stream, record.block)
        return Problem(offset=offset, reason=str(refusal))
    head, begun = _http_head(stream, record)
    rest = record.block - len(head) - len(begun)
    return Capture(
        offset=offset,
        record_type=record.record_type,
        url=url,
        host=host,
        archived=archived,
        http_status=_status(head),
        mime_type=_mime_type(head, record),
        digest=_digest(record, begun, stream, rest),
        length=record.block - len(head),
    )


def _warc_record(stream: BinaryIO) -> _Record:
    fields = _warc_fields(stream)
    record_type = fields.get(b"warc-type", b"").decode("iso-8859-1").lower()
    digest = fields.get(b"warc-payload-digest")
    if digest is None and record_type == "resource":
        digest = fields.get(b"warc-block-digest")  # the block of a resource is its payload
    length = _text(fields.get(b"content-length", b""))
    return _Record(
        record_type=record_type,
        target=_text(fields.get(b"warc-target-uri", b"")),
        date=_text(fields.get(b"warc-date", b"")),
        mime_type=_text(fields.get(b"content-type", b"")),
        digest=digest.decode("ascii") if digest and _DIGEST.fullmatch(digest) else None,
        block=_block_length(length, f"WARC header: Content-Length {length!r}"),
        is_arc=False,
    )


def _warc_fields(stream: BinaryIO) -> dict[bytes, bytes]:
    """The named fields after a WARC record's first line, names in lower case; the first of a name counts.

    Folded lines are joined (WARC 1.1, section 4). warcio's parser gives the same at three times the cost.
    """
    fields: dict[bytes, bytes] = {}
    name = b""
    size = 0
    while (line := stream.readline(LINE_LIMIT)).strip():
        if line[0] in _FOLD and name:
            fields[name] += b" " + line.strip()
        else:
            name, _, value = line.partition(b":")
            name = name.strip().lower()
            fields.setdefault(name, value.strip())
        size += len(line)
        if size > _HEADER_LIMIT:
            raise DamageError(f"the WARC header is longer than {_HEADER_LIMIT:,} bytes")
    if not line:
        raise DamageError("the record breaks off in its header")
    return fields


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("iso-8859-1")


def _arc_record(line: bytes) -> _Record:
    fields = _text(line).rstrip("\r\n ").rsplit(" ", _ARC_FIELDS - 1)
    if len(fields) != _ARC_FIELDS or not _SCHEME.match(fields[0]):
        raise DamageError(f"no WARC or ARC record begins with {line[:40]!r}")
    return _Record(
        record_type="response",
        target=fields[0],
        date=fields[2],
        mime_type=fields[3],
        digest=None,
        block=_block_length(fields[4], f"ARC header line: length {fields[4]!r}"),
        is_arc=True,
    )


def _block_length(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS):
        raise DamageError(f"{where} is no number of bytes")
    return int(text)


def _kind_left(record: _Record) -> str | None:
    """What an ignored record is counted as; None for a record that is taken (or refused)."""
    if record.record_type and record.record_type not in _TAKEN:
        return record.record_type
    scheme = _SCHEME.match(record.target)
    if scheme and (not scheme[2] or scheme[1].lower() in _LEFT_SCHEMES):
        return scheme[1].lower()
    return None


def _address(target: str) -> tuple[str, str]:
    """The URL and its host. A blank becomes `%20`: old crawlers left them, and no URL may have them."""
    url = target.strip(" ").removeprefix("<").removesuffix(">").replace(" ", "%20")
    if not _SCHEME.match(url) or _CONTROL.search(url):
        raise _RefusedError(f"{target[:200]!r} is no URL")
    host = host_of(url)
    if host is None or len(host) > _LONGEST_HOST:
        raise _RefusedError(f"URL {target[:200]!r} has no possible host name")
    return url, host


def _date(text: str, pattern: re.Pattern[str]) -> datetime:
    """A capture time, UTC; parts that are not stated are their first: month 1, second 0."""
    found = pattern.fullmatch(text)
    if found is None:
        raise _impossible_date(text)
    try:
        year, month, day, hour, minute, second, fraction = found.groups()
        return datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "").ljust(6, "0")[:6]),
            tzinfo=UTC,
        )
    except ValueError:
        raise _impossible_date(text) from None


def _impossible_date(text: str) -> _RefusedError:
    return _RefusedError(f"{text[:40]!r} is no possible capture time")


def _http_head(stream: BinaryIO, record: _Record) -> tuple[bytes, bytes]:
    """The HTTP status line and headers with the blank line; else none, and what was read of the payload."""
    if record.record_type == "resource":
        return b"", b""
    left = record.block
    lines: list[bytes] = []
    while left > record.block - _HTTP_LIMIT and (line := stream.readline(min(left, LINE_LIMIT))):
        if not lines and not line.startswith(b"HTTP/"):
            return b"", line
        lines.append(line)
        left -= len(line)
        if line in _BLANK_LINES:
            break
    return b"".join(lines), b""


def _status(head: bytes) -> int | None:
    found = _STATUS.match(head)
    return int(found[1]) if found else None


def _mime_type(head: bytes, record: _Record) -> str | None:
    """Of the archived content; a WARC response's own Content-Type is only that of the HTTP message."""
    if head:
        found = _CONTENT_TYPE.search(head)
        return found[1].decode("iso-8859-1") if found else None
    return record.mime_type if record.is_arc or record.record_type == "resource" else None


def _digest(record: _Record, begun: bytes, stream: BinaryIO, rest: int) -> str | None:
    """The record's digest, or one computed from the payload as transferred; reads to the record's end."""
    if record.digest is not None or record.record_type == "revisit":
        skip(stream, rest)
        return record.digest
    hashed = hashlib.sha1(begun, usedforsecurity=False)
    for block in read_blocks(stream, rest):
        hashed.update(block)
    return "sha1:" + base64.b32encode(hashed.digest()).decode("ascii")
