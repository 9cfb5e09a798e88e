"""Updates the aggregate from the harvested records: walks over new sources and follows the change feed.

Each part of the work is one publishing transaction that also stores its position. However the process
ends, no part is half done and the next process continues from there. Repeating a part changes nothing.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from oai.database import make_statistics
from oai.settings import Settings
from provider.aggregate import sources
from provider.aggregate.feed import Follower, horizon, is_lost, walk
from provider.aggregate.formats import Formats
from provider.aggregate.merge import Staged, merge
from provider.aggregate.models import AggregateSource
from provider.aggregate.reader import Gatherer, list_leaving
from provider.aggregate.stored_records import UnreadableRecordError, has_files, read_stored
from provider.holdings.publication import Check, no_check, publish

_TOGETHER: Final = 500

# An index gives them in this order. As a condition of the scan, the time would be tried with every row.
_OLDEST: Final = """
SELECT record_id FROM (
    SELECT record_id, looked_at FROM aggregate_unreadable ORDER BY looked_at NULLS FIRST LIMIT :most
) AS oldest
WHERE looked_at IS NULL OR looked_at < clock_timestamp() - interval '1 minute'
"""
_LOOKED_AT: Final = """
UPDATE aggregate_unreadable SET looked_at = clock_timestamp() WHERE record_id = ANY(:ids)
"""
_DUE: Final = """
SELECT record.id AS record_id, record.repository_id, format.harvested_prefix, record.harvested_identifier,
    current.filename, current.status, repository.base_dir
FROM aggregate_record AS record
JOIN aggregate_format AS format ON format.id = record.format_id
JOIN aggregate_source AS source ON source.repository_id = record.repository_id AND source.withdrawn IS NULL
JOIN oai_repository AS repository ON repository.repository_id = record.repository_id
LEFT JOIN oai_record AS current ON current.repository_id = record.repository_id
    AND current.metadata_prefix = format.harvested_prefix AND current.identifier_key = record.harvested_key
WHERE record.id = ANY(:ids)
"""
_NOTICE: Final = """
INSERT INTO aggregate_unreadable (record_id, reason)
SELECT record.id, noticed.reason
FROM unnest(CAST(:ids AS bigint[]), CAST(:reasons AS text[])) AS noticed(id, reason)
JOIN aggregate_record AS record ON record.id = noticed.id AND NOT record.deleted
ON CONFLICT (record_id) DO UPDATE SET reason = excluded.reason
"""
# In the order of the lists.
_NOTICE_FOLDERS: Final = """
INSERT INTO aggregate_unreadable (record_id, reason)
SELECT record.id, CAST(:base AS text) || record.filename || ': No such file or directory'
FROM aggregate_record AS record
WHERE record.repository_id = :repository_id AND NOT record.deleted
    AND record.filename ^@ ANY(CAST(:folders AS text[]))
    AND NOT EXISTS (SELECT FROM aggregate_unreadable AS known WHERE known.record_id = record.id)
ORDER BY record.format_id, record.datestamp, record.id
LIMIT :most
ON CONFLICT DO NOTHING
"""
_OF_FOLDERS: Final = 100_000
"""Maximum number of records that one statement notices; the next refused page leads to the others."""
_NEW: Final = """
SELECT looked_at IS NULL FROM aggregate_unreadable ORDER BY looked_at NULLS FIRST LIMIT 1
"""
_READABLE: Final = "DELETE FROM aggregate_unreadable WHERE record_id = ANY(:ids)"
LOCK: Final = 0x7A_61_67_67  # "zagg": one process publishes at a time
_FEED_TOGETHER: Final = 2000
"""Maximum number of records per transaction."""
_JOINED: Final = (
    "oai_record",
    "oai_set_mapping",
    "aggregate_record",
    "aggregate_membership",
    "aggregate_unreadable",
)


def notice_unreadable(session: Session, reasons: Mapping[int, str]) -> None:
    """Record the ids of records whose files could not be read for a request. The caller commits."""
    ids = sorted(reasons)
    session.execute(text(_NOTICE), {"ids": ids, "reasons": [reasons[number] for number in ids]})


@dataclass(frozen=True, kw_only=True)
class Reread:
    """Records whose files were read again."""

    settled: Sequence[Row[Any]]
    """Those whose base directory is there."""
    readable: Collection[int]
    """Ids of those that need no file, or have a readable one."""


@dataclass(frozen=True, kw_only=True)
class Rereader:
    """Reads unreadable files again, each at most once a minute. For use in one update."""

    session: Session
    store: Path
    """The folder that relative base directories are resolved against."""
    together: int
    """Maximum number of records that are read at a time."""
    lost: set[tuple[int, str]] = field(default_factory=set)
    """Folders that this update found missing, by repository, with a slash at the end."""

    def any_new(self) -> bool:
        """Return whether there are records that no update has tried to read yet."""
        return bool(self.session.scalar(text(_NEW)))

    def read_due(self) -> Reread | None:
        """Read the due records, and commit; None if none is due.

        Files may be slow, and publishing has to be short: they are not read in its transaction. If the
        folder of one of them is missing, all other records of that folder are due, too: otherwise each page
        of the list would be refused for those of its own.
        """
        oldest = self.session.scalars(text(_OLDEST), {"most": self.together}).all()
        if not oldest:
            return None
        rows = self.session.execute(text(_DUE), {"ids": oldest}).all()
        self.session.execute(text(_LOOKED_AT), {"ids": oldest})
        self.session.commit()
        settled = [row for row in rows if has_files(self.store / row.base_dir)]
        readable = {row.record_id for row in settled if self._is_settled(row)}
        self._notice_folders([row for row in settled if row.record_id not in readable])
        return Reread(settled=settled, readable=readable)

    def take(self, gatherer: Gatherer, reread: Reread) -> list[Staged]:
        """Return the records that were read, staged to be listed or not depending on the result.

        If a whole base directory is missing, for example because a disk is not mounted, its records are
        unchanged. A record that is now published under another identifier is staged as deleted.
        """
        self.session.execute(text(_READABLE), {"ids": list(reread.readable)})
        settled = sorted(reread.settled, key=_format)
        found = [
            staged
            for (repository_id, prefix), group in groupby(settled, key=_format)
            for staged in gatherer.named(
                self.session.get_one(AggregateSource, repository_id), prefix, _identifiers(list(group))
            )
        ]
        return [*found, *gatherer.renamed([row.record_id for row in settled], found)]

    def _is_settled(self, row: Row[Any]) -> bool:
        """Return whether the record needs no file, or has a readable one."""
        if row.status != "active":
            return True
        if row.filename is None:
            return False
        try:
            read_stored(self.store / row.base_dir, row.filename, row.harvested_identifier)
        except UnreadableRecordError:
            return False
        return True

    def _notice_folders(self, unreadable: Sequence[Row[Any]]) -> None:
        """Record the other records in missing folders of these files as unreadable, and commit."""
        folders: dict[tuple[int, str], list[str]] = {}
        for row in unreadable:
            folder = _missing_folder(self.store / row.base_dir, row.filename or "")
            if folder is not None and (row.repository_id, folder) not in self.lost:
                self.lost.add((row.repository_id, folder))
                folders.setdefault((row.repository_id, row.base_dir), []).append(folder)
        for (repository_id, base_dir), names in folders.items():
            values = {"repository_id": repository_id, "base": f"{self.store / base_dir}/", "folders": names}
            self.session.execute(text(_NOTICE_FOLDERS), {**values, "most": _OF_FOLDERS})
        self.session.commit()


def _missing_folder(base: Path, filename: str) -> str | None:
    """Return the uppermost missing folder above the file, with a slash at the end; None if all exist."""
    missing = [folder for folder in PurePosixPath(filename).parents if not (base / folder).is_dir()]
    return f"{missing[-1]}/" if missing else None


def _format(row: Row[Any]) -> tuple[int, str]:
    return row.repository_id, row.harvested_prefix


def _identifiers(rows: Sequence[Row[Any]]) -> set[str]:
    return {row.harvested_identifier for row in rows}


@dataclass(frozen=True, kw_only=True)
class Updated:
    """The result of an update."""

    records: int
    """Number of listed records that changed, including those that are not listed any more."""


@contextlib.contextmanager
def updater(
    engine: Engine,
    settings: Settings,
    check: Check = no_check,
    compared: dict[int, datetime | None] | None = None,
) -> Iterator["Updater | None"]:
    """Yield the only updater among all processes for the block; None if another process has the lock.

    `check` is called between two parts of the work and may raise to end it. `compared` is what earlier
    updates know of the sources (`sources.Identified`), and is kept up to date; without it, the names of all
    sets are compared.
    """
    with engine.connect() as connection:
        # A session-level lock of the connection that does the work: if the connection is lost, so is the
        # lock, and no second updater can start while this one can still write.
        free = connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": LOCK})
        connection.commit()
        if not free:
            yield None
            return
        try:
            with Session(connection) as session:
                known = {} if compared is None else compared
                yield Updater(session=session, settings=settings, check=check, compared=known)
        finally:
            _free(connection)


def _free(connection: Connection) -> None:
    """Release the lock immediately: the server notices a closed connection only a little later."""
    with contextlib.suppress(SQLAlchemyError):
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": LOCK})
        connection.commit()
    # If that failed, closing the connection releases the lock.
    connection.invalidate()


@dataclass(frozen=True, kw_only=True)
class Updater:
    """Updates the aggregate in one session, whose connection holds the lock. Commits."""

    session: Session
    settings: Settings
    check: Check = no_check
    together: int = _FEED_TOGETHER
    compared: dict[int, datetime | None] = field(default_factory=dict)
    """See `updater`."""

    def run(self) -> Updated:
        """Do all outstanding work."""
        if sources.feed(self.session) is None:
            self.session.rollback()
            return Updated(records=0)
        self._prepare()
        rereader = Rereader(
            session=self.session, store=self.settings.store, together=min(_TOGETHER, self.together)
        )
        records, end = 0, horizon(self.session)
        walks = deque(self._walks())
        while walks:
            number = self._step(walks[0])
            if number is None:
                walks.popleft()
            else:
                records += number
                walks.rotate(-1)
            # Walks may take hours: changes of other sources and deleted files do not wait for their end.
            end = horizon(self.session)
            records += (self._step(partial(self._follow, end)) or 0) + self._reread(rereader)
        while (number := self._step(partial(self._follow, end))) is not None:
            records += number
        records += self._reread(rereader)
        # A lost folder has many. Those that are tried again wait for the next update.
        while rereader.any_new():
            records += (self._step(partial(self._follow, end)) or 0) + self._reread(rereader)
        return Updated(records=records)

    def _step(self, step: Callable[[], int | None]) -> int | None:
        self.check()
        return step()

    def _prepare(self) -> None:
        """Apply changes to sources, and ensure that following the feed misses no change."""
        identified = sources.refresh_sources(self.session, self.compared)
        Formats(session=self.session, store=self.settings.store).name_unknown()
        keep_days = self.settings.harvester.keep_changes
        if not keep_days:
            sources.begin_walks_without_feed(self.session)
        elif sources.end_walks_without_feed(self.session) or is_lost(self.session, timedelta(days=keep_days)):
            sources.walk_everything(self.session)
            sources.follow_from_here(self.session)
        self.session.commit()
        self.compared.update(identified)

    def _walks(self) -> Iterator[Callable[[], int | None]]:
        walking = select(AggregateSource.repository_id).where(AggregateSource.walk.is_not(None))
        for repository_id in self.session.scalars(walking.order_by(AggregateSource.repository_id)).all():
            yield partial(self._walk, repository_id)
        self.session.rollback()

    def _follow(self, end: int) -> int | None:
        """Process the next lines of the feed; None if there are none below the horizon `end`."""
        follower = Follower(session=self.session, together=self.together, horizon=end)
        if not follower.any_lines():
            follower.note_end()
            return None

        def change(datestamp: datetime) -> int:
            return merge(self.session, follower.take(self._gatherer()), datestamp)

        return self._publish(change)

    def _walk(self, repository_id: int) -> int | None:
        """Continue a source's walk; None when it has ended."""
        if not self._prepare_piece(repository_id):
            return None

        def change(datestamp: datetime) -> int:
            source = self.session.get_one(AggregateSource, repository_id, populate_existing=True)
            return merge(self.session, walk(self._gatherer(), source, self.together), datestamp)

        return self._publish(change)

    def _prepare_piece(self, repository_id: int) -> bool:
        """Return whether the walk continues. Lists leaving records here: publishing has to be short."""
        source = self.session.get_one(AggregateSource, repository_id, populate_existing=True)
        if source.walk in {sources.GONE, sources.WITHDRAWAL}:
            withdrawn = source.walk == sources.WITHDRAWAL
            if not list_leaving(self.session, repository_id, withdrawn=withdrawn):
                source.walk = None
        goes_on = source.walk is not None
        self.session.commit()
        return goes_on

    def _reread(self, rereader: Rereader) -> int:
        """Retry records that could not be read."""
        self.check()
        reread = rereader.read_due()
        if reread is None:
            self.session.rollback()
            return 0
        return self._publish(
            lambda datestamp: merge(self.session, rereader.take(self._gatherer(), reread), datestamp)
        )

    def _gatherer(self) -> Gatherer:
        return Gatherer(
            session=self.session,
            store=self.settings.store,
            namespace=self.settings.provider.namespace,
        )

    def _publish(self, change: Callable[[datetime], int]) -> int:
        # Each part enlarges the tables, and the next part joins with them.
        make_statistics(self.session.get_bind().engine, *_JOINED)
        margin = self.settings.provider.publish_margin
        return publish(self.session, change, margin=margin, rows=self.together)
