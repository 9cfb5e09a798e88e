"""The manifest of a restore's folder: a JSON line per document, added when its file is on the disk.

The first line holds the request. If a URL has several lines, the last one counts. A line that is incomplete
at the end of the file, as after a power failure, is dropped; its document is fetched again.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final

from harvester.restoring.captures import Capture
from harvester.store.atomic_files import sync_folder
from oai.errors import TryLaterError, UsageError

NAME: Final = "manifest.jsonl"
_VERSION: Final = 1
_UNFINISHED: Final = "~part"
_LOCK: Final = ".lock"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A document that is stored."""

    url: str
    captured: str
    identifier: str
    status: int | None
    content_type: str
    encoding: str
    fields: Mapping[str, str]
    digest: str
    verified: bool
    size: int
    """The size in bytes as archived."""
    file: str
    """The path below the folder, with `/`: of the browsable copy, or of the WARC file."""
    original: str = ""
    """The path below the folder of the bytes as archived, if the browsable file differs."""
    offset: int | None = None
    """The offset in the WARC file; `packed` is the record's compressed size."""
    packed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """The request; a folder belongs to exactly one."""

    what: str
    at: str = ""
    form: str

    def as_json(self) -> dict[str, Any]:
        """Return the first line."""
        return {"zatva_restore": _VERSION, "what": self.what, "at": self.at or None, "as": self.form}


@dataclass(kw_only=True)
class Manifest:
    """The manifest of a folder, open and locked for this process."""

    path: Path
    entries: dict[str, Entry]
    """The entries by URL."""
    finished: bool
    """Whether the last run was completed, with no addition since."""
    _file: BinaryIO = field(repr=False)
    _lock: BinaryIO = field(repr=False)

    def add(self, entries: Sequence[Entry]) -> None:
        """Add documents whose files are on the disk; durable when this returns."""
        lines = "".join(_line(asdict(entry)) for entry in entries)
        self._file.write(lines.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.entries.update((entry.url, entry) for entry in entries)
        self.finished = False

    def finish(self, request: Request, *, source: str) -> None:
        """Rewrite the manifest in the order of the URLs."""
        head = {**request.as_json(), "from": source, "documents": len(self.entries), "finished": True}
        entries = (asdict(self.entries[url]) for url in sorted(self.entries))
        write_lines(self.path, [head, *entries])
        self._file.close()
        self._file = self.path.open("ab")
        self.finished = True

    def close(self) -> None:
        """Close it, and release the folder to other processes."""
        self._file.close()
        self._lock.close()


def open_manifest(folder: Path, request: Request) -> Manifest:
    """Return the manifest of the folder; creates it if there is none.

    Raises UsageError if the folder contains something else, and TryLaterError if another process uses it.
    """
    path = folder / NAME
    if not path.exists():
        _check_empty(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    try:
        if not path.exists():
            write_lines(path, [request.as_json()])
        head, entries = _read(path)
        if entries:
            _check_same(folder, head, request)
        else:  # the previous request has no results yet
            write_lines(path, [request.as_json()])
        finished = bool(head.get("finished")) and head.get("documents") == len(entries)
        file = path.open("ab")
    except BaseException:
        lock.close()
        raise
    by_url = {entry.url: entry for entry in entries}
    return Manifest(path=path, entries=by_url, finished=finished, _file=file, _lock=lock)


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON lines, completely and durably or not at all."""
    unfinished = path.with_name(path.name + _UNFINISHED)
    with unfinished.open("wb") as file:
        file.writelines(_line(line).encode() for line in lines)
        file.flush()
        os.fsync(file.fileno())
    # Synced before the rename: after a power failure, the name leads to the old or to the complete new file.
    unfinished.replace(path)
    sync_folder(path.parent)


def _line(data: Mapping[str, Any]) -> str:
    return json.dumps(dict(data), ensure_ascii=False) + "\n"


def _read(path: Path) -> tuple[dict[str, Any], list[Entry]]:
    """Return the first line and the documents; an incomplete last line is cut from the file."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
    try:
        head, *rest = [json.loads(line) for line in data[:whole].splitlines()]
        return dict(head), [Entry(**line) for line in rest]
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{path} is not the manifest of a restore ({error}); choose another folder"
        ) from None


def _check_empty(folder: Path) -> None:
    ours = {_LOCK, NAME + _UNFINISHED}
    if folder.exists() and (not folder.is_dir() or any(one.name not in ours for one in folder.iterdir())):
        raise UsageError(f"{folder} has other contents and is not a restore; choose an empty or a new folder")


def _check_same(folder: Path, head: Mapping[str, Any], request: Request) -> None:
    wanted = request.as_json()
    for name, words in (("what", "of"), ("at", "for the time"), ("as", "as")):
        if head.get(name) != wanted[name]:
            raise UsageError(
                f"{folder} has a restore {words} {head.get(name)!r}, not {wanted[name]!r}; choose "
                "another folder, or use the same options"
            )


def _locked(folder: Path) -> BinaryIO:
    # The kernel releases the lock when this process ends, however it ends.
    file = (folder / _LOCK).open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise TryLaterError(f"another process is restoring into {folder}; wait until it has ended") from None
    return file


class Reason(StrEnum):
    """Why a document is missing."""

    WITHHELD = "withheld"
    """The archive lists it as deleted: hidden, or closed to everyone."""
    RESTRICTED = "restricted"
    """Accessible only in the archive's reading room, or under an embargo."""
    GONE = "gone"
    """The archive no longer knows it, or never had its content."""
    DAMAGED = "damaged"
    """The archive itself reports its record as damaged."""
    DIGEST = "digest mismatch"
    """What was received is not what was archived."""
    TOO_LARGE = "too large"
    UNAVAILABLE = "unavailable"
    """Not available at the moment; the same command tries again."""
    REFUSED = "refused"
    """A record or an answer that does not come from a Zatva provider."""
    PACKED = "packed"
    """Its compression is unknown or broken. Its bytes are stored unchanged."""


BY_STATUS = {403: Reason.RESTRICTED, 404: Reason.GONE, 410: Reason.WITHHELD, 500: Reason.DAMAGED}
"""By the HTTP status of the provider's answer."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A document that could not be restored."""

    reason: Reason
    detail: str
    identifier: str
    url: str = ""
    """Empty if the archive does not state it, as for deleted records."""
    captured: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return a line of the list of missing documents."""
        return {
            "url": self.url or None,
            "captured": self.captured or None,
            "identifier": self.identifier,
            "reason": self.reason.value,
            "detail": self.detail,
        }


def missing(capture: Capture, reason: Reason, detail: str) -> Missing:
    """Return the capture's entry in the list of missing documents."""
    return Missing(
        reason=reason,
        detail=detail,
        identifier=capture.identifier,
        url=capture.url,
        captured=capture.captured.isoformat(),
    )
