"""The index of an archive that outgrows memory: rates while it grows, and of captures that are known.

The server reads and writes past the page cache, so that its buffers are all the memory it has. What matters
is the ratio of rows to buffers: 30 million rows with 2 GB, 30,000 in a file, behave as 4 million with 256 MB,
4,000 in a file.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.database import Database, open_database
from oai.embedded import cluster_folder, run_program
from oai.settings import Settings
from provider.holdings.arcs import AssignedRow
from provider.holdings.publication import publish
from provider.indexing.merge import Merged, merge
from provider.indexing.read_ahead import ReadAhead
from provider.indexing.staging import open_staging
from tests.bench.measuring import say

_CAPTURES_OF_A_SITE = 1500
_CAPTURES_OF_A_VISIT = 150
"""So many captures of a site are in the same file, one after the other."""
_STEPS = 10
_KNOWN_EVERY = 10
"""One in so many merges is repeated."""
_ROWS = (
    """
    INSERT INTO domain (set_spec, name, level) VALUES ('domain:cz', 'cz', 1);
    INSERT INTO domain (parent_id, set_spec, name, level)
    SELECT 1, 'domain:cz:site' || n, 'site' || n || '.cz', 2 FROM generate_series(0, :sites - 1) AS n;
    INSERT INTO domain (parent_id, set_spec, name, level)
    SELECT id, set_spec || '\\:www', 'www.' || name, 3 FROM domain WHERE level = 2;
    INSERT INTO mimetype (set_spec, name) VALUES ('mimetype:text', 'text');
    INSERT INTO mimetype (parent_id, set_spec, name) VALUES (1, 'mimetype:text:html', 'text/html')
    """,
    """
    CREATE TABLE bench_host AS
    SELECT split_part(site.name, '.', 1) AS site, site.id AS domain_id, host.id AS host_id,
        CAST(substring(site.name FROM 5 FOR length(site.name) - 7) AS integer) AS place
    FROM domain AS host JOIN domain AS site ON site.id = host.parent_id WHERE host.level = 3;
    ALTER TABLE bench_host ADD PRIMARY KEY (place);
    ANALYZE bench_host
    """,
)
_FILE = """
INSERT INTO arc (path, name, size, modified) VALUES ('/archive/' || :number, :number, 1000000000, now())
RETURNING id
"""
# The sites of a file are neighbours of no order; its captures are of the same time.
_CAPTURES = """
INSERT INTO candidate
SELECT md5(n::text)::uuid, n % :merged * 33333, timestamptz '2007-01-01Z' + n * interval '13 seconds',
    12345, NULL, 1, domain_id, host_id, 1, 2, 200,
    'http://www.' || site || '.cz/section/' || n % 97 || '/page-' || n || '.html?version=' || n % 7,
    'sha1:' || upper(md5(n::text)), 'response', 'The title of page ' || n,
    'cz,' || site || ')/section/' || n % 97 || '/page-' || n || '.html?version=' || n % 7, 12000
FROM generate_series(CAST(:first AS bigint), CAST(:first AS bigint) + :merged - 1) AS n
JOIN bench_host ON place = (
    n / :captures * 7919 + abs(hashint8(n)::bigint) % :of_a_file * 101
) % :sites
"""
_FIGURES = """
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS wal,
    (SELECT sum(reads) FROM pg_stat_io WHERE object = 'relation') AS reads,
    (SELECT sum(writes) FROM pg_stat_io WHERE object = 'relation') AS writes
"""


@dataclass(frozen=True, kw_only=True)
class _Course:
    """The same captures for each load."""

    database: Database
    rows: int
    captures: int
    """Of a file."""
    files: int
    """Merged in a transaction."""
    read_ahead: ReadAhead

    @property
    def sites(self) -> int:
        """How many sites there are: with fewer rows, each has as many captures."""
        return max(self.rows // _CAPTURES_OF_A_SITE, 1)

    def load(self, *, known: bool) -> None:
        """Merge all captures, or some that are known, and print the figures of each tenth."""
        merged = self.captures * self.files
        merges = max(self.rows // merged, _STEPS)
        with self.database.engine.connect() as connection, Session(connection) as session:
            open_staging(session)
            for step in range(_STEPS):
                before, spent = figures(session), 0.0
                first, last = merges * step // _STEPS, merges * (step + 1) // _STEPS
                numbers = range(first, last, _KNOWN_EVERY if known else 1)
                for number in numbers:
                    spent += self._merge(session, number, known=known)
                after, rows = figures(session), len(numbers) * merged
                say(
                    "known again" if known else "new",
                    f"{last * merged:,}",
                    f"{rows / spent:,.0f}",
                    *(f"{(b - a) / rows:,.2f}" for a, b in zip(before, after, strict=True)),
                )

    def _merge(self, session: Session, number: int, *, known: bool) -> float:
        """Merge files at once; return the seconds, without those of making their captures."""
        arc_id, captures = number + 1, self.captures * self.files
        if not known:
            arc_id = session.execute(text(_FILE), {"number": str(number)}).scalar_one()
        session.execute(text("TRUNCATE candidate, fresh, known"))
        values = {"first": number * captures, "merged": captures, "captures": self.captures}
        visits = {"sites": self.sites, "of_a_file": max(self.captures // _CAPTURES_OF_A_VISIT, 1)}
        session.execute(text(_CAPTURES), values | visits)
        session.commit()
        begun = time.monotonic()
        assigned = AssignedRow(arc_id=arc_id, known=known, moved=False)

        def change(dated: object) -> Merged:
            return merge(session, assigned, captures, dated)  # type: ignore[arg-type]

        with self.read_ahead.of_staged(session):
            merged = publish(session, change, margin=3, rows=captures)
        if (merged.unchanged if known else merged.new) != captures:
            raise SystemExit(f"merge {number}: {merged}")
        return time.monotonic() - begun


def figures(session: Session) -> tuple[int, int, int]:
    """Return the bytes of log and the blocks of tables read and written until now.

    Those of other connections' last second may be missing.
    """
    session.execute(text("SELECT pg_stat_force_next_flush()"))
    session.commit()
    row = session.execute(text(_FIGURES)).one()
    session.commit()
    return int(row.wal), int(row.reads), int(row.writes)


@contextlib.contextmanager
def opened(folder: Path, buffers: str, more: Sequence[str]) -> Iterator[Database]:
    """Run a server in the folder whose only memory for files are its buffers."""
    folder.chmod(0o711)
    settings = Settings(data=folder / "data")
    with open_database(settings):
        pass  # the embedded server made its cluster and tables, and has ended
    cluster = cluster_folder(settings.data)
    options = (
        f"-c listen_addresses='' -k '{cluster}' -c shared_buffers={buffers} -c debug_io_direct=data "
        f"-c effective_cache_size={buffers} "
        "-c jit=off -c max_wal_size=4GB -c max_connections=20"
    ) + "".join(f" -c {setting}" for setting in more)
    run_program("pg_ctl", "start", "-w", "-D", str(cluster), "-l", str(cluster / "server.log"), "-o", options)
    try:
        url = SecretStr(f"postgresql://zatva@/zatva?host={cluster}")
        with open_database(Settings(data=settings.data, database_url=url)) as database:
            yield database
    finally:
        run_program("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(cluster))


def measure(
    rows: int, captures: int, files: int, buffers: str, folder: Path | None, more: Sequence[str]
) -> None:
    """Load the rows, and load them again; print rates, log and reads per row for each tenth."""
    say("load", "rows", "rows/s", "WAL bytes a row", "reads a row", "writes a row")
    say("---", "---:", "---:", "---:", "---:", "---:")
    with (
        tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made,
        opened(Path(made), buffers, more) as database,
        contextlib.closing(ReadAhead(database)) as read_ahead,
    ):
        course = _Course(database=database, rows=rows, captures=captures, files=files, read_ahead=read_ahead)
        with database.session() as session:
            for statements in _ROWS:
                for statement in statements.split(";"):
                    session.execute(text(statement), {"sites": course.sites} if ":sites" in statement else {})
            session.commit()
        course.load(known=False)
        course.load(known=True)
