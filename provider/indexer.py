"""Indexes an archive file as one unit of work, and reports what became of it.

A file is indexed whole or not at all, so a run can be interrupted at any time and simply begun again. All
that is wrong with a file becomes a problem in its report; one bad file never ends a run.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

import psycopg
import sqlalchemy.exc
from sqlalchemy.orm import Session

from oai.database import Database
from oai.errors import UsageError
from provider.arcs import (
    ArchiveFile,
    drop_empty,
    find_unchanged,
    load_problems,
    look_at,
    save_problems,
    settle,
)
from provider.captures import Capture, Ignored, read_captures
from provider.framing import Problem, begins_as_archive
from provider.merging import Merged, merge
from provider.publishing import PublishingError, publish
from provider.staging import stage

SUFFIXES: Final = (".arc", ".arc.gz", ".warc", ".warc.gz")
_MOST_PROBLEMS: Final = 1000
_CHECK_EVERY: Final = 256
_BUFFER: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """What holds for every file of a run."""

    margin: float
    """Seconds by which new documents are dated ahead (setting `publish_margin`)."""
    collections: tuple[int, ...] = ()
    """Ids of the collection for new documents, itself first, and of those above it."""
    again: bool = False
    """Read files, too, that have not changed since they were indexed."""


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """What became of one archive file."""

    path: Path
    merged: Merged
    """Counts of documents, and problems by offset."""
    ignored: dict[str, int] = field(default_factory=dict)
    """Good records that are no documents, by kind."""
    skipped: bool = False
    """Not read, for it has not changed since; counts and problems are those of that time."""


def find_archives(paths: Iterable[Path]) -> list[Path]:
    """All archive files: those below folders by their names, and any file given by itself; absolute, sorted.

    Raises UsageError where a path does not exist.
    """
    found: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        found.update(_below(path) if path.is_dir() else [path])
    return sorted(file.absolute() for file in found)


def _below(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names if name.lower().endswith(SUFFIXES))


def index_file(
    database: Database, path: Path, options: IndexOptions, check: Callable[[], None] = lambda: None
) -> FileReport:
    """Index one file and commit; gives the report, whatever is wrong with the file.

    `check` is called now and then while reading; what it raises ends the work with nothing half done.
    Raises only what the database raises when it cannot be reached.
    """
    try:
        file = look_at(path)
    except (OSError, UnicodeEncodeError) as error:
        return _refused(path, f"cannot be looked at: {error}")
    with database.engine.connect() as connection, Session(connection) as session:
        unchanged = None if options.again else find_unchanged(session, file)
        if unchanged is not None:
            problems = load_problems(session, unchanged.id)
            merged = Merged(unchanged=unchanged.documents, problems=problems)
            return FileReport(path=path, merged=merged, skipped=True)
        session.rollback()
        reading = _Reading(file.path, check)
        try:
            stage(session, reading)
            merged = _publish(session, file, reading, options)
        except (psycopg.DataError, sqlalchemy.exc.DataError, PublishingError) as error:
            session.rollback()
            return _refused(path, f"not indexed: {error}")
        return FileReport(path=path, merged=merged, ignored=dict(reading.ignored))


def _refused(path: Path, reason: str) -> FileReport:
    return FileReport(path=path, merged=Merged(problems=(Problem(offset=0, reason=reason),)))


def _publish(session: Session, file: ArchiveFile, reading: "_Reading", options: IndexOptions) -> Merged:
    def change(datestamp: datetime) -> Merged:
        home = settle(session, file, whole=reading.whole)
        merged = merge(session, home, datestamp, options.collections)
        drop_empty(session, home.gone)
        found = sorted((*reading.problems, *merged.problems), key=lambda problem: problem.offset)
        problems = _limited(found, reading.more_problems)
        save_problems(session, home.arc_id, problems)
        return replace(merged, problems=problems)

    return publish(session, change, margin=options.margin, rows=reading.captures)


def _limited(problems: Sequence[Problem], more: int) -> tuple[Problem, ...]:
    """At most so many as a table can show, and how many there were beyond."""
    shown = tuple(problems[:_MOST_PROBLEMS])
    more += len(problems) - len(shown)
    if not more:
        return shown
    last = Problem(offset=shown[-1].offset, reason=f"and {more:,} problems more in this file")
    return (*shown, last)


class _Reading:
    """One file's captures, with everything else that is found counted on the way."""

    def __init__(self, path: Path, check: Callable[[], None]) -> None:
        self._path = path
        self._check = check
        self.captures = 0
        self.ignored: Counter[str] = Counter()
        self.problems: list[Problem] = []
        self.more_problems = 0
        self.whole = True

    def __iter__(self) -> Iterator[Capture]:
        try:
            with self._path.open("rb", buffering=_BUFFER) as file:
                if self._path.name.lower().endswith(SUFFIXES) or begins_as_archive(file):
                    yield from self._captures(file)
                else:
                    self._add(Problem(offset=0, reason="begins neither as an ARC nor as a WARC file"))
        except OSError as error:
            # The disk or the rights may be better next time.
            self.whole = False
            self._add(Problem(offset=0, reason=f"cannot be read: {error.strerror or error}"))

    def _captures(self, file: BinaryIO) -> Iterator[Capture]:
        for number, item in enumerate(read_captures(file)):
            if number % _CHECK_EVERY == 0:
                self._check()
            if isinstance(item, Capture):
                self.captures += 1
                yield item
            elif isinstance(item, Ignored):
                self.ignored[item.kind] += 1
            else:
                self._add(item)

    def _add(self, problem: Problem) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more_problems += 1
