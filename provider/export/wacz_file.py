"""Writes an export as WACZ 1.1.1 with the profile `data-package`, which all readers accept.

Captures are copied into the ZIP file as they come; index and pages are collected in temporary files, because
the members of a ZIP file are written one after the other. Sources: https://specs.webrecorder.net/wacz/1.1.1/
and, for the index, https://specs.webrecorder.net/cdxj/0.1.0/.
"""

import hashlib
import json
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC
from io import SEEK_END, BytesIO
from itertools import islice
from types import TracebackType
from typing import IO, Any, BinaryIO, Final, Self

from oai.datestamps import format_datestamp, format_timestamp
from provider.export.captures import ExportedCapture
from provider.export.manifest import Manifest
from provider.export.sorted_lines import SortedLines
from provider.export.warc_records import information
from provider.holdings.urlkeys import WwwRule, url_key

VERSION: Final = "1.1.1"
PROFILE: Final = "data-package"
"""The draft 1.2.0 has another profile, which ReplayWeb.page refuses (November 2026)."""
PART_BYTES: Final = 1024**3
"""After this many bytes, a new WARC file is begun."""
MANIFEST: Final = "zatva/manifest.json"
"""In a folder, because `wacz validate` compares the last two parts of paths."""
INDEX: Final = "index.cdx.gz"
BLOCK_LINES: Final = 300
"""Lines of the index in one block, as py-wacz has them."""
_PAGES_HEADER: Final = {"format": "json-pages-1.0", "id": "pages", "title": "Pages"}
_PAGE_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_OK: Final = 200
_GZIP: Final = 16 + zlib.MAX_WBITS
_BUFFER: Final = 1024**2
_MODE: Final = 0o644 << 16


class _Member:
    """A member of the ZIP file that is being written: counts and hashes its bytes."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self.path = path
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def resource(self) -> dict[str, Any]:
        """Return its entry in `datapackage.json`."""
        return {
            "name": self.path.rpartition("/")[2],
            "path": self.path,
            "hash": f"sha256:{self._hash.hexdigest()}",
            "bytes": self.size,
        }


class WaczFile:
    """Receives captures; a context manager that owns temporary files. `file` must be seekable."""

    def __init__(self, file: BinaryIO, manifest: Manifest, *, part_bytes: int = PART_BYTES) -> None:
        self._manifest = manifest
        self._part_bytes = part_bytes
        self._resources: list[dict[str, Any]] = []
        self._parts = 0
        self._part: _Member | None = None
        self._open_part = ExitStack()
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._index = SortedLines(manifest.folder)
        self._pages = self._temporary()
        self._pages.write(_json_line(_PAGES_HEADER))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._index, self._pages, self._zip:
            self._open_part.close()

    def add(self, capture: ExportedCapture) -> int:
        """Write the capture's record, and keep its lines for index and pages; return the bytes written."""
        part = self._part_for(capture.length)
        line = _index_line(capture, offset=part.size, filename=part.path.rpartition("/")[2])
        shutil.copyfileobj(capture.record, part, _BUFFER)
        self._index.add(line)
        if capture.mime_type in _PAGE_TYPES and capture.http_status == _OK:
            self._pages.write(_json_line(_page(capture)))
        return capture.length

    def finish(self) -> None:
        """Write everything but the captures. `datapackage.json` and its digest are the last members."""
        self._end_part()
        self._write_index()
        self._copy("pages/pages.jsonl", self._pages)
        with self._temporary() as manifest:
            manifest.writelines(self._manifest.pieces())
            self._copy(MANIFEST, manifest)
        self._write_description()

    def _part_for(self, length: int) -> _Member:
        """Return the WARC file for the next record: the present one, or a new one if that is full."""
        if self._part is not None and self._part.size + length <= self._part_bytes:
            return self._part
        self._end_part()
        self._parts += 1
        name = f"zatva-{self._manifest.facts.created:%Y%m%d%H%M%S}-{self._parts:05}.warc.gz"
        begin = b"".join(information(self._manifest.facts.selection))
        # Only a single large record makes a part larger than this.
        most = max(self._part_bytes, len(begin) + length)
        self._part = self._open_part.enter_context(self._member(f"archive/{name}", most, zipfile.ZIP_STORED))
        self._part.write(begin)
        return self._part

    def _end_part(self) -> None:
        self._open_part.close()
        self._part = None

    def _write_index(self) -> None:
        """Write the lines in compressed blocks, and a second index with the first key of each block."""
        with self._temporary() as blocks, self._temporary() as second:
            second.write(b"!meta 0 " + _json_line({"format": "cdxj-gzip-1.0", "filename": INDEX}))
            for lines in _batched(self._index, BLOCK_LINES):
                packing = zlib.compressobj(wbits=_GZIP)
                block = packing.compress(b"".join(line + b"\n" for line in lines)) + packing.flush()
                digest = f"sha256:{hashlib.sha256(block).hexdigest()}"
                place = {"offset": blocks.tell(), "length": len(block), "digest": digest}
                second.write(lines[0].partition(b" {")[0] + b" " + _json_line(place))
                blocks.write(block)
            self._copy(f"indexes/{INDEX}", blocks, zipfile.ZIP_STORED)
            self._copy("indexes/index.idx", second)

    def _write_description(self) -> None:
        facts = self._manifest.facts
        description = {
            "profile": PROFILE,
            "wacz_version": VERSION,
            "title": facts.title,
            "description": facts.selection,
            "created": format_datestamp(facts.created),
            "software": facts.software,
            "resources": self._resources,
        }
        text = json.dumps(description, ensure_ascii=False, indent=2).encode()
        digest = {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(text).hexdigest()}"}
        self._copy("datapackage.json", BytesIO(text), listed=False)
        self._copy("datapackage-digest.json", BytesIO(json.dumps(digest, indent=2).encode()), listed=False)

    def _temporary(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self._manifest.folder)

    def _copy(
        self, path: str, file: IO[bytes], compression: int = zipfile.ZIP_DEFLATED, *, listed: bool = True
    ) -> None:
        """Write a member with the content of a file."""
        size = file.seek(0, SEEK_END)
        file.seek(0)
        with self._member(path, size, compression, listed=listed) as member:
            shutil.copyfileobj(file, member, _BUFFER)

    @contextmanager
    def _member(self, path: str, most: int, compression: int, *, listed: bool = True) -> Iterator[_Member]:
        """Provide a new member, which has at most that many bytes."""
        year, month, day, hour, minute, second = self._manifest.facts.created.astimezone(UTC).timetuple()[:6]
        info = zipfile.ZipInfo(path, (year, month, day, hour, minute, second))
        info.compress_type, info.external_attr = compression, _MODE
        # With ZIP64 fields in the local header alone, wabac.js takes them for the member's first bytes.
        with self._zip.open(info, "w", force_zip64=most > zipfile.ZIP64_LIMIT) as file:
            member = _Member(path, file)
            yield member
        if listed:
            self._resources.append(member.resource())


def _index_line(capture: ExportedCapture, *, offset: int, filename: str) -> bytes:
    """Return a line of the index, all of whose values are texts, as pywb and wabac.js expect.

    Its key follows their rule, whatever the rule of this archive.
    """
    values = {
        "url": capture.url,
        "mime": capture.mime_type or "unk",
        "status": str(capture.http_status),
        "digest": capture.digest,
        "length": str(capture.length),
        "offset": str(offset),
        "filename": filename,
    }
    time = format_timestamp(capture.archived)
    return f"{url_key(capture.url, WwwRule.NUMBERED)} {time} {json.dumps(values)}".encode()


def _page(capture: ExportedCapture) -> dict[str, str]:
    page = {"id": capture.key.hex, "url": capture.url, "ts": format_datestamp(capture.archived)}
    return {**page, "title": capture.title} if capture.title else page


def _json_line(values: Mapping[str, object]) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _batched(lines: Iterable[bytes], count: int) -> Iterator[list[bytes]]:
    left = iter(lines)
    while batch := list(islice(left, count)):
        yield batch
