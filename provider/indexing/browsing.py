"""Archive files below the configured places (`provider.index_roots`), and what the index knows of them.

Only for the dashboard: a command may name any path, because who runs it can read the files anyway.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.errors import UsageError
from oai.object_addresses import S3
from provider.indexing.archive_search import SUFFIXES, is_wacz, refusal, with_members
from provider.indexing.models import IndexFile, IndexFileState
from provider.models import Arc
from provider.storage.clients import client_of
from provider.storage.files import ArchiveFile, look_at
from provider.storage.places import Container, Member, ObjectUrl, Place, stored_path

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


def inside(roots: Iterable[str], path: str) -> Container:
    """Return the real path of a file or folder below one of the roots, or the URL of an object or prefix.

    Symbolic links are followed first, so that none leads outside. Raises UsageError for anything else.
    """
    roots = list(roots)
    if path.startswith(S3) and any(root.startswith(S3) and path.startswith(root) for root in roots):
        return ObjectUrl(path)
    try:
        real = Path(path).resolve(strict=True)
        bases = _bases(roots)
    except (OSError, ValueError, RuntimeError):
        real, bases = Path(), []
    if not any(real.is_relative_to(base) for base in bases):
        raise UsageError("%(path)s is not below a folder of provider.index_roots", path=repr(path))
    return real


def _bases(roots: Iterable[str]) -> list[Path]:
    return [Path(root).resolve() for root in roots if not root.startswith(S3)]


def list_folder(session: Session, roots: Sequence[str], path: str) -> ArchiveFolder:
    """Return a folder's or prefix's subfolders and archive files. Raises UsageError if it cannot be read."""
    folder = inside(roots, path)
    with _readable(path):
        below, there = _look_below(folder)
    kept = [*below, *(one for one in there if _concerns(one))]
    shown = kept[:MOST_SHOWN]
    files = _files(session, [one for one in shown if one in there], there)
    if isinstance(folder, Path):
        above, is_root = stored_path(folder.parent), folder in _bases(roots)
    else:
        above, is_root = str(folder.above), str(folder) in roots
    return ArchiveFolder(
        path=stored_path(folder),
        above=None if is_root else above,
        entries=[
            files.get(one) or ArchiveEntry(name=one.name, path=stored_path(one), is_folder=True)
            for one in shown
        ],
        more=len(kept) - len(shown),
    )


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError("%(path)s cannot be read: %(reason)s", path=repr(path), reason=reason) from None


Looks = Mapping[Container, ArchiveFile | None]
"""Files with what the listing says of them; None if they have to be looked at."""


def _look_below(folder: Container) -> tuple[list[Container], Looks]:
    """Return the subfolders and files. Raises OSError."""
    if isinstance(folder, Path):
        with os.scandir(folder) as found:
            entries = sorted((not one.is_dir(), one.name) for one in found)
        below: list[Container] = [folder / name for is_file, name in entries if not is_file]
        return below, {folder / name: None for is_file, name in entries if is_file}
    listed = client_of(folder).folder(folder)
    looks: dict[Container, ArchiveFile | None] = {
        place: ArchiveFile(path=place, size=facts.size, modified=facts.modified, tag=facts.tag)
        for place, facts in sorted(listed.objects.items())
    }
    return [*sorted(listed.prefixes)], looks


def find_files(roots: Sequence[str], chosen: Iterable[str]) -> list[Place]:
    """Return the archive files among the chosen ones and below chosen folders, sorted; of WACZ, those in it.

    Files that a symbolic link takes out of the roots are left out. Raises UsageError for a path outside, and
    for one that cannot be read.
    """
    found: set[Container] = set()
    for path in chosen:
        place = inside(roots, path)
        if isinstance(place, ObjectUrl):
            with _readable(path):
                names = client_of(place).names(place) if place.url.endswith("/") else [place]
                found.update(name for name in names if name.name.lower().endswith(SUFFIXES))
        elif not place.is_dir():
            found.add(place)
        else:
            for parent, _folders, names_there in os.walk(place):
                found.update(Path(parent, name) for name in names_there if name.lower().endswith(SUFFIXES))
    bases = _bases(roots)
    within = (file for file in found if isinstance(file, ObjectUrl) or _is_within(file, bases))
    return sorted(with_members(within), key=stored_path)


def _is_within(file: Path, bases: Iterable[Path]) -> bool:
    return any(file.resolve().is_relative_to(base) for base in bases)


def changed_files(session: Session, files: Sequence[Place]) -> list[Place]:
    """Return those of the files that are new, changed or failed, and are not waiting already."""
    wanted = (FileKnown.NEW, FileKnown.CHANGED, FileKnown.FAILED)
    looks = _listed(files)
    return [
        file
        for begin in range(0, len(files), _AT_ONCE)
        for file, entry in _files(session, files[begin : begin + _AT_ONCE], looks).items()
        if entry.known in wanted
    ]


def _concerns(file: Place) -> bool:
    return file.name.lower().endswith(SUFFIXES) or refusal(file) is not None


def _files(session: Session, files: Sequence[Place], looks: Looks) -> dict[Place, ArchiveEntry]:
    members: dict[Place, list[Place]] = {
        file: list(with_members([file])) for file in files if not isinstance(file, Member) and is_wacz(file)
    }
    stored = {one: stored_path(one) for file in files for one in members.get(file, [file])}
    arcs = {arc.path: arc for arc in session.scalars(select(Arc).where(Arc.path.in_(stored.values())))}
    latest = select(IndexFile).where(IndexFile.path.in_(stored.values())).order_by(IndexFile.id)
    runs = {row.path: row for row in session.scalars(latest)}
    found = {
        file: _entry(
            file, None if isinstance(file, Member) else looks.get(file), arcs.get(path), runs.get(path)
        )
        for file, path in stored.items()
    }
    return {
        file: _summary(file, [found[one] for one in members[file]]) if file in members else found[file]
        for file in files
    }


def _listed(files: Iterable[Place]) -> Looks:
    """Return what listings say of those files that are objects: one request for many."""
    looks: dict[Container, ArchiveFile | None] = {}
    for prefix in {file.above for file in files if isinstance(file, ObjectUrl)}:
        with contextlib.suppress(OSError):  # the entries of its files say what is wrong
            looks.update(_look_below(prefix)[1])
    return looks


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


def _entry(file: Place, here: ArchiveFile | None, arc: Arc | None, run: IndexFile | None) -> ArchiveEntry:
    problem, path = refusal(file), stored_path(file)
    try:
        here = here or look_at(file)
    except OSError as error:
        reason = error.strerror or str(error)
        return ArchiveEntry(name=file.name, path=path, is_folder=False, reason=reason)
    known = FileKnown.NEW
    if arc is not None:
        known = FileKnown.INDEXED if _is_same(arc, here) else FileKnown.CHANGED
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


def _is_same(arc: Arc, here: ArchiveFile) -> bool:
    """Return whether the file is as it was indexed; listings of objects have other times than answers."""
    if here.tag is not None:
        return (arc.size, arc.tag) == (here.size, here.tag)
    return (arc.size, arc.modified) == (here.size, here.modified)
