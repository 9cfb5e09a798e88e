"""Writes the browsable copy: every file whose links are to lead into it, and a page to start from."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harvester.restoring.browsable import start_page, target_of, treated
from harvester.restoring.keeping import SITE
from harvester.restoring.links import SiteMap
from harvester.restoring.manifest import Entry
from harvester.restoring.missing import Missing, Reason
from harvester.restoring.unpacking import PackedError
from harvester.store.files import FileStore

START: Final = "index.html"
_AT_ONCE: Final = 64


@dataclass(kw_only=True)
class _Files:
    """Files on their way to the disk, some at a time; those that are right already are left alone."""

    folder: Path
    store: FileStore
    waiting: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, path: str, body: bytes) -> None:
        if _is_new(self.folder / path, body):
            self.waiting.append((path, body))
        if len(self.waiting) >= _AT_ONCE:
            self.finish()

    def finish(self) -> None:
        self.store.write_all(self.waiting)
        self.waiting = []


def write_copy(
    folder: Path,
    store: FileStore,
    entries: Mapping[str, Entry],
    *,
    title: str,
    most: int,
    on_file: Callable[[int], None] = lambda _done: None,
) -> list[Missing]:
    """Write all files of the copy that are treated; those that are right already are left alone.

    Gives the documents of which no file for browsers could be made; their files have the archived bytes.
    """
    targets = [target_of(entry, _in_site(entry)) for entry in entries.values()]
    site = SiteMap(targets)
    faults: list[Missing] = []
    files = _Files(folder=folder, store=store)
    for number, entry in enumerate(_treated(entries.values()), 1):
        body = (folder / entry.original).read_bytes()
        try:
            body = treated(entry, body, site, _in_site(entry), most=most)
        except PackedError as error:
            faults.append(_packed(entry, str(error)))
        files.add(entry.file, body)
        on_file(number)
    files.add(START, start_page(targets, title))
    files.finish()
    return faults


def is_written(folder: Path, entries: Iterable[Entry]) -> bool:
    """Whether each treated file is there, of a copy that was finished."""
    return os.path.exists(folder / START) and all(  # noqa: PTH110 as many as there are documents
        os.path.exists(folder / entry.file)  # noqa: PTH110
        for entry in _treated(entries)
    )


def _treated(entries: Iterable[Entry]) -> Iterable[Entry]:
    return (entry for entry in entries if entry.original)


def _in_site(entry: Entry) -> str:
    return entry.file.removeprefix(f"{SITE}/")


def _is_new(path: Path, body: bytes) -> bool:
    return not (path.is_file() and path.stat().st_size == len(body) and path.read_bytes() == body)


def _packed(entry: Entry, detail: str) -> Missing:
    return Missing(
        reason=Reason.PACKED,
        detail=detail,
        identifier=entry.identifier,
        url=entry.url,
        captured=entry.captured,
    )
