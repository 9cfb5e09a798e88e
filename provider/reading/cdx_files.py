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
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from provider.reading.capture_facts import RefusedError, address_of, capture_time, scheme_left
from provider.reading.content import LINE_LIMIT

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
}
_NEEDED: Final = ("url", "timestamp", "offset", "filename")
_JSON_PARTS: Final = 3
_REVISIT: Final = "warc/revisit"
_SECONDS: Final = 14
_MOST_DIGITS: Final = 18
_CHECK_EVERY: Final = 256

_BASE32_SHA1 = re.compile(r"[A-Z2-7]{32}")
_DIGEST = re.compile(r"[A-Za-z0-9-]{1,32}:[A-Za-z0-9+/=_-]{1,256}")
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
    """response or revisit; a CDX file does not distinguish resource records from responses."""
    file_name: str
    """Name of the archive file, without its folder."""
    offset: int


@dataclass(frozen=True, kw_only=True)
class FaultyLine:
    """A line that does not list a valid capture."""

    offset: int
    """Byte offset of the line in the uncompressed text."""
    reason: str
    """With the number of the line, counted from 1."""


def read_cdx(path: Path, check: Callable[[int], None]) -> Iterator[ListedCapture | FaultyLine | None]:
    """Yield the capture of each line, in order; None for one that is not a document, such as a name look-up.

    `check` periodically receives the number of bytes read from the file. Raises OSError if the file
    cannot be read; damaged gzip data ends it with a faulty line.
    """
    is_json = ".cdxj" in path.suffixes[-2:]
    columns: list[str] | None = None
    number = place = 0
    with path.open("rb") as raw:
        file = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if path.name.lower().endswith(".gz") else raw
        try:
            while line := file.readline(LINE_LIMIT):
                number += 1
                if number % _CHECK_EVERY == 0:
                    check(raw.tell())
                if line.startswith(_HEADER):
                    columns = [
                        _WANTED.get(letter, letter) for letter in line[len(_HEADER) :].decode().split()
                    ]
                elif line.strip() and not (is_json and line.startswith(b"!")):
                    try:
                        yield _line(line, columns, is_json=is_json)
                    except RefusedError as refusal:
                        yield FaultyLine(offset=place, reason=f"line {number}: {refusal}")
                place += len(line)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            yield FaultyLine(offset=place, reason=f"line {number + 1}: the gzip data is damaged ({error})")


def _line(line: bytes, columns: list[str] | None, *, is_json: bool) -> ListedCapture | None:
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
    except ValueError as error:
        raise RefusedError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise RefusedError(f"{line[:60]!r} is not a sort key, time stamp and JSON object")
    return {name: str(value) for name, value in found.items() if value is not None} | {"timestamp": parts[1]}


def _column_fields(line: str, columns: list[str] | None) -> Mapping[str, str]:
    if columns is None:
        raise RefusedError("no line ` CDX …` before this one names the columns")
    values = line.split()
    if len(values) != len(columns):
        raise RefusedError(f"{len(values)} columns, but the first line of the file declares {len(columns)}")
    return dict(zip(columns, values, strict=True))


def _capture(fields: Mapping[str, str]) -> ListedCapture | None:
    known = {name: value for name, value in fields.items() if value not in _NOTHING}
    missing = [name for name in _NEEDED if name not in known]
    if missing:
        raise RefusedError(f"{' and '.join(missing)} missing")
    if not _TIMESTAMP.fullmatch(known["timestamp"]):
        raise RefusedError(f"{known['timestamp'][:40]!r} is not a time stamp of 14 or 17 digits")
    if not (known["offset"].isascii() and known["offset"].isdigit() and len(known["offset"]) <= _MOST_DIGITS):
        raise RefusedError(f"offset {known['offset'][:40]!r} is not a number of bytes")
    if scheme_left(known["url"]):
        return None
    found = address_of(known["url"])
    mime_type = known.get("mime")
    status = known.get("status", "")
    return ListedCapture(
        url=found[0],
        host=found[1],
        archived=_moment(known["timestamp"]),
        http_status=int(status) if _STATUS.fullmatch(status) else None,
        mime_type=None if mime_type == _REVISIT else mime_type,
        digest=_digest(known.get("digest", "")),
        record_type="revisit" if mime_type == _REVISIT else "response",
        file_name=known["filename"].rpartition("/")[2],
        offset=int(known["offset"]),
    )


def _moment(timestamp: str) -> datetime:
    moment = capture_time(timestamp[:_SECONDS], is_arc=True)
    return moment.replace(microsecond=int(timestamp[_SECONDS:] or 0) * 1000)


def _digest(value: str) -> str | None:
    """Return the digest as archives write it; CDX files omit that 32 characters are a SHA-1 in base32."""
    if _BASE32_SHA1.fullmatch(value):
        return f"sha1:{value}"
    return value if _DIGEST.fullmatch(value) else None
