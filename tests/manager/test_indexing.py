"""Archive files go through the task queue to workers, each file to one, and none is lost with its worker."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from procrastinate.exceptions import ConnectorException
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from manager import queue as tasks
from manager.commands import serve_worker
from manager.worker.process import ProcessOutcome
from manager.worker.queued_process import ProcessWorker, in_words
from oai.database import Database
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from tests import commands
from tests.commands import Done
from tests.manager.conftest import Tables, manager_process, managing, until
from tests.provider.archives import Page, warc_record, write_archive, write_pages
from tests.provider.storage.object_store import object_store

_WORKER = ("zatva", "worker", "--quiet")

STATES = "SELECT state FROM index_file ORDER BY id"


def zatva(environment: dict[str, str], *arguments: str | Path) -> Done:
    return commands.zatva(environment, "provider", *arguments)


def queue(environment: dict[str, str], *arguments: str | Path) -> dict[str, Any]:
    done = zatva(environment, "index", "--queue", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def states(tables: Tables) -> list[str]:
    return [row.state for row in tables(STATES)]


@contextlib.asynccontextmanager
async def working(settings: Settings, database: Database) -> AsyncIterator[None]:
    task = asyncio.create_task(serve_worker(settings, database))
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_queued_files_are_indexed_by_a_worker_with_their_collection(
    quick: Settings, database: Database, tables: Tables, environment: dict[str, str], tmp_path: Path
) -> None:
    for name in ("a.warc.gz", "b.warc.gz"):
        write_pages(tmp_path / "in" / name, [Page(url=f"http://{name}.example/")])
    write_archive(tmp_path / "in" / "c.warc", [b"garbage\n", warc_record(Page(url="http://c.example/"))])
    output = queue(environment, tmp_path / "in", "--collection", "crawl")
    assert output == {"run_id": 1, "files": 3}
    assert states(tables) == ["waiting"] * 3
    async with working(quick, database):
        await until(lambda: set(states(tables)) == {"done"})
    assert tables.one("SELECT documents FROM collection WHERE set_spec = 'collection:crawl'") == 3
    assert tables.one("SELECT sum(new) FROM load_part JOIN load USING (load_id) WHERE run_id = 1") == 3
    assert tables.one("SELECT count(*) FROM procrastinate_jobs") == 0
    (row,) = tables("SELECT * FROM index_file WHERE path LIKE '%c.warc'")
    assert (row.new, row.problems, row.reason, row.failure_code, row.tries) == (1, 1, None, None, 1)
    assert row.host
    status = json.loads(zatva(environment, "status", "--json").stdout)
    (run,) = status["runs"]
    assert (run["run_id"], run["done"], run["new"], run["problems"]) == (1, 3, 3, 1)
    assert run["bytes_done"] == run["bytes_total"] > 0
    shown = zatva(environment, "status", "--run", "1", "--json")
    assert [json.loads(line)["state"] for line in shown.stdout.splitlines()] == ["done"] * 3
    assert shown.returncode == 3


async def test_an_object_is_indexed_although_its_store_fails_temporarily(
    quick: Settings, database: Database, tables: Tables, environment: dict[str, str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    content = write_pages(tmp_path / "a.warc.gz", [Page(url="http://a.example/")]).read_bytes()
    with object_store() as store:
        url = store.put("queued/a.warc.gz", content)
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        queue({**environment, **store.environment()}, url)
        store.faults.status, store.faults.answers = 503, 2
        async with working(quick, database):
            await until(lambda: states(tables) == ["done"])
    (row,) = tables("SELECT path, new, size FROM index_file")
    assert tuple(row) == (url, 1, len(content))


async def test_the_managers_own_worker_indexes_files(
    quick: Settings, database: Database, tables: Tables, environment: dict[str, str], tmp_path: Path
) -> None:
    queue(environment, write_pages(tmp_path / "a.warc.gz", [Page(url="http://a.example/")]))
    async with managing(quick, database):
        await until(lambda: states(tables) == ["done"])


async def test_a_missing_file_fails_with_the_reason(
    quick: Settings, database: Database, tables: Tables, environment: dict[str, str], tmp_path: Path
) -> None:
    path = write_pages(tmp_path / "a.warc.gz", [Page(url="http://a.example/")])
    queue(environment, path)
    path.unlink()
    async with working(quick, database):
        await until(lambda: states(tables) == ["failed"])
    (row,) = tables("SELECT reason, failure_code, failure_facts FROM index_file")
    assert "cannot be opened" in row.reason
    assert (row.failure_code, row.failure_facts) == ("archive_not_readable", {})
    shown = zatva(environment, "status", "--run", "1").stdout
    assert "The archive file is missing, or cannot be opened or read. Check its path" in shown


async def test_a_file_whose_process_fails_is_retried_and_then_fails(
    quick: Settings, database: Database, tables: Tables, environment: dict[str, str], tmp_path: Path
) -> None:
    queue(environment, write_pages(tmp_path / "a.warc.gz", [Page(url="http://a.example/")]))
    # The process fails each time, because the collection belongs to imports of titles.
    tables("INSERT INTO collection (set_spec, name, from_titles) VALUES ('collection:titles', 'T', true)")
    tables("UPDATE index_run SET collection = 'collection:titles'")
    async with working(quick, database):
        await until(lambda: states(tables) == ["failed"])
    (row,) = tables("SELECT tries, reason, failure_code FROM index_file")
    assert (row.tries, row.failure_code) == (3, "archive_process_lost")
    assert "ended with exit code 2" in row.reason
    assert "belongs to imports of titles" in row.reason


async def test_queued_files_follow_a_renamed_collection_and_fail_for_a_removed_one(
    quick: Settings, database: Database, tables: Tables, environment: dict[str, str], tmp_path: Path
) -> None:
    for name, collection in (("moved", "closed:sub"), ("removed", "gone")):
        path = write_pages(tmp_path / f"{name}.warc.gz", [Page(url=f"http://{name}.example/")])
        queue(environment, path, "--collection", collection)
    for command in (("access", "closed", "withheld"), ("move", "closed", "renamed"), ("drop", "gone")):
        assert zatva(environment, "collection", *command).returncode == 0
    async with working(quick, database):
        await until(lambda: states(tables) == ["done", "failed"])
    assert tables.one("SELECT access FROM document") == "withheld"
    assert tables.one("SELECT documents FROM collection WHERE set_spec = 'collection:renamed:sub'") == 1
    (row,) = tables("SELECT tries, reason, failure_code FROM index_file WHERE state = 'failed'")
    assert (row.tries, row.failure_code) == (1, "archive_collection_gone")
    assert row.reason == "not indexed: collection 'collection:gone' does not exist (any more)"
    shown = zatva(environment, "status", "--run", "2").stdout
    assert "set the access rule of that collection first" in shown
    assert "collection add" not in shown


async def test_the_file_of_a_killed_worker_is_indexed_by_another(
    quick: Settings, database: Database, tables: Tables, quick_environment: dict[str, str], tmp_path: Path
) -> None:
    queue(quick_environment, write_pages(tmp_path / "a.warc.gz", [Page(url="http://a.example/")]))
    with database.engine.connect() as blocker:
        # Every process that indexes blocks here.
        blocker.exec_driver_sql("LOCK TABLE document IN ACCESS EXCLUSIVE MODE")
        async with manager_process(quick_environment, *_WORKER) as process:
            await until(lambda: states(tables) == ["running"])
            process.kill()
            await asyncio.to_thread(process.wait)
    async with working(quick, database):
        await until(lambda: states(tables) == ["done"])
    assert tables.one("SELECT tries FROM index_file") == 2
    assert tables.one("SELECT count(*) FROM document") == 1


@pytest.mark.parametrize("loses", [False, True])
async def test_a_file_waits_again_when_its_worker_ends_or_its_queue_loses_the_database(
    quick: Settings,
    database: Database,
    tables: Tables,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    loses: bool,
) -> None:
    queue(environment, write_pages(tmp_path / "a.warc.gz", [Page(url="http://a.example/")]))
    fetch_job, defer_files = tasks.DrainingJobManager.fetch_job, tasks.defer_files
    lost, failures = list[int](), [0, 1] if loses else []

    async def fails_once(*given: Any, **named: Any) -> Any:
        if loses and not lost and states(tables) == ["running"]:
            lost.append(0)
            raise ConnectorException from psycopg.OperationalError("in recovery mode")
        return await fetch_job(*given, **named)

    def unanswered(*given: Any, **named: Any) -> None:
        if failures:
            raise OperationalError("SELECT", {}, psycopg.OperationalError(f"attempt {failures.pop()}"))
        defer_files(*given, **named)

    monkeypatch.setattr(tasks.DrainingJobManager, "fetch_job", fails_once)
    monkeypatch.setattr(tasks, "defer_files", unanswered)
    limits = quick.manager.model_copy(update={"stop_seconds": 0.01 if loses else 0.5, "lost_seconds": 300})
    with database.engine.connect() as blocker:
        blocker.exec_driver_sql("LOCK TABLE document IN ACCESS EXCLUSIVE MODE")
        async with working(quick.model_copy(update={"manager": limits}), database):
            await until(lambda: tables("SELECT state, tries FROM index_file") == [("running", 1 + loses)])
    assert (states(tables), failures) == (["waiting"], [])
    assert "ended" in tables.one("SELECT reason FROM index_file")
    async with working(quick, database):
        await until(lambda: states(tables) == ["done"])


async def test_a_row_is_returned_if_its_worker_is_cancelled_while_it_claims_the_row(
    settings: Settings, database: Database
) -> None:
    begun, go_on, put_back = threading.Event(), threading.Event(), list[int]()

    def claim(_session: Session, _number: int, _host: str) -> bool:
        begun.set()
        return go_on.wait(60)

    def give_back(_session: Session, number: int, _reason: str, *, at_fault: bool) -> None:
        assert not at_fault
        put_back.append(number)

    with DatabaseExecutor(database, threads=2, name="worker") as transactions:
        worker = ProcessWorker(
            settings,
            transactions,
            command=("sleep", "600"),
            what="row",
            claim=claim,
            settle=give_back,
            ends=lambda: True,
        )
        work = asyncio.create_task(worker.run(7))
        await asyncio.to_thread(begun.wait, 60)
        work.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert put_back == [7]


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("ends", [False, True])
async def test_a_row_is_settled_when_the_database_answers_again_unless_the_worker_ends(
    quick: Settings, database: Database, *, cancelled: bool, ends: bool
) -> None:
    tried = threading.Semaphore(0)
    attempts, answers, ended = list[bool](), threading.Event(), threading.Event()

    def give_back(_session: Session, _number: int, _reason: str, *, at_fault: bool) -> None:
        attempts.append(at_fault)
        tried.release()
        if not answers.is_set():
            raise OperationalError("UPDATE", {}, psycopg.OperationalError("in recovery mode"))

    hasty = quick.model_copy(
        update={"manager": quick.manager.model_copy(update={"stop_seconds": 0.01, "lost_seconds": 0.01})}
    )
    with DatabaseExecutor(database, threads=2, name="worker") as transactions:
        worker = ProcessWorker(
            hasty,
            transactions,
            command=("false",),
            what="row",
            claim=lambda *_: True,
            settle=give_back,
            ends=ended.is_set,
        )
        work = asyncio.create_task(worker.run(7))
        for _ in range(3):
            assert await asyncio.to_thread(tried.acquire, timeout=60)
        if cancelled:  # by a queue that has lost its database
            work.cancel()
            assert await asyncio.to_thread(tried.acquire, timeout=60)
        assert worker.numbers == {7}
        (ended if ends else answers).set()
        error = OperationalError if ends else asyncio.CancelledError
        with pytest.raises(error) if ends or cancelled else contextlib.nullcontext():
            await asyncio.wait_for(work, 60)
    assert not worker.numbers
    assert set(attempts) == {True}


async def test_a_file_that_another_worker_has_taken_over_stays_with_it(
    quick: Settings, database: Database, tables: Tables, environment: dict[str, str], tmp_path: Path
) -> None:
    queue(environment, write_pages(tmp_path / "a.warc.gz", [Page(url="http://a.example/")]))
    with database.engine.connect() as blocker:
        blocker.exec_driver_sql("LOCK TABLE document IN ACCESS EXCLUSIVE MODE")
        hasty = quick.model_copy(update={"manager": quick.manager.model_copy(update={"stop_seconds": 0.5})})
        async with working(hasty, database):
            await until(lambda: states(tables) == ["running"])
            tables("UPDATE index_file SET host = 'elsewhere'")
    assert states(tables) == ["running"]


def test_options_that_conflict_with_the_queue_are_refused(
    environment: dict[str, str], tmp_path: Path
) -> None:
    write_pages(tmp_path / "a.warc.gz", [Page(url="http://a.example/")])
    for option in (["--jobs", "2"], ["--first-load"]):
        done = zatva(environment, "index", "--queue", *option, tmp_path)
        assert done.returncode == 2
        assert option[0] in done.stderr
    (tmp_path / "empty").mkdir()
    assert queue(environment, tmp_path / "empty")["files"] == 0
    assert zatva(environment, "status", "--run", "7").returncode == 2


@pytest.mark.parametrize(
    ("exit_code", "expected"), [(-9, "was ended by signal 9"), (3, "ended with exit code 3")]
)
def test_the_reason_is_the_signal_or_the_exit_code(exit_code: int, expected: str) -> None:
    reason = in_words(ProcessOutcome(exit_code=exit_code, stderr="first\nlast\n"))
    assert reason.endswith(f" {expected}; its last message was: last")
