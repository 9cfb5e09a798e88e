"""Benchmark of a large provider: flat paging, full harvest, many clients, indexing, bytes per document."""

import os
import platform
import sys
import tempfile
from pathlib import Path

from sqlalchemy import text

from oai.database import Database, open_database
from oai.settings import load_settings
from tests.bench.flatness import measure_flatness
from tests.bench.indexing import measure_indexing
from tests.bench.many_clients import measure_many_clients
from tests.bench.measuring import say
from tests.bench.reading_out import PAGE, measure_reading_out
from tests.bench.rows import fill
from tests.bench.size import measure_size
from tests.end_to_end.processes import running


def measure(*, documents: int, seconds: float, indexed: int) -> None:
    """Print Markdown tables; each target is a ratio within this run.

    `documents` are generated in the tables, `indexed` more from archive files; `seconds` is the duration of
    the load by many clients. Temporary files go to TMPDIR; a million documents take about 0.7 GB.
    """
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        environment = {
            **os.environ,
            "ZATVA_DATA": str(root / "data"),
            "ZATVA_PROVIDER__RECORDS_PER_ANSWER": str(PAGE),
        }
        environment.pop("ZATVA_DATABASE_URL", None)
        settings = load_settings(data=root / "data", database_url=None)
        sizes = settings.provider.model_copy(update={"records_per_answer": PAGE})
        settings = settings.model_copy(update={"provider": sizes})
        with open_database(settings) as database:
            took = fill(database, documents, _note)
            _tell_machine(database, documents, took)
            measure_size(database, documents)
            _gap()
            measure_flatness(database, settings)
            _gap()
            _measure_served(database, environment, root, documents, seconds)
            measure_indexing(environment, root, indexed, documents)


def _measure_served(
    database: Database, environment: dict[str, str], root: Path, documents: int, seconds: float
) -> None:
    with running(
        environment, root / "log", "provider", "serve", "--port", "0", ready="provider at", fresh=True
    ) as (
        provider,
        base_url,
    ):
        measure_reading_out(database, base_url, documents)
        _gap()
        measure_many_clients(base_url, provider.pid, seconds)
        _gap()


def _tell_machine(database: Database, documents: int, took: float) -> None:
    with database.session() as session:
        version = session.scalars(text("SHOW server_version")).one()
    say("machine", "")
    say("---", "---")
    say("cores", str(os.cpu_count()))
    say("processor, system", f"{platform.machine()}, {platform.system()} {platform.release()}")
    say("Python, PostgreSQL", f"{platform.python_version()}, {version} with default settings")
    say("documents in the tables", f"{documents:,}, written and indexed in {took:,.0f} s")
    _gap()


def _note(what: str) -> None:
    sys.stderr.write(f"{what}\n")


def _gap() -> None:
    sys.stdout.write("\n")
