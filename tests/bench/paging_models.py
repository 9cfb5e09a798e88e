"""Benchmark of data models for large lists: those of the thesis on today's PostgreSQL, and Zatva's.

The models, what the thesis measured and the results: docs/models.md.
"""

import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, text

from oai.database import open_database
from oai.settings import load_settings
from tests.bench.measuring import mb, ms, say, timed
from tests.bench.paging_readers import COLLECTION, FIRST_HOST, LATE, list_bytes
from tests.bench.paging_tables import (
    MODELS,
    SMALL,
    Model,
    build,
    change,
    create,
    drop,
    enter,
    generate,
    insert,
)
from tests.bench.rows import switch_off_statistics

_PAGE: Final = 200
_ROUNDS: Final = 3
_CHANGES: Final = 50
_SAMPLE: Final = 20
"""Pages of a whole list that are read if any page can be read alone and the list has more."""
_BLOCKS: Final = """
SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0) FROM pg_class
WHERE relnamespace = CAST(:schema AS regnamespace) AND relkind IN ('r', 'i')
"""
_SIZES: Final = """
SELECT coalesce(sum(pg_relation_size(oid)) FILTER (WHERE relkind = 'r'), 0) AS tables,
    coalesce(sum(pg_relation_size(oid)) FILTER (WHERE relkind = 'i'), 0) AS indexes
FROM pg_class WHERE relnamespace = CAST(:schema AS regnamespace)
"""


@dataclass(frozen=True, kw_only=True)
class Read:
    """Medians of a list: seconds and 8 kB blocks of three pages, and the seconds of all pages."""

    seconds: tuple[float, ...]
    blocks: tuple[int, ...]
    whole: float
    estimated: bool
    """Whether `whole` is calculated from a sample of the pages."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One document per transaction: median seconds, and bytes of log for each."""

    seconds: float
    log: float


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one model takes: seconds, bytes, its lists by name, changes."""

    filled: float
    tables: int
    indexes: int
    kept: int
    """Bytes stored while one harvester reads the list of all."""
    lists: dict[str, Read]
    added: Cost
    changed: Cost


def measure(*, documents: int, only: str | None = None) -> None:
    """Print Markdown tables, with a quarter of the documents and with all.

    Temporary files go to TMPDIR; a million documents take about 1 GB there.
    """
    chosen = [model for model in MODELS if only is None or model.name in only.split(",")]
    if not chosen:
        raise SystemExit(f"no model {only!r}; there are: {', '.join(model.name for model in MODELS)}")
    for number in (documents // 4, documents):
        with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
            root = Path(folder)
            root.chmod(0o755)
            with open_database(load_settings(data=root / "data", database_url=None)) as database:
                switch_off_statistics(database)
                # A page image is logged once after each checkpoint, whichever model writes there first.
                _outside(
                    database.engine, "ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()"
                )
                _tell(_measure_all(database.engine, chosen, number), number, database.engine)


def fill(connection: Connection, model: Model, documents: int) -> float:
    """Create and fill the tables of a model, build their indexes, and return the seconds that it took."""

    def work() -> None:
        create(connection, model, documents)
        insert(connection, model, 1, documents)
        build(connection, model)

    return timed(work)


def _measure_all(engine: Engine, chosen: Sequence[Model], documents: int) -> dict[str, Result]:
    with engine.begin() as connection:
        generate(connection, documents, more=_CHANGES)
    results = {}
    for model in chosen:
        sys.stderr.write(f"{model.title}, {documents:,} documents\n")
        results[model.title] = _measure(engine, model, documents)
        with engine.begin() as connection:
            drop(connection, model)
    return results


def _measure(engine: Engine, model: Model, documents: int) -> Result:
    with engine.begin() as connection:
        filled = fill(connection, model, documents)
    _outside(engine, "VACUUM ANALYZE", "CHECKPOINT")
    with engine.connect() as connection:
        tables, indexes = connection.execute(text(_SIZES), {"schema": f"model_{model.name}"}).one()
    lists, kept = {}, 0
    for name, (set_id, size) in _lists(documents).items():
        lists[name] = _read(engine, model, set_id, -(-size // _PAGE))
    if "list_page" in model.tables:
        kept = _kept(engine, model)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Result(
        filled=filled,
        tables=int(tables),
        indexes=int(indexes),
        kept=kept,
        lists=lists,
        added=_cost(
            engine, model, lambda one, number: insert(one, model, documents + number, documents + number)
        ),
        changed=_cost(
            engine,
            model,
            lambda one, number: change(
                one, model, documents * number // (_CHANGES + 1), now + timedelta(seconds=number)
            ),
        ),
    )


def _lists(documents: int) -> dict[str, tuple[int | None, int]]:
    """Return the set and the size of each measured list."""
    return {
        "all": (None, documents),
        "large": (COLLECTION, documents // 3),
        "one harvest": (LATE, documents // 4),
        "small": (FIRST_HOST, SMALL),
    }


def _read(engine: Engine, model: Model, set_id: int | None, pages: int) -> Read:
    rounds = [_three_pages(engine, model, set_id, pages) for _ in range(_ROUNDS)]
    sample = range(0, pages, max(1, pages // _SAMPLE)) if model.reader.counts else range(pages)
    with engine.begin() as connection:
        enter(connection, model)
        reader = model.reader(connection, set_id, _PAGE)

        def work() -> None:
            reader.begin()
            for number in sample:
                if len(sample) < pages:
                    reader.seek(number)
                reader.read()

        taken = timed(work)
    return Read(
        seconds=tuple(statistics.median(one[0][place] for one in rounds) for place in range(3)),
        blocks=tuple(int(statistics.median(one[1][place] for one in rounds)) for place in range(3)),
        whole=taken * pages / len(sample),
        estimated=len(sample) < pages,
    )


def _three_pages(
    engine: Engine, model: Model, set_id: int | None, pages: int
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return the seconds and the blocks of the first, the middle and the last page."""
    seconds, blocks = [], []
    with engine.begin() as connection:
        enter(connection, model)
        reader = model.reader(connection, set_id, _PAGE)
        for number in (0, pages // 2, pages - 1):
            if number:
                reader.seek(number)
            before = _blocks(connection, model)
            begun = timed(reader.begin) if number == 0 else 0.0
            seconds.append(begun + timed(reader.read))
            blocks.append(_blocks(connection, model) - before)
    return tuple(seconds), tuple(blocks)


def _blocks(connection: Connection, model: Model) -> int:
    """Return the blocks that the transaction has read, without those read by parallel workers."""
    return int(connection.scalar(text(_BLOCKS), {"schema": f"model_{model.name}"}) or 0)


def _kept(engine: Engine, model: Model) -> int:
    """Return the bytes of one stored list of all documents."""
    with engine.begin() as connection:
        enter(connection, model)
        connection.execute(text("TRUNCATE list_page"))
        model.reader(connection, None, _PAGE).begin()
        return list_bytes(connection)


def _cost(engine: Engine, model: Model, work: Callable[[Connection, int], None]) -> Cost:
    seconds = []
    with engine.connect() as connection:
        before = _logged(connection)
        for number in range(1, _CHANGES + 1):

            def one(number: int = number) -> None:
                with connection.begin():
                    enter(connection, model)
                    work(connection, number)

            seconds.append(timed(one))
        return Cost(seconds=statistics.median(seconds), log=(_logged(connection) - before) / _CHANGES)


def _logged(connection: Connection) -> float:
    """Return the position in the server's log, in bytes, and end the transaction."""
    with connection.begin():
        return float(connection.scalar(text("SELECT pg_current_wal_insert_lsn() - '0/0'")) or 0)


def _outside(engine: Engine, *statements: str) -> None:
    """Execute statements outside of transactions."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.execute(text(statement))


def _tell(results: dict[str, Result], documents: int, engine: Engine) -> None:
    with engine.connect() as connection:
        version = connection.scalar(text("SHOW server_version"))
    say(f"{documents:,} documents", f"PostgreSQL {version}, {os.cpu_count()} cores, {platform.machine()}")
    say("---", "---")
    say("load of the machine in the last minute", f"{os.getloadavg()[0]:.1f}")
    _gap()
    _tell_sizes(results, documents)
    for name, (_, size) in _lists(documents).items():
        _tell_list(results, name, size)


def _tell_sizes(results: dict[str, Result], documents: int) -> None:
    say(
        f"{documents:,} documents",
        "filled",
        "tables",
        "indexes",
        "bytes per document",
        "stored per harvest",
        "a new document",
        "its log",
        "a change",
        "its log",
    )
    say("---", *["---:"] * 9)
    for title, result in results.items():
        say(
            title,
            f"{result.filled:.1f} s",
            mb(result.tables),
            mb(result.indexes),
            f"{(result.tables + result.indexes) / documents:.0f}",
            mb(result.kept) if result.kept else "none",
            ms(result.added.seconds),
            f"{result.added.log:,.0f} B",
            ms(result.changed.seconds),
            f"{result.changed.log:,.0f} B",
        )
    _gap()


def _tell_list(results: dict[str, Result], name: str, size: int) -> None:
    say(f"{name} ({size:,})", "first page", "middle", "last", "blocks: first", "middle", "last", "whole list")
    say("---", *["---:"] * 7)
    for title, result in results.items():
        read = result.lists[name]
        whole = f"{'≈ ' if read.estimated else ''}{read.whole:,.2f} s"
        say(title, *map(ms, read.seconds), *(f"{count:,}" for count in read.blocks), whole)
    _gap()


def _gap() -> None:
    sys.stdout.write("\n")
