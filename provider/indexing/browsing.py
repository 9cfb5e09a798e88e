"""Archive files below the configured folders (`provider.index_roots`), and what the index knows of them.

Only for the dashboard: a command may name any path, because who runs it can read the files anyway.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.indexing.archive_search import SUFFIXES, is_wacz, refusal, with_members
from provider.models import Arc, IndexFile, IndexFileState
from provider.storage.files import look_at
from provider.storage.places import Place, stored_path

MOST_SHOWN: Final = 1000
"""Entries of one folder that are shown; all are indexed with the folder."""
_AT_ONCE: Final = 1000


class FileKnown(StrEnum):
    """What the index knows of an archive file."""

    NEW = "new"
    CHANGED = "changed"
    INDEXED = "indexed"
    WAITING = "waiting"
    RUNNING = "running"
    FAILED = "failed"


_FIRST: Final = (
    FileKnown.RUNNING,
    FileKnown.WAITING,
    FileKnown.FAILED,
    None,
    FileKnown.CHANGED,
    FileKnown.NEW,
    FileKnown.INDEXED,
)
"""Of the files in a WACZ file, the first of these is shown for all."""


@dataclass(frozen=True, kw_only=True)
class ArchiveEntry:
    """An archive file or a folder in a folder."""

    name: str
    path: str
    """Absolute, as `stored_path`."""
    is_folder: bool
    size: int = 0
    """Bytes of a file."""
    modified: datetime | None = None
    known: FileKnown | None = None
    """None for a folder, and for a file that cannot be indexed."""
    reason: str | None = None
    """Why it cannot be indexed, or has failed."""
    run_id: int | None = None
    """Indexing run that saw the file last."""


@dataclass(frozen=True, kw_only=True)
class ArchiveFolder:
    """A folder below a root."""

    path: str
    above: str | None
    """The folder that contains it; None for a root."""
    entries: Sequence[ArchiveEntry]
    more: int
    """Entries that are not shown."""


def inside(roots: Iterable[Path], path: str) -> Path:
    """Return the real path of a file or folder below one of the roots.

    Symbolic links are followed first, so that none leads outside. Raises UsageError for anything else.
    """
    try:
        real = Path(path).resolve(strict=True)
        bases = [root.resolve() for root in roots]
    except (OSError, ValueError, RuntimeError):
        real, bases = Path(), []
    if not any(real.is_relative_to(base) for base in bases):
        raise UsageError("%(path)s is not below a folder of provider.index_roots", path=repr(path))
    return real


def list_folder(session: Session, roots: Sequence[Path], path: str) -> ArchiveFolder:
    """Return a folder's subfolders and archive files. Raises UsageError if it cannot be read."""
    folder = inside(roots, path)
    try:
        with os.scandir(folder) as found:
            entries = sorted((not one.is_dir(), one.name) for one in found)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError("%(path)s cannot be read: %(reason)s", path=repr(path), reason=reason) from None
    kept = [(folder / name, is_file) for is_file, name in entries if not is_file or _concerns(folder / name)]
    shown = kept[:MOST_SHOWN]
    files = _files(session, [one for one, is_file in shown if is_file])
    is_root = folder in {root.resolve() for root in roots}
    return ArchiveFolder(
        path=stored_path(folder),
        above=None if is_root else stored_path(folder.parent),
        entries=[
            files[one] if is_file else ArchiveEntry(name=one.name, path=stored_path(one), is_folder=True)
            for one, is_file in shown
        ],
        more=len(kept) - len(shown),
    )


def find_files(roots: Sequence[Path], chosen: Iterable[str]) -> list[Place]:
    """Return the archive files among the chosen ones and below chosen folders, sorted; of WACZ, those in it.

    Files that a symbolic link takes out of the roots are left out. Raises UsageError for a path outside.
    """
    found: set[Path] = set()
    for path in chosen:
        real = inside(roots, path)
        if not real.is_dir():
            found.add(real)
            continue
        for parent, _folders, names in os.walk(real):
            found.update(Path(parent, name) for name in names if name.lower().endswith(SUFFIXES))
    bases = [root.resolve() for root in roots]
    within = (file for file in found if any(file.resolve().is_relative_to(base) for base in bases))
    return sorted(with_members(within), key=stored_path)


def changed_files(session: Session, files: Sequence[Place]) -> list[Place]:
    """Return those of the files that are new, changed or failed, and are not waiting already."""
    wanted = (FileKnown.NEW, FileKnown.CHANGED, FileKnown.FAILED)
    return [
        file
        for begin in range(0, len(files), _AT_ONCE)
        for file, entry in _files(session, files[begin : begin + _AT_ONCE]).items()
        if entry.known in wanted
    ]


def _concerns(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES) or refusal(path) is not None


def _files(session: Session, files: Sequence[Place]) -> dict[Place, ArchiveEntry]:
    members: dict[Place, list[Place]] = {
        file: list(with_members([file])) for file in files if isinstance(file, Path) and is_wacz(file)
    }
    stored = {one: stored_path(one) for file in files for one in members.get(file, [file])}
    arcs = {arc.path: arc for arc in session.scalars(select(Arc).where(Arc.path.in_(stored.values())))}
    latest = select(IndexFile).where(IndexFile.path.in_(stored.values())).order_by(IndexFile.id)
    runs = {row.path: row for row in session.scalars(latest)}
    found = {file: _entry(file, path, arcs.get(path), runs.get(path)) for file, path in stored.items()}
    return {
        file: _summary(file, [found[one] for one in members[file]]) if file in members else found[file]
        for file in files
    }


def _summary(wacz: Place, members: Sequence[ArchiveEntry]) -> ArchiveEntry:
    """Return the entry of a WACZ file: what is known of the member that needs attention first."""
    first = min(members, key=lambda entry: _FIRST.index(entry.known))
    return replace(
        first,
        name=wacz.name,
        path=stored_path(wacz),
        size=sum(entry.size for entry in members),
        modified=max((entry.modified for entry in members if entry.modified), default=None),
    )


def _entry(file: Place, path: str, arc: Arc | None, run: IndexFile | None) -> ArchiveEntry:
    problem = refusal(file)
    try:
        here = look_at(file)
    except OSError as error:
        reason = error.strerror or str(error)
        return ArchiveEntry(name=file.name, path=path, is_folder=False, reason=reason)
    known = FileKnown.NEW
    if arc is not None:
        same = (arc.size, arc.modified) == (here.size, here.modified)
        known = FileKnown.INDEXED if same else FileKnown.CHANGED
    if run is not None and run.state != IndexFileState.DONE and known is not FileKnown.INDEXED:
        known = FileKnown(run.state)
    return ArchiveEntry(
        name=file.name,
        path=path,
        is_folder=False,
        size=here.size,
        modified=here.modified,
        known=None if problem else known,
        reason=problem.reason if problem else run.reason if run and known is FileKnown.FAILED else None,
        run_id=run.run_id if run else None,
    )
