"""What a folder holds of a restore: a line of JSON for each document, added when its file is on the disk.

The first line says what was asked for. Of several lines for one URL the last counts. A line that breaks off
at the end of the file, as after a power cut, is dropped; its document is fetched again.
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
from oai.errors import TryLaterError, UsageError

NAME: Final = "manifest.jsonl"
_VERSION: Final = 1
_UNFINISHED: Final = "~part"
_LOCK: Final = ".lock"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A document that is here."""

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
    """Bytes as archived."""
    file: str
    """Below the folder, with `/`: of the browsable copy, or the WARC file."""
    original: str = ""
    """Below the folder: the bytes as archived, where the browsable file has others."""
    offset: int | None = None
    """In the WARC file; `packed` bytes are the record's."""
    packed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for; a folder holds one such."""

    what: str
    at: str = ""
    form: str

    def as_json(self) -> dict[str, Any]:
        """The first line."""
        return {"zatva_restore": _VERSION, "what": self.what, "at": self.at or None, "as": self.form}


@dataclass(kw_only=True)
class Manifest:
    """The manifest of a folder, open and locked for this process."""

    path: Path
    entries: dict[str, Entry]
    """By URL."""
    finished: bool
    """Whether the last run came to its end, and nothing was added since."""
    _file: BinaryIO = field(repr=False)
    _lock: BinaryIO = field(repr=False)

    def add(self, entries: Sequence[Entry]) -> None:
        """Note documents whose files are on the disk; durable when this returns."""
        lines = "".join(_line(asdict(entry)) for entry in entries)
        self._file.write(lines.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.entries.update((entry.url, entry) for entry in entries)
        self.finished = False

    def finish(self, request: Request, *, source: str) -> None:
        """Write the manifest anew, in the order of the URLs."""
        head = {**request.as_json(), "from": source, "documents": len(self.entries), "finished": True}
        entries = (asdict(self.entries[url]) for url in sorted(self.entries))
        write_lines(self.path, [head, *entries])
        self._file.close()
        self._file = self.path.open("ab")
        self.finished = True

    def close(self) -> None:
        """Close it, and let others have the folder."""
        self._file.close()
        self._lock.close()


def open_manifest(folder: Path, request: Request) -> Manifest:
    """The manifest of the folder, which is made where there is none.

    Raises UsageError where the folder holds something else, and TryLaterError where another process is at it.
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
        else:  # nothing came of what was asked for before
            write_lines(path, [request.as_json()])
        finished = bool(head.get("finished")) and head.get("documents") == len(entries)
        file = path.open("ab")
    except BaseException:
        lock.close()
        raise
    by_url = {entry.url: entry for entry in entries}
    return Manifest(path=path, entries=by_url, finished=finished, _file=file, _lock=lock)


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON lines, whole and durable or not at all."""
    unfinished = path.with_name(path.name + _UNFINISHED)
    with unfinished.open("wb") as file:
        file.writelines(_line(line).encode() for line in lines)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """See new names in the folder onto the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _line(data: Mapping[str, Any]) -> str:
    return json.dumps(dict(data), ensure_ascii=False) + "\n"


def _read(path: Path) -> tuple[dict[str, Any], list[Entry]]:
    """The first line and the documents; a line that breaks off is cut from the file."""
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
    """The archive lists it as deleted: hidden, or closed to everybody."""
    RESTRICTED = "restricted"
    """Open in the archive's reading room only, or under an embargo."""
    GONE = "gone"
    """The archive no longer knows it, or never had its content."""
    DAMAGED = "damaged"
    """The archive itself found its record damaged."""
    DIGEST = "digest mismatch"
    """What came is not what was archived."""
    TOO_LARGE = "too large"
    UNAVAILABLE = "unavailable"
    """Not to be had at the moment; the same command tries again."""
    REFUSED = "refused"
    """A record or an answer that is none of a Zatva provider's."""
    PACKED = "packed"
    """Its compression is unknown or broken. Its bytes are kept as they are."""


BY_STATUS = {403: Reason.RESTRICTED, 404: Reason.GONE, 410: Reason.WITHHELD, 500: Reason.DAMAGED}
"""By the HTTP status of the provider's answer."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A document that could not be restored."""

    reason: Reason
    detail: str
    identifier: str
    url: str = ""
    """Empty where the archive does not tell it, as of deleted records."""
    captured: str = ""

    def as_json(self) -> dict[str, Any]:
        """A line of the list of what is missing."""
        return {
            "url": self.url or None,
            "captured": self.captured or None,
            "identifier": self.identifier,
            "reason": self.reason.value,
            "detail": self.detail,
        }


def missing(capture: Capture, reason: Reason, detail: str) -> Missing:
    """That this capture is missing."""
    return Missing(
        reason=reason,
        detail=detail,
        identifier=capture.identifier,
        url=capture.url,
        captured=capture.captured.isoformat(),
    )
