"""Reads CDX and CDXJ files, which list the captures of archive files, plain or gzipped.

A CDX file begins with a line ` CDX N b a m s k r M S V g` that names the columns (CDX File Format,
Internet Archive: usually 9 or 11 columns); a CDXJ line consists of a sort key, a time stamp and a JSON
object.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Final, NamedTuple, cast

from provider.reading.capture_facts import RefusedError, address_of, capture_time, scheme_left
from provider.reading.captures import TAKEN, Ignored
from provider.reading.content import LINE_LIMIT
from provider.storage.files import ArchiveFile

CDX_SUFFIXES: Final = (".cdx", ".cdx.gz", ".cdxj", ".cdxj.gz")

_HEADER: Final = b" CDX "
_NOTHING: Final = frozenset(("", "-"))
_WANTED: Final = {
    "a": "url",
    "b": "timestamp",
    "m": "mime",
    "s": "status",
    "k": "digest",
    "V": "offset",
    "g": "filename",
    "N": "key",
}
_NEEDED: Final = ("url", "timestamp", "offset", "filename")
_JSON_PARTS: Final = 3
_OF_RECORDS: Final = "warc/"
"""What CDX-Writer and OpenWayback write before a record's type, instead of a MIME type."""
_INFO: Final = "warc-info"
_RESPONSE: Final = "response"
_REVISIT: Final = "revisit"
_SECONDS: Final = 14
_MOST_DIGITS: Final = 18
_CHECK_EVERY: Final = 256
_METHOD_IN_KEY = re.compile(r"[?&]__wb_method=([a-z]+)", re.IGNORECASE)
"""How pywb names the method in the key of an answer to a request other than GET."""
_LONGEST_NAME: Final = 1000
"""Bytes of a file name; file systems allow 255, and an index of PostgreSQL 2,700."""

_COLUMN = re.compile(r"\S+", re.ASCII)
_BASE32_SHA1 = re.compile(r"[A-Z2-7]{32}")
_DIGEST = re.compile(r"[A-Za-z0-9-]{1,32}:[A-Za-z0-9+/=_-]{1,256}")
# JSON may contain both; PostgreSQL can store neither.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_TIMESTAMP = re.compile(r"[0-9]{14}(?:[0-9]{3})?")
_STATUS = re.compile(r"[1-9][0-9]{2}")


class ListedCapture(NamedTuple):
    """A capture as listed by one line."""

    url: str
    host: str
    archived: datetime
    http_status: int | None
    mime_type: str | None
    digest: str | None
    record_type: str
    """response, revisit or resource; few CDX files distinguish resource records from responses."""
    file_name: str
    """Name of the archive file, without its folder."""
    offset: int
    method: str = ""
    """Method of the request that it answers, in small letters; empty for GET."""


@dataclass(frozen=True, kw_only=True)
class FaultyLine:
    """A line that does not list a valid capture."""

    offset: int
    """Byte offset of the line in the uncompressed text."""
    line: int
    """Number of the line, counted from 1."""
    reason: str
    """With the number of the line."""


def read_cdx(
    file: ArchiveFile, check: Callable[[int], None]
) -> Iterator[ListedCapture | FaultyLine | Ignored]:
    """Yield the capture of each line, in order; or what a line lists that is not a document.

    Lists of all records (`cdx-indexer -a`, `cdx_writer --all-records`) have lines of requests and metadata,
    too. `check` periodically receives the number of bytes read from the file. Raises OSError if the file
    cannot be read; damaged gzip data ends it with a faulty line.
    """
    for line in _without_companions(_read_lines(file, check)):
        yield Ignored.of(line.method) if isinstance(line, ListedCapture) and line.method else line


def _without_companions(
    lines: Iterator[ListedCapture | FaultyLine | Ignored],
) -> Iterator[ListedCapture | FaultyLine | Ignored]:
    """Pass over lines beside that of a response which have its URL and time, but no HTTP status.

    pywb's `cdx-indexer -a` lists a response's request so, without type and status, and its metadata as
    `unk`; nothing else distinguishes them. Taken as documents, they would replace the response or differ
    from it. A line without a response beside it is kept.
    """
    response: ListedCapture | None = None
    held: ListedCapture | None = None
    for line in lines:
        if not isinstance(line, ListedCapture):
            yield line
        elif line.http_status is not None or line.record_type == _REVISIT:
            if held is not None:
                yield Ignored.of("other") if _same(held, line) else held
            yield line
            response, held = line, None
        elif response is not None and _same(response, line):
            yield Ignored.of("other")
        else:
            if held is not None:
                yield held
            held = line
    if held is not None:
        yield held


def _same(one: ListedCapture, other: ListedCapture) -> bool:
    place = (one.url, one.archived, one.file_name)
    return place == (other.url, other.archived, other.file_name)


def _read_lines(
    archive: ArchiveFile, check: Callable[[int], None]
) -> Iterator[ListedCapture | FaultyLine | Ignored]:
    name = archive.path.name.lower()
    is_json = name.endswith((".cdxj", ".cdxj.gz"))
    columns: list[str] | None = None
    number = place = 0
    with archive.open() as raw:
        file = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if name.endswith(".gz") else raw
        try:
            while line := file.readline(LINE_LIMIT):
                number += 1
                if number % _CHECK_EVERY == 0:
                    check(raw.tell())
                if line.startswith(_HEADER):
                    names = line[len(_HEADER) :].decode(errors="replace").split()
                    columns = [_WANTED.get(name, name) for name in names]
                elif line.strip() and not (is_json and line.startswith(b"!")):
                    try:
                        yield _line(line, columns, is_json=is_json)
                    except RefusedError as refusal:
                        yield _faulty(place, number, str(refusal))
                place += len(line)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            yield _faulty(place, number + 1, f"the gzip data is damaged ({error})")


def _faulty(place: int, line: int, reason: str) -> FaultyLine:
    return FaultyLine(offset=place, line=line, reason=f"line {line}: {reason}")


def _line(line: bytes, columns: list[str] | None, *, is_json: bool) -> ListedCapture | Ignored:
    if len(line) == LINE_LIMIT:
        raise RefusedError(f"it is longer than {LINE_LIMIT:,} bytes")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise RefusedError("it is not in UTF-8") from None
    return _capture(_json_fields(text) if is_json else _column_fields(text, columns))


def _json_fields(line: str) -> Mapping[str, str]:
    parts = line.split(" ", _JSON_PARTS - 1)
    try:
        found = json.loads(parts[-1]) if len(parts) == _JSON_PARTS else None
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise RefusedError(f"{line[:60]!r} is not a sort key, time stamp and JSON object")
    given = {"key": parts[0], "timestamp": parts[1]}
    return {name: str(value) for name, value in found.items() if value is not None} | given


def _column_fields(line: str, columns: list[str] | None) -> Mapping[str, str]:
    if columns is None:
        raise RefusedError("no line ` CDX …` before this one names the columns")
    values = _COLUMN.findall(line)
    if len(values) != len(columns):
        raise RefusedError(f"{len(values)} columns, but the first line of the file declares {len(columns)}")
    return dict(zip(columns, values, strict=True))


def _capture(fields: Mapping[str, str]) -> ListedCapture | Ignored:
    known = {name: value for name, value in fields.items() if value not in _NOTHING}
    mime_type = known.get("mime")
    record_type = _record_type(mime_type)
    left = record_type if record_type not in TAKEN else scheme_left(known.get("url", ""))
    if left is not None:
        return Ignored.of(left)
    missing = [name for name in _NEEDED if name not in known]
    if missing:
        raise RefusedError(f"{' and '.join(missing)} missing")
    if not _TIMESTAMP.fullmatch(known["timestamp"]):
        raise RefusedError(f"{known['timestamp'][:40]!r} is not a time stamp of 14 or 17 digits")
    if unstorable := [name for name, value in known.items() if _UNSTORABLE.search(value)]:
        raise RefusedError(f"{' and '.join(unstorable)} with NUL or with half of a surrogate pair")
    if len(known["filename"].encode()) > _LONGEST_NAME:
        raise RefusedError(f"a file name of more than {_LONGEST_NAME:,} bytes")
    if not (known["offset"].isascii() and known["offset"].isdigit() and len(known["offset"]) <= _MOST_DIGITS):
        raise RefusedError(f"offset {known['offset'][:40]!r} is not a number of bytes")
    found = address_of(known["url"])
    status = known.get("status", "")
    return ListedCapture(
        url=found[0],
        host=found[1],
        archived=_moment(known["timestamp"]),
        http_status=int(status) if _STATUS.fullmatch(status) else None,
        mime_type=None if record_type != _RESPONSE else mime_type,
        digest=_digest(known.get("digest", "")),
        record_type=record_type,
        file_name=known["filename"].rpartition("/")[2],
        offset=int(known["offset"]),
        method=_other_method(known),
    )


def _other_method(known: Mapping[str, str]) -> str:
    """Return the method of the request that a capture answers, in small letters; empty if it is GET."""
    in_key = _METHOD_IN_KEY.search(known.get("key", ""))
    method = known.get("method") or (in_key[1] if in_key else "get")
    return "" if method.lower() == "get" else method.lower()


def _record_type(mime_type: str | None) -> str:
    """Return the type of a line's record, which some tools write as its MIME type."""
    if mime_type is not None and mime_type.startswith(_OF_RECORDS):
        return mime_type.removeprefix(_OF_RECORDS)
    return "warcinfo" if mime_type == _INFO else _RESPONSE


def _moment(timestamp: str) -> datetime:
    moment, _ = capture_time(timestamp[:_SECONDS], is_arc=True)
    return moment.replace(microsecond=int(timestamp[_SECONDS:] or 0) * 1000)


def _digest(value: str) -> str | None:
    """Return the digest as archives write it; CDX files omit that 32 characters are a SHA-1 in base32."""
    if _BASE32_SHA1.fullmatch(value):
        return f"sha1:{value}"
    return value if _DIGEST.fullmatch(value) else None
