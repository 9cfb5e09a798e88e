"""Indexes an archive file as one unit of work, and reports the result.

A file is indexed completely or not at all, so a run can be interrupted at any time and simply started
again. Faults of a file become problems in its report; a bad file never ends a run.
"""

import contextlib
import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import TracebackType
from typing import BinaryIO, Final, Self

import psycopg
import sqlalchemy.exc
from sqlalchemy import insert, select, text, update
from sqlalchemy.orm import Session

from oai.database import Database
from oai.failures import FailureCode
from provider.holdings.arcs import (
    drop_empty,
    find_unchanged,
    find_unplaced,
    load_problems,
    lock_name,
    may_replace_lost,
    save_problems,
    settle,
)
from provider.holdings.loads import note_part
from provider.holdings.publication import PublishingError, publish
from provider.holdings.rules import CollectionGoneError, Enrolment, enrolment
from provider.holdings.url_key_state import hold_rule, www_rule
from provider.holdings.urlkeys import WwwRule
from provider.indexing.archive_search import is_wacz, refusal, refuse_wacz
from provider.indexing.first_load import refuse_unserved
from provider.indexing.former_documents import former_answers
from provider.indexing.merge import Merged, merge, merge_listed
from provider.indexing.read_ahead import CONNECTIONS, ReadAhead
from provider.indexing.staging import Dimensions, open_staging, stage, stage_more
from provider.models import Arc
from provider.reading.captures import Capture, ContentOptions, Ignored, IgnoredAnswer, read_captures
from provider.reading.cdx_files import CDX_SUFFIXES, FaultyLine, read_cdx
from provider.reading.framing import (
    MOST_PROBLEMS,
    FramingProblem,
    begins_as_archive,
    limited_problems,
)
from provider.reading.wacz import AlteredMemberError, WaczMember
from provider.storage.clients import patiently
from provider.storage.files import UNREAD, ArchiveFile, Presence, look_at, presence
from provider.storage.places import (
    ARCHIVE_SUFFIXES,
    Container,
    Member,
    Place,
    absolute,
    stored_name,
    stored_path,
)

_CHECK_EVERY: Final = 256
_FILE_CLASS: Final = 0x5A46  # "ZF": separates these keys from other advisory locks
_TRY_FILE: Final = "SELECT pg_try_advisory_lock(:class, :key)"
_FREE_FILE: Final = "SELECT pg_advisory_unlock(:class, :key)"
_LOOK_AGAIN_SECONDS: Final = 0.2
_NO_ARCHIVE: Final = FramingProblem.of(FailureCode.ARCHIVE_NOT_ARCHIVE, "is neither an ARC nor a WARC file")


class _Found:
    """What a file has besides captures: other records by kind, and problems, of which the first are kept."""

    def __init__(self) -> None:
        self.ignored: Counter[str] = Counter()
        self.problems: list[FramingProblem] = []
        self.more_problems = 0

    def _add(self, problem: FramingProblem) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more_problems += 1


class ListedCaptures(_Found):
    """The captures that a CDX file lists, with rows for their archive files; other lines are counted."""

    def __init__(
        self, session: Session, file: ArchiveFile, archive_dir: Container | None, check: Callable[[int], None]
    ) -> None:
        super().__init__()
        self._session = session
        self._file = file
        self._archive_dir = archive_dir
        self._check = check
        self._arcs: dict[str, int | None] = {}

    def __iter__(self) -> Iterator[Capture]:
        try:
            for line in read_cdx(self._file, self._check):
                if isinstance(line, FaultyLine):
                    code = FailureCode.ARCHIVE_LINE_INVALID
                    self._add(FramingProblem.of(code, line.reason, offset=line.offset, line=line.line))
                elif isinstance(line, Ignored):
                    self.ignored[line.kind] += 1
                elif (arc_id := self._arc(line.file_name)) is not None:
                    yield Capture(
                        offset=line.offset,
                        record_type=line.record_type,
                        url=line.url,
                        host=line.host,
                        archived=line.archived,
                        http_status=line.http_status,
                        mime_type=line.mime_type,
                        digest=line.digest,
                        length=None,
                        arc_id=arc_id,
                    )
        except OSError as error:
            self._add(_unreadable(error))

    def _arc(self, file_name: str) -> int | None:
        """Return the row of an archive file; None if it is ambiguous. Commits new rows and names."""
        if file_name not in self._arcs:
            lock_name(self._session, stored_name(file_name))
            arc_id = (
                self._find(file_name)
                if self._archive_dir is None
                else self._seen(absolute(self._archive_dir.joinpath(file_name)), file_name)
            )
            named = update(Arc).where(Arc.id == arc_id, Arc.listed_name.is_distinct_from(file_name))
            self._session.execute(named.values(listed_name=file_name))
            self._session.commit()
            self._arcs[file_name] = arc_id
        return self._arcs[file_name]

    def _find(self, file_name: str) -> int | None:
        name = stored_name(file_name)
        found = self._session.scalars(select(Arc.id).where(Arc.name == name)).all()
        if len(found) > 1:
            reason = f"{len(found)} archive files are named {name!r}; choose one with --archive-dir"
            code = FailureCode.ARCHIVE_NAME_AMBIGUOUS
            self._add(FramingProblem.of(code, reason, name=name, count=len(found)))
            return None
        return found[0] if found else self._new(name, None)

    def _seen(self, path: Container, file_name: str) -> int | None:
        """Return the row of a file in the archive folder, and set its path; the file is still unread."""
        name = stored_name(file_name)
        if presence(stored_path(path)) is not Presence.HERE:
            return self._find(file_name)
        found = self._session.scalar(select(Arc.id).where(Arc.path == stored_path(path)))
        if found is None and (found := find_unplaced(self._session, name, path)) is not None:
            values = {"path": stored_path(path), "size": look_at(path).size}
            self._session.execute(update(Arc).where(Arc.id == found).values(values))
        return found if found is not None else self._new(name, path)

    def _new(self, name: str, path: Place | None) -> int:
        stored = None if path is None else stored_path(path)
        size = 0 if path is None else look_at(path).size
        values = {"name": name, "path": stored, "size": size, "modified": UNREAD}
        return self._session.execute(insert(Arc).values(values).returning(Arc.id)).scalar_one()


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """Options for all files of a run."""

    margin: float
    """Seconds by which new documents are dated ahead (setting `publish_margin`)."""
    collections: tuple[int, ...] = ()
    """Id of the collection for new documents; its ancestors may follow, and are read again."""
    again: bool = False
    """Also read files that have not changed since they were indexed."""
    first_load: bool = False
    """The list indexes have been dropped, and will be rebuilt."""
    archive_dir: Container | None = None
    """The folder of the archive files that CDX files list."""
    content: ContentOptions = field(default_factory=ContentOptions)
    """What is found out from the content of captures."""
    load_id: int | None = None
    """The load that counts what is published; None: it appears in no list of loads."""
    readers: int = CONNECTIONS
    """Connections of one process that read pages ahead, if the indexes have outgrown memory."""


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """The result of indexing one archive file."""

    path: Place
    merged: Merged
    """Counts of documents, and problems by offset."""
    ignored: dict[str, int] = field(default_factory=dict)
    """Valid records that are not documents, by kind."""
    adjusted_dates: int = 0
    """Captures whose dates were cut, padded or converted; see `provider.reading.capture_facts`."""
    indexed: bool = True
    """False if the file could not be indexed at all; its only problem states why."""
    skipped: bool = False
    """Not read because it is unchanged; counts and problems are those of the last indexing."""


Check = Callable[[int], None]
"""Periodically receives the number of bytes read from the file; may raise to stop the work cleanly."""


def _go_on(_: int) -> None:
    """Never stop."""


def index_file(database: Database, path: Place, options: IndexOptions, check: Check = _go_on) -> FileReport:
    """Index one file and commit; return the report, whatever is wrong with the file.

    Raises only what `check` raises, or the database's errors if it cannot be reached.
    """
    with Indexer(database, options) as indexer:
        return indexer.index(path, check)


_FAULTS_OF_A_FILE: Final = (
    psycopg.DataError,
    sqlalchemy.exc.DataError,
    PublishingError,
    CollectionGoneError,
    AlteredMemberError,
    UnicodeError,
)


class Indexer:
    """Indexes files one after the other over one connection, and caches the ids of sets."""

    def __init__(self, database: Database, options: IndexOptions) -> None:
        self._options = options
        self._dimensions = Dimensions()
        self._connection = database.engine.connect()
        self._session = Session(self._connection)
        self._read_ahead = ReadAhead(database, options.readers)
        if not options.first_load:
            refuse_unserved(self._session)
        open_staging(self._session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._read_ahead.close()
        self._session.close()
        # Closed instead of returned to the pool, because it has session settings and temporary tables.
        self._connection.invalidate()
        self._connection.close()

    def index(self, path: Place, check: Check = _go_on) -> FileReport:
        """Index one file and commit; return the report, whatever is wrong with the file.

        Waits while another process indexes the same file; a file that the other process has indexed is
        not read again.
        """
        while (report := self.index_if_free(path, check)) is None:
            check(0)
            time.sleep(_LOOK_AGAIN_SECONDS)
        return report

    def index_if_free(self, path: Place, check: Check = _go_on) -> FileReport | None:
        """Index one file like `index`, but return None immediately if another process is indexing it."""
        with self._held(path) as held:
            return self._index(path, check) if held else None

    @contextlib.contextmanager
    def _held(self, path: Place) -> Iterator[bool]:
        """Lock the file against other processes for the block; yields False if another process holds it.

        The advisory lock belongs to the connection: the server releases it however this process ends.
        """
        digest = hashlib.blake2b(os.fsencode(str(path)), digest_size=4).digest()
        key = {"class": _FILE_CLASS, "key": int.from_bytes(digest, signed=True)}
        held = bool(self._session.scalar(text(_TRY_FILE), key))
        self._session.commit()
        try:
            yield held
        finally:
            if held:
                # A lost connection has released the lock, and its own error is already being raised.
                with contextlib.suppress(sqlalchemy.exc.SQLAlchemyError):
                    self._session.execute(text(_FREE_FILE), key)
                    self._session.commit()

    def _index(self, path: Place, check: Check) -> FileReport:
        session = self._session
        try:
            with patiently():
                file = look_at(path)
                if is_wacz(path):
                    refuse_wacz(path)
        except OSError as error:
            code = getattr(error, "failure_code", FailureCode.ARCHIVE_NOT_READABLE)
            return refused(path, FramingProblem.of(code, f"cannot be opened: {error}"))
        unchanged = None if self._options.again else find_unchanged(session, file)
        if unchanged is not None and not may_replace_lost(session, unchanged):
            merged = Merged(unchanged=unchanged.documents, problems=load_problems(session, unchanged.id))
            session.rollback()
            return FileReport(path=path, merged=merged, skipped=True)
        session.rollback()
        try:
            if path.name.lower().endswith(CDX_SUFFIXES):
                return self._index_list(file, check)
            reading = _Reading(file, self._options.content, check)
            merged = self._publish(file, reading)
        except _FAULTS_OF_A_FILE as error:
            session.rollback()
            code = getattr(error, "failure_code", FailureCode.ARCHIVE_NOT_INDEXED)
            return refused(path, FramingProblem.of(code, f"not indexed: {error}"))
        except BaseException:
            session.rollback()
            raise
        return FileReport(
            path=path,
            merged=merged,
            ignored=dict(reading.ignored),
            adjusted_dates=reading.adjusted_dates,
            indexed=reading.whole,
        )

    def _publish(self, file: ArchiveFile, reading: "_Reading") -> Merged:
        session = self._session
        rule, captures = self._staged(reading)
        captures += stage_more(session, former_answers(session, reading.answers), self._dimensions, rule)

        def change(datestamp: datetime) -> Merged:
            _hold(session, rule)
            assigned = settle(session, file, whole=reading.whole)
            enrolment = self._enrolment()
            merged = merge(session, assigned, captures, datestamp, enrolment)
            self._note_part(datestamp, enrolment)
            drop_empty(session, merged.gone)
            found = sorted((*reading.problems, *merged.problems), key=lambda problem: problem.offset)
            problems = limited_problems(found, reading.more_problems)
            save_problems(session, assigned.arc_id, problems)
            return replace(merged, problems=problems)

        return self._published(change, captures)

    def _index_list(self, file: ArchiveFile, check: Check) -> FileReport:
        """Index the captures that a CDX file lists."""
        session = self._session
        listed = ListedCaptures(session, file, self._options.archive_dir, check)
        rule, captures = self._staged(listed)

        def change(datestamp: datetime) -> Merged:
            _hold(session, rule)
            enrolment = self._enrolment()
            merged = merge_listed(session, captures, datestamp, enrolment)
            self._note_part(datestamp, enrolment)
            return merged

        merged = self._published(change, captures)
        problems = limited_problems((*listed.problems, *merged.problems), listed.more_problems)
        return FileReport(
            path=file.path, merged=replace(merged, problems=problems), ignored=dict(listed.ignored)
        )

    def _published(self, change: Callable[[datetime], Merged], captures: int) -> Merged:
        with self._read_ahead.of_staged(self._session):
            return publish(self._session, change, margin=self._options.margin, rows=captures)

    def _staged(self, captures: Iterable[Capture]) -> tuple[WwwRule, int]:
        """Stage captures; return the rule of their keys, and how many there were."""
        rule = www_rule(self._session)
        return rule, stage(self._session, captures, self._dimensions, rule)

    def _note_part(self, datestamp: datetime, enrolment: Enrolment | None) -> None:
        if self._options.load_id is not None:
            note_part(self._session, self._options.load_id, datestamp, enrolment)

    def _enrolment(self) -> Enrolment | None:
        collections = self._options.collections
        return enrolment(self._session, collections[0]) if collections else None


def _hold(session: Session, rule: WwwRule) -> None:
    if hold_rule(session) is not rule:
        raise PublishingError("the rule of URL keys has changed meanwhile; index the file again")


def refused(path: Place, problem: FramingProblem) -> FileReport:
    """Return the report on a file that cannot be indexed at all."""
    return FileReport(path=path, merged=Merged(problems=(problem,)), indexed=False)


def _unreadable(error: OSError) -> FramingProblem:
    return FramingProblem.of(FailureCode.ARCHIVE_NOT_READABLE, f"cannot be read: {error.strerror or error}")


class _Reading(_Found):
    """The captures of one file; counts everything else that it finds."""

    def __init__(self, file: ArchiveFile, options: ContentOptions, check: Check) -> None:
        super().__init__()
        self._file = file
        self._options = options
        self._check = check
        self.adjusted_dates = 0
        self.answers: list[Capture] = []
        self.whole = True

    def __iter__(self) -> Iterator[Capture]:
        try:
            with self._file.open() as file:
                if isinstance(self._file.path, Member):
                    yield from self._in_wacz(file)
                elif self._file.path.name.lower().endswith(ARCHIVE_SUFFIXES) or begins_as_archive(file):
                    yield from self._captures(file)
                else:
                    self._add(refusal(self._file.path) or _NO_ARCHIVE)
        except OSError as error:
            # A retry may succeed after a fault of the disk or the permissions is fixed.
            self.whole = False
            self._add(_unreadable(error))

    def _in_wacz(self, file: BinaryIO) -> Iterator[Capture]:
        member = WaczMember(self._file)
        for problem in member.problems():
            self._add(problem)
        yield from map(member.titled, self._captures(member.checking(file)))
        member.verify()

    def _captures(self, file: BinaryIO) -> Iterator[Capture]:
        for number, item in enumerate(read_captures(file, self._options)):
            if number % _CHECK_EVERY == 0:
                self._check(getattr(item, "offset", 0))
            if isinstance(item, Capture):
                self.adjusted_dates += item.date_adjusted
                yield item
            elif isinstance(item, Ignored):
                self.ignored[item.kind] += 1
                self.answers += [item.capture] if isinstance(item, IgnoredAnswer) else []
            else:
                self._add(item)
