"""Harvested records and their change feed that outgrow memory: the same work at a tenth and at full size.

The rows are generated in SQL in the shape that harvests write; the work is done by the functions of harvests
and of the dashboard, page by page, without the repository's answers and without record files.
"""

import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from harvester.harvest.disappearance import ListedRecords, note_seen, stage_disappeared
from harvester.listing import find_records
from harvester.models import Record
from harvester.rule_lab.samples import count_stored
from harvester.store.changes import prune_changes, read_changes
from harvester.store.paths import identifier_digits, place_files, record_path
from harvester.store.records import (
    KnownRecord,
    RecordRow,
    RunKey,
    known_records,
    mark_unchanged,
    write_records,
)
from harvester.vocabulary import Change, RecordStatus
from oai.database import Database
from oai.datestamps import format_datestamp, utc_now
from tests.bench.large_archive import figures, opened
from tests.bench.measuring import ms, say, timed

_PREFIX: Final = "oai_dc"
_SHARES: Final = (400, 200, 120, 80, 60, 50, 40, 25, 15, 10)
"""Of a thousand records, those of each repository."""
_PAGE: Final = 500
_PAGES: Final = 100
"""Pages of a harvest that is measured."""
_LOOKS: Final = 15
"""Pages of a list that is measured, of which the median counts."""
_PIECE: Final = 250_000
_SEED: Final = (
    """
    INSERT INTO oai_repository (base_url, base_dir)
    SELECT 'https://library' || n || '.example/oai', 'library' || n FROM generate_series(1, 10) AS n
    """,
    """
    INSERT INTO oai_harvest (repository_id, metadata_prefix)
    SELECT repository_id, 'oai_dc' FROM oai_repository ORDER BY repository_id
    """,
)
# Into these, a record's key and name are inserted in random order. They are built from sorted ones instead.
_UNIQUE: Final = "uq_oai_record_repository_id_metadata_prefix_identifier_key"
_DROP: Final = (
    f"ALTER TABLE oai_record DROP CONSTRAINT IF EXISTS {_UNIQUE}",
    "DROP INDEX IF EXISTS uq_oai_record_filename",
)
_BUILD: Final = (
    f"""
    ALTER TABLE oai_record
    ADD CONSTRAINT {_UNIQUE} UNIQUE (repository_id, metadata_prefix, identifier_key)
    """,
    """
    CREATE UNIQUE INDEX uq_oai_record_filename ON oai_record (repository_id, md5(lower(filename)))
    WHERE filename IS NOT NULL
    """,
)
_RECORDS: Final = """
INSERT INTO oai_record (record_id, repository_id, metadata_prefix, identifier, identifier_key, filename,
    harvest_time, datestamp, digest, size)
SELECT :offset + n, :repository, 'oai_dc', identifier,
    CAST(substring(encode(sha256(convert_to(identifier, 'UTF8')), 'hex') FOR 32) AS uuid),
    'library' || :repository || '.example/starting_at_' || n / 5000 * 5000 || '/'
        || lpad(n::text, 9, '0') || '.xml',
    now() - interval '2 days',
    to_char(timestamptz '2020-01-01Z' + n * interval '17 seconds', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    sha256(convert_to(identifier, 'UTF8')), 1200 + n % 3000
FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS n
CROSS JOIN LATERAL (
    SELECT 'oai:library' || :repository || '.example:' || lpad(n::text, 9, '0') AS identifier
) AS named ORDER BY n
"""
_SETS: Final = """
INSERT INTO oai_set_mapping (record_id, set_spec)
SELECT record_id, set_spec
FROM generate_series(:offset + CAST(:first AS bigint), :offset + CAST(:last AS bigint)) AS record_id
CROSS JOIN LATERAL (VALUES ('collection:' || record_id % 200), ('type:' || record_id % 5)) AS sets (set_spec)
"""
# As if each page had been a transaction.
_CHANGES: Final = """
INSERT INTO oai_change (transaction_id, repository_id, harvest_id, run_started, identifier, metadata_prefix,
    change, filename, datestamp, changed)
SELECT :transaction + (record_id - :begun) / :page, repository_id, repository_id, :run_started, identifier,
    'oai_dc', 'new', filename, datestamp, :run_started + (record_id - :begun) * interval '1 millisecond'
FROM oai_record WHERE record_id BETWEEN :offset + :first AND :offset + :last ORDER BY record_id
"""
_NEXT_ID: Final = "SELECT coalesce(max(record_id), 0) + 1 FROM oai_record"
_SET_NEXT: Final = "SELECT setval(pg_get_serial_sequence('oai_record', 'record_id'), :next, false)"
_TRANSACTION: Final = "SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)"
_OLDEST: Final = """
SELECT changed FROM oai_change ORDER BY transaction_id, change_id OFFSET :number LIMIT 1
"""
_TRANSACTIONS: Final = """
DO $$ BEGIN FOR n IN 1..{number} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$
"""


@dataclass(kw_only=True)
class _Store:
    """The tables, and how many records of each repository have been generated."""

    database: Database
    filled: list[int] = field(default_factory=lambda: [0] * len(_SHARES))

    def fill(self, records: int) -> None:
        """Generate rows up to this number of records, for each repository by a separate run."""
        with self.database.session() as session:
            for statement in _DROP:
                session.execute(text(statement))
            for repository, share in enumerate(_SHARES, 1):
                self._harvest(session, repository, records * share // 1000)
            for statement in ("SET LOCAL maintenance_work_mem = '256MB'", *_BUILD):
                session.execute(text(statement))
            session.commit()
        with self.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(_TRANSACTIONS.format(number=records // _PAGE + 10)))
            connection.execute(text("VACUUM ANALYZE oai_record, oai_set_mapping, oai_change"))
            connection.execute(text("CHECKPOINT"))

    def _harvest(self, session: Session, repository: int, until: int) -> None:
        begun = session.execute(text(_NEXT_ID)).scalar_one()
        first = self.filled[repository - 1]
        values = {
            "repository": repository,
            "offset": begun - first,
            "begun": begun,
            "transaction": session.execute(text(_TRANSACTION)).scalar_one() + begun // _PAGE,
            "page": _PAGE,
            "run_started": utc_now() - timedelta(days=1),
        }
        for piece in range(first, until, _PIECE):
            bounds = {"first": piece, "last": min(piece + _PIECE, until) - 1}
            for statement in (_RECORDS, _SETS, _CHANGES):
                session.execute(text(statement), values | bounds)
        session.execute(text(_SET_NEXT), {"next": begun + until - first})
        self.filled[repository - 1] = until

    def names(self, repository: int, number: int, *, scattered: bool) -> list[str]:
        """Return identifiers of the repository: neighbours in its list, or from everywhere in it."""
        present = self.filled[repository - 1]
        number = min(number, present)
        first = (present - number) // 2
        chosen = (
            random.Random(number).sample(range(present), number)
            if scattered
            else range(first, first + number)
        )
        return [f"oai:library{repository}.example:{n:09}" for n in chosen]


@dataclass(frozen=True, kw_only=True)
class _Figure:
    """What a row, or a page of a list, costs."""

    is_row: bool
    seconds: float
    log: float
    reads: float
    writes: float
    processor: float
    """Seconds of this process and of its connection to the server, which other work alters less."""

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        if self.is_row:
            rate, cost, digits = f"{1 / self.seconds:,.0f}/s", f"{self.processor * 1e6:,.0f} µs", 2
        else:
            rate, cost, digits = ms(self.seconds), ms(self.processor), 0
        return (rate, cost, f"{self.log:,.0f}", f"{self.reads:,.{digits}f}", f"{self.writes:,.{digits}f}")


@dataclass(kw_only=True)
class _Looks:
    """All measurements of one size."""

    store: _Store
    label: str
    found: dict[str, _Figure] = field(default_factory=dict)

    def pages(
        self, name: str, work: Callable[[Session, Sequence[str]], object], identifiers: Sequence[str]
    ) -> None:
        """Measure the work of a harvest, a transaction for each page."""

        def run() -> None:
            for first in range(0, len(identifiers), _PAGE):
                with self.store.database.session() as session:
                    work(session, identifiers[first : first + _PAGE])
                    session.commit()

        self._note(name, len(identifiers), run)

    def once(self, name: str, rows: int, work: Callable[[Session], object]) -> None:
        """Measure a single action on this number of rows."""

        def run() -> None:
            with self.store.database.session() as session:
                work(session)
                session.commit()

        self._note(name, rows, run)

    def list(self, name: str, work: Callable[[Session, random.Random], object]) -> None:
        """Measure a page of a list at several positions; the result is their median."""
        chance = random.Random(_LOOKS)

        def look() -> None:
            with self.store.database.session() as session:
                work(session, chance)

        before = self._now()
        times = [timed(look) for _ in range(_LOOKS)]
        self._say(name, before, _LOOKS, statistics.median(times), is_row=False)

    def _note(self, name: str, number: int, run: Callable[[], None]) -> None:
        before = self._now()
        self._say(name, before, number, timed(run) / number, is_row=True)

    def _now(self) -> tuple[float, ...]:
        # One session after the other, so that all are of one connection, whose figures are complete.
        with self.store.database.session() as session:
            server = session.execute(text("SELECT pg_backend_pid()")).scalar_one()
            spent = int(Path(f"/proc/{server}/schedstat").read_text().split()[0]) / 1e9
            return (*figures(session), spent + time.process_time())

    def _say(self, name: str, before: Sequence[float], number: int, seconds: float, *, is_row: bool) -> None:
        log, reads, writes, processor = ((b - a) / number for a, b in zip(before, self._now(), strict=True))
        figure = _Figure(
            is_row=is_row, seconds=seconds, log=log, reads=reads, writes=writes, processor=processor
        )
        self.found[name] = figure
        say(name, self.label, *figure.cells())


def _known(session: Session, identifiers: Sequence[str]) -> dict[str, KnownRecord]:
    keys = [identifier_digits(one) for one in identifiers]
    return known_records(session, repository_id=1, metadata_prefix=_PREFIX, keys=keys)


def _mark(session: Session, identifiers: Sequence[str]) -> None:
    """An answer whose records are as they were."""
    known = _known(session, identifiers)
    if len(known) != len(identifiers):
        raise SystemExit(f"{len(known)} of {len(identifiers)} records")
    mark_unchanged(session, [row.record_id for row in known.values()], run_started=utc_now())


def _write(session: Session, identifiers: Sequence[str], run: RunKey) -> None:
    """An answer whose records are new or changed, as far as the database is concerned."""
    known = _known(session, identifiers)
    if known:
        paths = [known[identifier_digits(one)].filename for one in identifiers]
    else:
        new = [record_path(one) for one in identifiers]
        paths = [*place_files(session, new, repository_id=1, files_per_directory=5000)]
    rows = [_row(one, path, known) for one, path in zip(identifiers, paths, strict=True)]
    write_records(session, rows, repository_id=1, metadata_prefix=_PREFIX, now=utc_now(), feed_run=run)


def _row(identifier: str, path: str | None, known: Mapping[str, KnownRecord]) -> RecordRow:
    key = identifier_digits(identifier)
    record_id = known[key].record_id if known else None
    return RecordRow(
        record_id=record_id,
        key=key,
        identifier=identifier,
        filename=path,
        datestamp=format_datestamp(utc_now()),
        status=RecordStatus.ACTIVE,
        change=Change.UPDATED if known else Change.NEW,
        digest=uuid.uuid4().bytes * 2,
        set_specs=(f"collection:{(record_id or 0) % 200}", f"type:{(record_id or 0) % 5}"),
        size=2000,
    )


def _harvest(looks: _Looks) -> RunKey:
    """Measure the pages of harvests; return the last run that added records."""
    number = _PAGE * _PAGES
    order = looks.store.names(1, number, scattered=False)
    looks.pages("full harvest, unchanged for the first time", _mark, order)
    looks.pages("full harvest, unchanged again", _mark, order)
    elsewhere = looks.store.names(1, number, scattered=True)
    looks.pages("the same in another order than stored", _mark, elsewhere)
    run = RunKey(harvest_id=1, run_started=utc_now())
    changed = looks.store.names(1, number + 1, scattered=True)[: number // 5]
    looks.pages("incremental harvest, changed", lambda session, page: _write(session, page, run), changed)
    new = [f"oai:library1.example:{uuid.uuid4()}" for _ in range(number)]
    run = RunKey(harvest_id=1, run_started=utc_now())
    looks.pages("incremental harvest, new", lambda session, page: _write(session, page, run), new)
    return run


def _disappeared(looks: _Looks) -> None:
    """Measure the end of a run of a repository that does not report deletions."""
    run, size = RunKey(harvest_id=10, run_started=utc_now()), looks.store.filled[-1]

    def end(session: Session) -> None:
        ids = select(Record.record_id).where(Record.repository_id == 10)
        note_seen(session, run, session.scalars(ids).all())
        listed = ListedRecords(repository_id=10, metadata_prefix=_PREFIX, set_spec="")
        found = stage_disappeared(session, run, listed, datestamp="")
        if found.disappeared:
            raise SystemExit(f"{found.disappeared} records disappeared")

    looks.once("looking for disappeared records, a record of the repository", size, end)


def _follow(looks: _Looks, run: RunKey) -> None:
    """Measure a page of the change feed, from its ends and its middle, and of one run."""
    with looks.store.database.session() as session:
        first, last = session.execute(text("SELECT min(change_id), max(change_id) FROM oai_change")).one()

    def read(name: str, low: int, high: int, repository: int | None = None, of: RunKey | None = None) -> None:
        def page(session: Session, chance: random.Random) -> None:
            since = chance.randint(low, high)
            lines = read_changes(session, since=since, repository_id=repository, run=of)
            if len(list(islice(lines, _PAGE))) < _PAGE and high < last:
                raise SystemExit(f"{name}: no page after {since}")

        looks.list(name, page)

    middle = (first + last) // 2
    read("feed, from its beginning", 0, 0)
    read("feed, after a line in the middle", middle, middle + 10 * _PAGE)
    read("feed, after one of its last lines", last - 2 * _PAGE, last - _PAGE - 1)
    read("feed, after its last line", last, last)
    read("feed, changes of the last run", 0, 0, of=run)
    read("feed, of a small repository, after one of its last lines", last - 2 * _PAGE, last, repository=10)


def _list(looks: _Looks) -> None:
    """Measure the lists of the dashboard and of the API."""

    def records(**choice: object) -> Callable[[Session, random.Random], object]:
        return lambda session, _: find_records(session, 1, limit=51, **choice)  # type: ignore[arg-type]

    def deep(session: Session, chance: random.Random) -> object:
        after = (_PREFIX, uuid.UUID(int=chance.getrandbits(128)))
        return find_records(session, 1, limit=51, after=after)

    def search(session: Session, chance: random.Random) -> object:
        number = chance.randrange(looks.store.filled[0])
        return find_records(session, 1, limit=51, identifier=f"oai:library1.example:{number:09}")

    looks.list("records of a repository, first page", records(metadata_prefix=_PREFIX))
    looks.list("records of a repository, deep page", deep)
    looks.list("record by its identifier", search)
    counted = looks.store.filled[0]
    looks.once("counting a repository, a record", counted, lambda session: count_stored(session, 1, _PREFIX))


def _prune(looks: _Looks) -> None:
    number = 20_000
    with looks.store.database.session() as session:
        oldest: datetime = session.execute(text(_OLDEST), {"number": number}).scalar_one()
    database = looks.store.database
    looks.once("feed, removing old lines", number, lambda _: prune_changes(database, keep_days=0, now=oldest))


def measure(records: int, buffers: str, folder: Path | None, more: Sequence[str]) -> None:
    """Do the same work with a tenth of the records and with all, and print both and their ratio."""
    say("work", "records", "rate, or time of a page", "processor", "WAL bytes", "reads", "writes")
    say("---", *("---:",) * 6)
    sizes = []
    with (
        tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made,
        opened(Path(made), buffers, more) as database,
    ):
        store = _Store(database=database)
        with database.session() as session:
            for statement in _SEED:
                session.execute(text(statement))
            session.commit()
        for size in (records // 10, records):
            spent = timed(lambda: store.fill(size))  # noqa: B023 called at once
            say("generating the rows", f"{size:,}", f"{spent:,.0f} s", *("",) * 4)
            looks = _Looks(store=store, label=f"{size:,}")
            run = _harvest(looks)
            _disappeared(looks)
            _prune(looks)
            _follow(looks, run)
            _list(looks)
            sizes.append(looks.found)
    say("full size : a tenth", "", "time", "processor", *("",) * 3)
    for name, small in sizes[0].items():
        large = sizes[1][name]
        times = (large.seconds / small.seconds, large.processor / small.processor)
        say(name, "", *(f"{ratio:.2f}" for ratio in times), *("",) * 3)
