"""Benchmark of the bibliographic import: rate of importing MARC 21 records, and search times."""

import functools
import os
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import text

from harvester.bibliographic.facets import count_facets
from harvester.bibliographic.search import Search, SearchOrder, search
from oai.database import Database, open_database
from oai.settings import load_settings
from tests.bench.harvest import served
from tests.bench.measuring import WITHOUT_IMPORT, Measured, mb, ms, run, say, timed, zatva

_TIMES = 15
_PAGES = 40
_SEARCHES: Mapping[str, Search] = {
    "one word": Search(text="slovník"),
    "two words, one of them rare": Search(text="kronika bench 4711"),
    "a phrase": Search(text='"dějiny a rukopis"'),
    "a word in one language and century": Search(
        text="divadlo", languages=["slo"], year_from=1900, year_to=1999
    ),
    "an ISBN": Search(identifier="978-80-200-4711-0"),
    "an author by authority id": Search(authority_id="jk00000123"),
    "everything by title": Search(),
}


def measure(*, records: int) -> None:
    """Print Markdown tables: import rates, then search times."""
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        environment = {**os.environ, **WITHOUT_IMPORT, "ZATVA_DATA": str(root / "data")}
        environment.pop("ZATVA_DATABASE_URL", None)
        settings = load_settings(data=root / "data", database_url=None)
        with open_database(settings) as database, served(records, "marc21") as url:
            say(
                f"{records:,} MARC 21 records of 20 fields, {os.cpu_count()} cores",
                "records/s",
                "seconds",
                "peak",
            )
            say("---", "---:", "---:", "---:")
            out = str(root / "out")
            harvest = zatva("harvest", url, "--format", "marc21", "--out", out, "--quiet")
            _tell("`zatva harvest`: files and rows", records, run(environment, *harvest))
            for name, options in (
                ("`zatva import run`: all new", ()),
                ("again, nothing changed", ()),
                ("`--anew`: all converted, nothing changed", ("--anew",)),
            ):
                command = zatva("import", "run", "--repository", "1", "--quiet", *options)
                _tell(name, records, run(environment, *command))
            _measure_searches(database)


def _measure_searches(database: Database) -> None:
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    say("", "", "", "")
    say("search", "found", "page of 50, median", "facets, median")
    say("---", "---:", "---:", "---:")
    with database.session() as session:
        for name, wanted in _SEARCHES.items():
            found = count_facets(session, wanted).total
            page = [timed(functools.partial(search, session, wanted)) for _ in range(_TIMES)]
            facets = [timed(functools.partial(count_facets, session, wanted)) for _ in range(_TIMES)]
            say(name, f"{found:,}", ms(statistics.median(page)), ms(statistics.median(facets)))
        first, last = _first_and_last(database)
        say(f"page {_PAGES} by title against the first", "", f"{last / first:.2f}", "")
        size = session.execute(
            text(
                "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
                " WHERE relname LIKE 'bibliographic%' AND relkind = 'r'"
            )
        ).scalar_one()
    say("tables and indexes", mb(float(size)), "", "")


def _first_and_last(database: Database) -> tuple[float, float]:
    """Return the median seconds for the first page by title and for a deep one."""
    with database.session() as session:
        after = None
        for _ in range(_PAGES):
            after = search(session, Search(), order=SearchOrder.TITLE, after=after).next or after
        times = [
            [
                timed(functools.partial(search, session, Search(), order=SearchOrder.TITLE, after=key))
                for _ in range(_TIMES)
            ]
            for key in (None, after)
        ]
    return statistics.median(times[0]), statistics.median(times[1])


def _tell(name: str, records: int, taken: Measured) -> None:
    say(name, f"{records / taken.seconds:,.0f}", f"{taken.seconds:.1f}", mb(taken.peak))
