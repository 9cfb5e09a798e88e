"""Write restored documents into WARC 1.1 files for replay software such as pywb.

Each record is the response as archived, at the time of its capture: status and Content-Type, other fields as
far as the provider delivers them, and the bytes with their digest. An unfinished file has the suffix `.open`;
after an interruption it is cut after the last record that the manifest knows.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from harvester.restoring.document_files import entry_of
from harvester.restoring.documents import FetchedDocument
from harvester.restoring.manifest import Entry
from harvester.store.atomic_files import sync_folder

FOLDER: Final = "warc"
_OPEN: Final = ".open"
_LARGEST: Final = 1024**3
"""In bytes; when a file has reached this size, the next batch of documents begins another one."""
_SOFTWARE: Final = "Zatva (restore)"
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9.-]+")
_LONGEST_NAME: Final = 60
_CONNECTION_ONLY: Final = frozenset({"transfer-encoding", "content-length"})


class WarcKeeper:
    """Stores documents in WARC files."""

    def __init__(
        self, folder: Path, asked: str, source: str, known: Iterable[Entry], *, largest: int = _LARGEST
    ) -> None:
        self._largest = largest
        self._folder = folder / FOLDER
        self._asked = asked
        self._source = source
        self._ends: dict[str, list[int]] = defaultdict(list)
        for entry in known:
            self._ends[entry.file].append((entry.offset or 0) + (entry.packed or 0))
        self._file: BinaryIO | None = None
        self._path = self._folder

    def keep(self, documents: Sequence[FetchedDocument]) -> list[Entry]:
        """Append the documents to the unfinished file; a full file gets its final name first."""
        # Not within a batch: a file with its final name is never cut again, so the manifest must know all of
        # it.
        if self._file is not None and self._file.tell() >= self._largest:
            self.finish()
        entries = []
        for document in documents:
            file = self._opened()
            offset = file.tell()
            writer = WARCWriter(file, gzip=True, warc_version="1.1")
            writer.write_record(_record(writer, document))
            packed = file.tell() - offset
            name = f"{FOLDER}/{self._path.name}"
            entries.append(entry_of(document, name, offset=offset, packed=packed))
        # Synced before the caller writes the manifest's lines: these never name a record that could still be
        # lost.
        if self._file is not None:
            self._sync(self._file)
        return entries

    def holds(self, entry: Entry) -> bool:
        """Return whether the file with the record exists and is not truncated before the record's end."""
        path = self._folder.parent / entry.file
        found = next((one for one in (path, _unfinished(path)) if one.is_file()), None)
        return found is not None and found.stat().st_size >= (entry.offset or 0) + (entry.packed or 0)

    def finish(self) -> None:
        """Give the file its final name."""
        if self._file is None:
            self._leave_nothing_open()
            return
        self._sync(self._file)
        self.close()
        _unfinished(self._path).replace(self._path)
        sync_folder(self._folder)

    def close(self) -> None:
        """Close the unfinished file; the next run continues it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self._folder.parent)
            self._path = self._next_path()
            self._file = _unfinished(self._path).open("ab")
            end = self._whole_until(_unfinished(self._path))
            self._file.truncate(end)
            self._file.seek(end)
            if not end:
                self._write_info(self._file)
            sync_folder(self._folder)
        return self._file

    def _next_path(self) -> Path:
        """Return the unfinished file, or one with the first free number."""
        slug = _NOT_IN_NAME.sub("-", self._asked.partition("://")[2] or self._asked)[:_LONGEST_NAME]
        stem = slug.strip("-.") or "restored"
        number = 0
        while (path := self._folder / f"{stem}-{number:05}.warc.gz").exists():
            number += 1
        return path

    def _leave_nothing_open(self) -> None:
        """Rename or remove what an interrupted run left unfinished."""
        for path in self._folder.glob(f"*{_OPEN}"):
            end = self._whole_until(path)
            if end:
                os.truncate(path, end)
                path.replace(path.with_name(path.name.removesuffix(_OPEN)))
            else:
                path.unlink()
            sync_folder(self._folder)

    def _whole_until(self, path: Path) -> int:
        """Return the end of the last record that both the manifest and the file contain."""
        size = path.stat().st_size
        ends = self._ends.get(f"{FOLDER}/{path.name.removesuffix(_OPEN)}", [])
        return max((end for end in ends if end <= size), default=0)

    def _write_info(self, file: BinaryIO) -> None:
        writer = WARCWriter(file, gzip=True, warc_version="1.1")
        facts = {
            "software": _SOFTWARE,
            "format": "WARC File Format 1.1",
            "description": f"{self._asked} as restored from {self._source}",
        }
        writer.write_record(writer.create_warcinfo_record(self._path.name, facts))

    def _sync(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + _OPEN)


def _record(writer: Any, document: FetchedDocument) -> Any:  # noqa: ANN401 warcio publishes no types
    capture = document.capture
    headers = {
        "WARC-Date": capture.captured.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z",
        "WARC-Payload-Digest": capture.digest if document.verified else None,
    }
    http = _http_headers(document)
    record = writer.create_warc_record(
        capture.url,
        "resource" if http is None else "response",
        payload=BytesIO(document.body),
        length=len(document.body),
        warc_headers_dict={name: value for name, value in headers.items() if value},
        http_headers=http,
    )
    if http is None:
        record.content_type = document.content_type or None  # an empty argument would mean a default type
    return record


def _http_headers(document: FetchedDocument) -> StatusAndHeaders | None:
    """Return the HTTP header as far as known; None for content that was not retrieved over HTTP."""
    if document.status is None:
        return None
    try:
        phrase = HTTPStatus(document.status).phrase
    except ValueError:
        phrase = "Unknown"
    known = {"Content-Type": document.content_type, "Content-Encoding": document.encoding}
    fields = [(name, value) for name, value in known.items() if value]
    fields += [
        (name, value) for name, value in document.fields.items() if name.lower() not in _CONNECTION_ONLY
    ]
    fields.append(("Content-Length", str(len(document.body))))
    return StatusAndHeaders(f"{document.status} {phrase}", fields, protocol="HTTP/1.1")
