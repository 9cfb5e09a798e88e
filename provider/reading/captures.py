"""Reads ARC and WARC records as captures: the response of a URL at a certain time, and its file offset.

Reads WARC records of the types response, resource and revisit, and ARC records (WARC 1.1, section 6; ARC
1.0). Other records are counted by type and skipped, and so are answers to requests of other methods than GET
(`provider.reading.request_methods`). A record with impossible facts becomes a problem.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

from oai.digests import DigestCheck, PayloadDigest, is_of_nothing
from oai.failures import FailureCode
from oai.sections import ProviderSettings
from provider.reading.capture_facts import RefusedError, address_of, capture_time, scheme_left
from provider.reading.content import Content, DamageError, EndedEarlyError
from provider.reading.framing import FramingProblem, read_records
from provider.reading.headers import (
    SEGMENTED,
    LongHeaderError,
    RecordHeader,
    http_head,
    http_length,
    http_mime_type,
    http_status,
    read_header,
    unfolded,
)
from provider.reading.languages import TEXT_CHARACTERS, language_of, refuse_without_library
from provider.reading.request_methods import MethodRecord, method_of, with_methods
from provider.reading.titles import (
    TITLE_WINDOW,
    find_title,
    has_known_encoding,
    may_have_title,
    unpacked,
)
from provider.reading.type_recognition import FRONT, recognised_type
from provider.reading.visible_text import may_have_text, text_of

NOT_MODIFIED = 304
TAKEN = frozenset({"response", "resource", "revisit"})
"""Types of records that are documents."""
_MOST_PACKED = 2**31 - 1
"""Of the column; a longer record is read in pieces anyway."""
_NAMED_KINDS = frozenset(
    {
        "warcinfo",
        "request",
        "metadata",
        "conversion",
        "continuation",
        "empty",
        "filedesc",
        "file",
        "dns",
        "whois",
        "urn",
        # Methods of requests.
        "head",
        "post",
        "put",
        "delete",
        "options",
        "patch",
        "connect",
        "trace",
    }
)


class Capture(NamedTuple):
    """One archived response; a tuple, because it is created three times as fast as a frozen dataclass."""

    offset: int
    """Byte offset of the record (or its gzip member) in the file."""
    record_type: str
    """response, resource or revisit; an ARC record is a response."""
    url: str
    host: str
    """The result of `provider.holdings.sets.host_of`."""
    archived: datetime
    """UTC, with the stated precision, up to microseconds."""
    http_status: int | None
    mime_type: str | None
    """From the HTTP header, otherwise from the record; not validated."""
    digest: str | None
    """From the record; otherwise computed: `sha1:` and base32 of the payload."""
    length: int | None
    """Bytes of the content without HTTP headers; None if only a CDX line lists the capture."""
    title: str | None = None
    """Of an HTML page, found by `provider.reading.titles`."""
    arc_id: int | None = None
    """The row of the archive file, for captures of several files together."""
    date_adjusted: bool = False
    """Whether the record's date had another form than the format requires; see `capture_time`."""
    packed_length: int | None = None
    """Bytes of the record in its file, with what follows it up to the next one; None if unknown."""
    recognised_type: str | None = None
    """The type recognised from the content, if the declared one is none or wrong."""
    uses_recognised: bool = False
    """Whether it is in the sets of the recognised type, if there is one, and not in those of `mime_type`."""
    language: str | None = None
    """Of a page or plain text, detected by `provider.reading.languages`."""

    @property
    def set_type(self) -> str | None:
        """The type in whose sets it is."""
        return (self.uses_recognised and self.recognised_type) or self.mime_type


@dataclass(frozen=True, kw_only=True, slots=True)
class Ignored:
    """A valid record of a kind that is not a document."""

    kind: str
    """Its WARC type, the scheme of its address, or the method of its request: `request`, `dns`, `post`, …"""

    @classmethod
    def of(cls, kind: str) -> "Ignored":
        """Return one of this kind, or `other`: a file must not be able to create any number of kinds."""
        return cls(kind=kind if kind in _NAMED_KINDS else "other")


@dataclass(frozen=True, kw_only=True, slots=True)
class IgnoredAnswer(Ignored):
    """A response to a request of another method than GET, which is no capture of the page at its URL."""

    capture: Capture


@dataclass(frozen=True, kw_only=True)
class ContentOptions:
    """What is found out from the content of captures, besides titles."""

    types: Literal["off", "stored", "used"] = "off"
    """Whether types are recognised (`provider.reading.type_recognition`), and whether sets use them."""
    languages: bool = False
    """Whether languages are detected (`provider.reading.languages`)."""


_NOTHING_MORE = ContentOptions()
_Item: TypeAlias = MethodRecord[Capture | Ignored | FramingProblem]


def content_options(settings: ProviderSettings) -> ContentOptions:
    """Return what is found out from the content, from the settings.

    Raises UsageError if a library for it is not installed.
    """
    if settings.recognise_languages:
        refuse_without_library()
    return ContentOptions(types=settings.recognise_types, languages=settings.recognise_languages)


def read_captures(
    file: BinaryIO, options: ContentOptions = _NOTHING_MORE
) -> Iterator[Capture | Ignored | FramingProblem]:
    """Yield everything in an open ARC or WARC file, plain or gzipped, in order; uses constant memory."""
    for item, _, method in with_methods(_records(file, options)):
        if method and isinstance(item, Capture):
            yield IgnoredAnswer(kind=Ignored.of(method.lower()).kind, capture=item)
        else:
            yield item


def _records(file: BinaryIO, options: ContentOptions) -> Iterator[_Item]:
    for record in read_records(file, _Captures(options)):
        yield (record, None, "") if isinstance(record, FramingProblem) else record


class _Captures:
    """Makes captures from records (see `provider.reading.framing.ItemBuilder`)."""

    def __init__(self, options: ContentOptions) -> None:
        self._options = options

    def take(self, content: Content, offset: int) -> tuple[_Item, int]:
        """Return the record's capture, or another item, and the record's length according to its header."""
        header = read_header(content)
        if header is None:
            return (Ignored(kind="empty"), None, ""), len(content.front)
        kind = _kind_left(header)
        if kind is not None:
            method = method_of(content, header)
            content.pass_to(header.end)
            return (Ignored.of(kind), header, method), header.end
        try:
            address, time = _address_and_time(header)
            if not header.is_segment:
                capture = self._capture(content, offset, header, address, time)
                return (capture, header, ""), header.end
            code, reason = FailureCode.ARCHIVE_RECORD_SEGMENTED, SEGMENTED
        except (RefusedError, LongHeaderError) as refusal:
            code, reason = FailureCode.ARCHIVE_RECORD_INVALID, str(refusal)
        content.pass_to(header.end)
        return (FramingProblem.of(code, reason, offset=offset), None, ""), header.end

    def rescue(self, content: Content, offset: int, damage: DamageError) -> tuple[_Item, int]:
        """Return the capture if its payload can be verified although the record's length is wrong."""
        header = read_header(content)
        if header is None or header.is_segment or _kind_left(header) is not None:
            raise damage
        try:
            address, time = _address_and_time(header)
        except RefusedError:
            raise damage from None
        head, payload = http_head(content, header)
        stated = http_length(head)
        if stated is not None:
            header = header.ending_at(payload + stated)
        elif header.digest is None or isinstance(damage, EndedEarlyError):
            raise damage
        check = DigestCheck(header.digest) if header.digest else None
        found = self._capture(content, offset, header, address, time, check)
        if check is not None and not check.well():
            raise damage
        return (found, header, ""), header.end

    def measured(self, item: _Item, packed_length: int) -> _Item:
        """Return the item; a capture with the bytes that its record takes in the file."""
        capture, header, method = item
        if isinstance(capture, Capture) and packed_length <= _MOST_PACKED:
            return capture._replace(packed_length=packed_length), header, method
        return item

    def _capture(
        self,
        content: Content,
        offset: int,
        header: RecordHeader,
        address: tuple[str, str],
        time: tuple[datetime, bool],
        check: DigestCheck | None = None,
    ) -> Capture:
        head, payload = http_head(content, header)
        head = unfolded(head)
        status, mime_type = http_status(head), http_mime_type(head) if head else header.own_type
        shown = _Shown(None, None, None)
        if header.record_type != "revisit":
            shown = self._shown(content, header, (head, payload), address[1], (mime_type, status))
        digest = _pass_payload(content, header, payload, check)
        if header.record_type == "revisit" and status == NOT_MODIFIED and is_of_nothing(digest):
            # It says that the answer "not modified" had no body, and nothing about the content.
            digest = None
        return Capture(
            offset=offset,
            record_type=header.record_type,
            url=address[0],
            host=address[1],
            archived=time[0],
            http_status=status,
            mime_type=mime_type,
            digest=digest,
            length=header.end - payload,
            date_adjusted=time[1],
            uses_recognised=self._options.types == "used",
            **shown._asdict(),
        )

    def _shown(
        self,
        content: Content,
        header: RecordHeader,
        http: tuple[bytes, int],
        host: str,
        declared: tuple[str | None, int | None],
    ) -> "_Shown":
        """Return what the content shows; `http` is what `http_head` returns, `declared` type and status."""
        head, begin = http
        recognised = title = language = None
        if self._options.types != "off" and has_known_encoding(head):
            front = unpacked(_first_bytes(content, header, begin, FRONT), head)
            recognised = recognised_type(declared[0], front)
        mime_type = recognised or declared[0]
        if may_have_title(mime_type, declared[1]):
            title = find_title(_first_bytes(content, header, begin, TITLE_WINDOW), head, host)
        if self._options.languages and may_have_text(mime_type, declared[1]):
            front = _first_bytes(content, header, begin, TITLE_WINDOW)
            language = language_of(text_of(front, head, host, mime_type, TEXT_CHARACTERS))
        return _Shown(recognised, title, language)


class _Shown(NamedTuple):
    """What the content of a capture shows."""

    recognised_type: str | None
    title: str | None
    language: str | None


def _first_bytes(content: Content, header: RecordHeader, payload: int, size: int) -> bytes:
    """Return up to `size` bytes of the payload from its beginning."""
    end = min(payload + size, header.end)
    return content.extend(end)[payload:end]


def _pass_payload(
    content: Content, header: RecordHeader, payload: int, check: DigestCheck | None
) -> str | None:
    """Read to the record's end; return the payload's digest, computed if the record has none."""
    if check is not None:
        content.pass_to(header.end, check.see, payload)
    elif header.digest is None and header.record_type != "revisit":
        hashed = PayloadDigest()
        content.pass_to(header.end, hashed.see, payload)
        return hashed.text()
    else:
        content.pass_to(header.end)
    return header.digest


def _kind_left(header: RecordHeader) -> str | None:
    """Return the kind under which a skipped record is counted; None for one that is indexed (or refused)."""
    if header.record_type and header.record_type not in TAKEN:
        return header.record_type
    return scheme_left(header.target)


def _address_and_time(header: RecordHeader) -> tuple[tuple[str, str], tuple[datetime, bool]]:
    """Return what `address_of` and `capture_time` do; raises RefusedError also if there is no type."""
    if not header.record_type:
        raise RefusedError("the record has no type")
    return address_of(header.target), capture_time(header.date, is_arc=header.is_arc)
