"""Helpers of the manager's tests: a quick manager, plain SQL, and waiting for conditions."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, text

from manager import commands as running
from oai.database import Database
from oai.sections import ManagerSettings
from oai.settings import Settings
from tests.commands import Process, forking
from tests.manager.forked import STAND_IN, fork_from
from tests.reused_database import backends, reused, settings

__all__ = ["backends", "reused", "settings"]
PATIENCE = 60.0
QUICK = {"tick_seconds": 0.1, "retry_minutes": 0.001, "stop_seconds": 10, "lost_seconds": 3, "retries": 2}


class Tables:
    """Plain SQL on the test's database, as users may run it on the public tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self, statement: str, **values: Any) -> list[Row[Any]]:
        with self._database.engine.begin() as connection:
            result = connection.execute(text(statement), values)
            return list(result) if result.returns_rows else []

    def one(self, statement: str, **values: Any) -> Any:
        (row,) = self(statement, **values)
        return row[0]

    def add(self, table: str, **columns: Any) -> None:
        names, marks = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        self(f"INSERT INTO {table} ({names}) VALUES ({marks})", **columns)  # noqa: S608 the tests' own words

    def repository(self, base_url: str = "https://example.org/oai") -> int:
        self.add("oai_repository", base_url=base_url, base_dir="here")
        number: int = self.one("SELECT max(repository_id) FROM oai_repository")
        return number

    def ask_for_notices(self) -> None:
        self.add("notice_rule", channel="mail", target="alena@example.org")

    def notices(self) -> list[tuple[str, str]]:
        """Occasion and reason of each notice."""
        rows = self("SELECT occasion, facts ->> 'failure_reason' AS reason FROM notice ORDER BY notice_id")
        return [(row.occasion, row.reason) for row in rows]

    def history(self) -> list[tuple[str, str]]:
        """Status and format of each ended harvest, in their order."""
        rows = self("SELECT status, metadata_prefix FROM oai_history ORDER BY history_id")
        return [(row.status, row.metadata_prefix) for row in rows]


@pytest.fixture
def tables(database: Database) -> Tables:
    return Tables(database)


@pytest.fixture
def quick(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with short intervals; the processes of the manager's worker are forked."""
    fork_from(forking(), monkeypatch.setattr)
    return settings.model_copy(update={"manager": ManagerSettings(**QUICK)})


@pytest.fixture
def quick_environment(environment: dict[str, str]) -> dict[str, str]:
    """The same settings as environment variables of a process."""
    return environment | {f"ZATVA_MANAGER__{name.upper()}": str(value) for name, value in QUICK.items()}


@contextlib.asynccontextmanager
async def managing(
    settings: Settings, database: Database, command: Sequence[str] | None = None
) -> AsyncIterator[None]:
    """Run a manager in this process while the block lasts."""
    task = asyncio.create_task(running.run(settings, database, command=command or STAND_IN))
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def manager_process(environment: dict[str, str], *command: str) -> AsyncIterator[Process]:
    """Run a manager as a process while the block lasts: with the stand-in harvester, or by this command."""
    module, *words = command or ("tests.manager.manager_process",)
    process = Process(environment, *words, module=module, stdout=sys.__stdout__, stderr=sys.__stderr__)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


async def until(condition: Callable[[], Any], *, patience: float = PATIENCE) -> Any:
    """Wait until the condition returns a true value, and return that value."""
    deadline = time.monotonic() + patience
    while not (given := condition()):
        assert time.monotonic() < deadline, "what was waited for did not come"
        await asyncio.sleep(0.05)
    return given


def rule_files(folder: Path) -> tuple[Path, Path]:
    """Write a valid file of filters and one of mappings."""
    names = "<selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>"
    filters, mappings = folder / "filters.xml", folder / "mappings.xml"
    filters.write_text(f'<filters>{names}<filter xpath="//dc:subject" regexp="a"/></filters>')
    element = '<newElement name="dc:type" regexp="a"><newValue>b</newValue></newElement>'
    mappings.write_text(f'<normalize>{names}<mapping xpath="//dc:type">{element}</mapping></normalize>')
    return filters, mappings


def running_process(tables: Tables) -> int | None:
    """Return the process id of a harvest that runs and handles signals, if there is one."""
    rows = tables(
        "SELECT process_id FROM oai_job JOIN oai_harvest USING (job_id, process_id) WHERE oai_job.status = 1"
    )
    return rows[0].process_id if rows else None


def alive(process_id: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        os.kill(process_id, 0)
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
