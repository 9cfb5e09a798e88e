"""Parses an ARC or WARC record's header, and the HTTP header in its block."""

import re
from typing import Final, NamedTuple

from provider.reading.content import LINE_LIMIT, Content, DamageError, EndedEarlyError

_HEADER_LIMIT: Final = 1 << 20
_ARC_FIELDS: Final = 5
_DATE_DIGITS: Final = 10
_LENGTH_DIGITS: Final = 15
_HTTP: Final = (b"HTTP/", b"ICY ")
"""How responses begin; those of internet radio (SHOUTcast) have `ICY` in place of the HTTP version."""
_HTTP_LENGTH: Final = 5
_WARC: Final = b"WARC/"

_VERSION = re.compile(rb"WARC/[0-9]\.[0-9]{1,2}\r?\n")
_BLANK_LINE = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"\n[ \t]")
_FOLDED = re.compile(rb"\r?\n[ \t]+")
_FIELDS = re.compile(
    rb"\n(warc-(?:type|target-uri|date|payload-digest|block-digest|segment-number)|content-(?:type|length))"
    rb"[ \t]*:([^\r\n]*)",
    re.IGNORECASE,
)
# Lines of Alexa's crawlers: a content type with a parameter, or date and address in each other's place.
_ODD_ARC_LINE = re.compile(
    r"(?P<url>.+?) (?:\S+ (?P<date>[0-9]{10,18}[A-Za-z]{0,9})|(?P<first>[0-9]{14}) \S+)"
    r" (?P<type>(?>[^ ]*;)(?=.{0,400}+\Z).{0,200}|[^ ]*) (?P<length>[^ ]+)"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HTTP_MESSAGE = re.compile(r"(?:application|message)/http\b", re.IGNORECASE)
_DIGEST = re.compile(rb"[A-Za-z0-9-]{1,32}:[A-Za-z0-9+/=_-]{1,256}")
_SHA1 = re.compile(rb"[A-Z2-7]{32}")
"""SHA-1 in base32 without the algorithm, as in CDX files."""
_STATUS = re.compile(rb"(?:HTTP/[0-9.]+|ICY)[ \t]+([0-9]{3})\b")
_INTERIM = re.compile(rb"HTTP/[0-9.]+[ \t]+1(?!01)[0-9]{2}\b")
_CONTENT_TYPE = re.compile(rb"\ncontent-type[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_CONTENT_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*([0-9]{1,15})[ \t]*\r?\n", re.IGNORECASE)
_TRANSFER_ENCODING = re.compile(rb"\ntransfer-encoding[ \t]*:", re.IGNORECASE)


class LongHeaderError(DamageError):
    """A complete record has an HTTP header that is too long to be read."""


SEGMENTED: Final = "segmented record: only its first part is in this record, and segments are not joined"


class RecordHeader(NamedTuple):
    """The facts in a record's own header; positions count from the record's first byte.

    A tuple is created three times as fast as a frozen dataclass, and one is created for each record.
    """

    record_type: str
    """`response`, …; empty if a WARC record has no type."""
    target: str
    date: str
    mime_type: str | None
    digest: str | None
    """Of the payload: algorithm, colon and value. None also if that of a response is only of its block."""
    block: int
    """Where the content begins."""
    end: int
    """Where the content ends."""
    is_arc: bool
    is_segment: bool
    """Whether only a part of what was captured is in this record (WARC 1.1, section 7)."""
    head: bytes = b""
    """All of a WARC record's header, as it is in the file."""

    @property
    def own_type(self) -> str | None:
        """The type of content without an HTTP header; None if the record only says that it is HTTP."""
        is_message = self.record_type != "resource" and _HTTP_MESSAGE.match(self.mime_type or "")
        return None if is_message else self.mime_type or None

    def ending_at(self, end: int) -> "RecordHeader":
        """Return the header with another end of the record."""
        return self._replace(end=end)


def read_header(content: Content) -> RecordHeader | None:
    """Return the header of the record that begins here; None if only blank lines follow.

    Raises DamageError if no record begins here, or its header is truncated or has no length.
    """
    front = content.extend(len(_WARC))
    if front.startswith(_WARC):
        return _warc_header(content, 0)
    begin = len(front) - len(front.lstrip())
    if begin == len(front):
        if content.extend(begin + 1).strip():
            raise DamageError(f"no record begins within {begin:,} blank bytes")
        return None
    if front.startswith(_WARC, begin):
        return _warc_header(content, begin)
    return _arc_header(content, begin)


def _warc_header(content: Content, begin: int) -> RecordHeader:
    head = _warc_head(content, begin)
    fields = _warc_fields(head)
    record_type = fields.get(b"warc-type", b"").decode("iso-8859-1").lower()
    mime_type = decoded(fields.get(b"content-type", b""))
    digest, of_block = fields.get(b"warc-payload-digest"), fields.get(b"warc-block-digest")
    if digest is None and record_type == "resource":
        digest = of_block  # the block of a resource is its payload
    elif digest == of_block and record_type == "response" and _HTTP_MESSAGE.match(mime_type):
        digest = None  # not of the payload, which has no HTTP header
    length = decoded(fields.get(b"content-length", b""))
    block = begin + len(head)
    return RecordHeader(
        record_type=record_type,
        target=decoded(fields.get(b"warc-target-uri", b"")),
        date=decoded(fields.get(b"warc-date", b"")),
        mime_type=mime_type,
        digest=_digest(digest) if digest else None,
        block=block,
        end=block + _number(length, "WARC header: Content-Length"),
        is_arc=False,
        is_segment=b"warc-segment-number" in fields,
        head=head,
    )


def _digest(stated: bytes) -> str | None:
    if _SHA1.fullmatch(stated):
        return f"sha1:{stated.decode()}"
    return stated.decode() if _DIGEST.fullmatch(stated) else None


def _warc_head(content: Content, begin: int) -> bytes:
    """Return the header, including the blank line at its end."""
    front = content.front
    blank = _BLANK_LINE.search(front, begin)
    while blank is None:
        if front[begin : front.find(b"\n", begin)].endswith(b"\r\r"):
            raise DamageError("the WARC header has no end: its lines end in CR CR LF")
        if len(front) - begin > _HEADER_LIMIT:
            raise DamageError(f"the WARC header is longer than {_HEADER_LIMIT:,} bytes")
        searched = len(front)
        # Not beyond the record, if it can be helped: the next zstd frame may be the next record.
        front = content.grow()
        if len(front) == searched:
            raise EndedEarlyError("the record is truncated in its header")
        blank = _BLANK_LINE.search(front, max(begin, searched - 2))
        if blank is None and _VERSION.search(front, begin + 1):
            raise DamageError("the WARC header has no end: another record begins in it")
    return front[begin : blank.end()]


def _warc_fields(head: bytes) -> dict[bytes, bytes]:
    """Return the relevant fields of a WARC header, names in lower case; the first field of a name counts.

    Folded lines are joined (WARC 1.1, section 4). warcio's parser returns the same at four times the
    cost.
    """
    return {name.lower(): value.strip() for name, value in reversed(_FIELDS.findall(unfolded(head)))}


def unfolded(head: bytes) -> bytes:
    """Return a header in which each field is one line, also if it was folded (RFC 9112, section 5.2)."""
    return _FOLDED.sub(b" ", head) if _FOLD.search(head) else head  # nearly none is


def decoded(raw: bytes) -> str:
    """Return a header's text, which is UTF-8, or otherwise Latin-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("iso-8859-1")


def _arc_header(content: Content, begin: int) -> RecordHeader:
    end = content.front.find(b"\n", begin) + 1
    if not end:
        front = content.extend(begin + LINE_LIMIT)
        end = front.find(b"\n", begin) + 1 or len(front)
    line = content.front[begin:end]
    text = decoded(line).rstrip("\r\n ")
    fields = text.rsplit(" ", _ARC_FIELDS - 1)
    if len(fields) == _ARC_FIELDS and not fields[2][:_DATE_DIGITS].isdigit():
        fields = _odd_arc_fields(text) or fields
    if len(fields) != _ARC_FIELDS or not _SCHEME.match(fields[0]):
        raise DamageError(f"{line[:40]!r} does not begin a WARC or ARC record")
    return RecordHeader(
        record_type="response",
        target=fields[0],
        date=fields[2],
        mime_type=fields[3],
        digest=None,
        block=end,
        end=end + _number(fields[4], "ARC header line: length"),
        is_arc=True,
        is_segment=False,
    )


def _odd_arc_fields(line: str) -> list[str] | None:
    """Return the five fields of a line that Alexa's crawlers wrote; None for any other line."""
    found = _ODD_ARC_LINE.fullmatch(line)
    return found and [found["url"], "", found["date"] or found["first"], found["type"], found["length"]]


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS):
        raise DamageError(f"{where} {text[:40]!r} is not a number of bytes")
    return int(text)


def http_head(content: Content, header: RecordHeader) -> tuple[bytes, int]:
    """Return the HTTP status line and headers with the blank line, and where the payload begins.

    They are those of the final response if the block begins with interim ones, as warcprox writes it
    (`100 Continue`; RFC 9110, section 15.2); empty if the block is not HTTP. Raises LongHeaderError if they
    are too long: a part of them would be taken for the payload.
    """
    begin = header.block
    least = min(begin + _HTTP_LENGTH, header.end)
    if header.record_type == "resource" or not content.extend(least).startswith(_HTTP, begin):
        return b"", begin
    end = _end_of_head(content, header, begin)
    while _INTERIM.match(content.front, begin):
        more = content.extend(min(end + _HTTP_LENGTH, header.end))
        if not more.startswith(_HTTP[0], end, header.end):
            break
        begin, end = end, _end_of_head(content, header, end)
    return content.front[begin:end], end


def _end_of_head(content: Content, header: RecordHeader, begin: int) -> int:
    limit = min(header.end, header.block + _HEADER_LIMIT)
    blank = _BLANK_LINE.search(content.front, begin, limit)
    if blank is None:
        front = content.extend(limit)
        blank = _BLANK_LINE.search(front, begin, limit)
    if blank is None and limit < header.end:
        raise LongHeaderError(f"the HTTP header is longer than {_HEADER_LIMIT:,} bytes")
    return blank.end() if blank else limit


def http_status(head: bytes) -> int | None:
    """Return the status in an HTTP message's first line."""
    found = _STATUS.match(head)
    return int(found[1]) if found else None


def http_mime_type(head: bytes) -> str | None:
    """Return the value of Content-Type, including parameters."""
    found = _CONTENT_TYPE.search(head)
    return found[1].decode("iso-8859-1") if found else None


def http_length(head: bytes) -> int | None:
    """Return the payload's length by the HTTP header; None if it is missing, or the payload is chunked."""
    found = _CONTENT_LENGTH.findall(head)
    return int(found[0]) if len(set(found)) == 1 and not _TRANSFER_ENCODING.search(head) else None
