"""The manager as a whole, in this process, with real harvester processes and the real queue."""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from procrastinate.exceptions import ConnectorException
from sqlalchemy.exc import OperationalError

from harvester.harvest.checkpoint import only_harvest
from manager import queue
from manager.commands import serve_worker
from manager.jobs import views as jobs
from manager.jobs.reasons import Code, WaitReason
from manager.leader.dispatcher import launch_due
from manager.schedules import service as schedules
from manager.worker import claim, settlement
from manager.worker.process import host_name
from oai.database import Database
from oai.error_translation import as_zatva_error
from oai.settings import Settings
from tests.manager.conftest import (
    PATIENCE,
    Tables,
    alive,
    managing,
    rule_files,
    running_process,
    until,
)
from tests.manager.forked import STAND_IN

_END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


async def test_a_schedule_inserted_by_plain_sql_is_harvested_once(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_recurring_job", repository_id=tables.repository())
    async with managing(quick, database):
        await until(tables.history)
        await until(lambda: not tables("SELECT FROM oai_job"))
    assert tables.history() == [("completed", "oai_dc")]
    assert tables.one("SELECT state FROM oai_recurring_job") == 2
    assert tables.one("SELECT count(*) FROM procrastinate_jobs") == 0


async def test_a_job_inserted_by_plain_sql_is_harvested_with_its_parameters(
    quick: Settings, database: Database, tables: Tables, tmp_path: Path
) -> None:
    filters, mappings = rule_files(tmp_path)
    tables.add(
        "oai_job", repository_id=tables.repository(), set_spec="-odd set", harvest_method=1,
        harvest_from="2026-01-01", harvest_to="2026-02-01", filter_file_path=str(filters), validation=0,
        normalize_file_path=str(mappings), incremental=False, parse_id=False, files_per_dir=7,
        slice="month",
    )  # fmt: skip
    async with managing(quick, database):
        await until(tables.history)
    evidence = tables.one("SELECT evidence FROM oai_history")
    assert set(evidence["argv"]) == {
        "--repository-id=1", "--job-id=1", "--method=1", "--set-spec=-odd set", "--harvest-from=2026-01-01",
        "--harvest-to=2026-02-01", "--metadata-prefix=oai_dc", f"--filter-file={filters}", "--validation=0",
        f"--normalize-file={mappings}", "--files-per-dir=7", "--no-parse-id", "--full", "--end-with-parent",
        "--slice=month",
    }  # fmt: skip
    assert evidence["data"] == str(quick.data)


async def test_a_recurring_harvest_runs_repeatedly(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_recurring_job", repository_id=tables.repository(), frequency="every 1 second")
    async with managing(quick, database):
        await until(lambda: tables.history().count(("completed", "oai_dc")) >= 3)
    # A due time a second is more than a busy machine keeps up with.
    expected = {"missed", "skipped (overlap)"}
    assert {status for status, _ in tables.history()} - expected == {"completed"}
    assert tables.one("SELECT state FROM oai_recurring_job") == 1


async def test_a_failed_harvest_of_a_schedule_gets_its_next_regular_job(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add(
        "oai_recurring_job", repository_id=tables.repository(), frequency="hourly", metadata_prefix="fail"
    )
    async with managing(quick, database):
        await until(tables.history)
        await until(lambda: tables("SELECT FROM oai_job WHERE status = 0 AND harvest_start_time > now()"))
    assert tables.one("SELECT attempt FROM oai_job") == 0


async def test_a_killed_harvester_is_recorded_as_failed_and_retried(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with managing(quick, database):
        process_id = await until(lambda: running_process(tables))
        os.kill(process_id, signal.SIGKILL)
        await until(tables.history)
        again = await until(lambda: running_process(tables))
        assert again != process_id
        assert tables.one("SELECT attempt FROM oai_job") == 1
        (failed,) = tables("SELECT status, failure_reason, process_id FROM oai_history")
        assert (failed.status, failed.process_id) == ("failed", process_id)
        assert "signal 9" in failed.failure_reason
    assert not alive(again)


async def test_only_temporary_failures_are_retried_as_often_as_configured(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tries = {"usage": 1, "fail": 1, "later": 3, "crash": 3, "import": 3}
    for conduct in tries:
        repository = tables.repository(f"https://{conduct}.example/oai")
        tables.add("oai_job", repository_id=repository, metadata_prefix=conduct)
    async with managing(quick, database):
        await until(lambda: len(tables.history()) == 11 and not tables("SELECT FROM oai_job"))
    assert Counter(conduct for _, conduct in tables.history()) == tries
    query = "SELECT status, failure_reason FROM oai_history WHERE metadata_prefix = 'crash'"
    assert {row.status for row in tables(query)} == {"failed"}
    reasons = {row.failure_reason for row in tables(query)}
    assert all(
        reason.endswith("exit code 1 and wrote no history; its last message was: the disk is full")
        for reason in reasons
    )


async def test_a_harvester_that_cannot_be_started_is_recorded_with_the_reason(
    quick: Settings, database: Database, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.manager.conftest.STAND_IN", ("/no/such/program",))
    tables.add("oai_job", repository_id=tables.repository())
    async with managing(quick, database):
        await until(tables.history)
    reason = tables("SELECT failure_reason FROM oai_history")[0].failure_reason
    assert "could not be started" in reason
    assert "/no/such/program" in reason


async def test_one_repository_is_harvested_by_one_process_at_a_time(
    quick: Settings, database: Database, tables: Tables
) -> None:
    first, second = tables.repository(), tables.repository("https://example.net/oai")
    for repository in (first, first, second):
        tables.add("oai_job", repository_id=repository, metadata_prefix="long")
    async with managing(quick, database):
        both = "SELECT FROM oai_harvest JOIN oai_job USING (job_id, process_id)"
        await until(lambda: len(tables(both)) == 2)
        with database.session() as session:
            views = jobs.list_jobs(session)
        assert [(view.job_id, view.state, view.reason) for view in views] == [
            (1, "running", None),
            (3, "running", None),
            (2, "queued", WaitReason(code=Code.REPOSITORY, facts={"job": 1})),
        ]
        os.kill(views[0].process_id or 0, signal.SIGTERM)
        await until(lambda: tables("SELECT FROM oai_job WHERE job_id = 2 AND status = 1"))
        assert tables("SELECT FROM oai_job WHERE job_id = 1") == []


async def test_removing_a_running_job_or_deleting_its_row_ends_its_process(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with managing(quick, database):
        process_id = await until(lambda: running_process(tables))
        with database.session() as session:
            assert not jobs.remove_job(session, 1)
            session.commit()
        await until(lambda: not tables("SELECT FROM oai_job"))
        assert not alive(process_id)
        assert tables.history() == [("incomplete", "long")]

        tables.add("oai_job", repository_id=1, metadata_prefix="long")
        process_id = await until(lambda: running_process(tables))
        tables("DELETE FROM oai_job")
        await until(lambda: len(tables.history()) == 2)
        await until(lambda: not alive(process_id))
    assert tables("SELECT FROM oai_job") == []


async def test_a_process_that_ignores_the_request_to_stop_is_killed(
    quick: Settings, database: Database, tables: Tables
) -> None:
    hasty = quick.model_copy(update={"manager": quick.manager.model_copy(update={"page_seconds": 0.2})})
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="stubborn")
    async with managing(hasty, database):
        process_id = await until(lambda: running_process(tables))
        tables("UPDATE oai_job SET status = 3")
        await until(lambda: not tables("SELECT FROM oai_job"))
        assert not alive(process_id)
    assert tables.history() == [("killed", "stubborn")]
    (figures,) = tables("SELECT record_count, new_count, invalid_count FROM oai_history")
    assert tuple(figures) == (200, 190, 10)


async def test_child_processes_left_by_a_harvester_are_ended(
    quick: Settings, database: Database, tables: Tables, capfd: pytest.CaptureFixture[str]
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="child")
    async with managing(quick, database):
        await until(lambda: tables.history() and not tables("SELECT FROM oai_job"))
    logged = capfd.readouterr().err
    child = int(logged.split("child ")[1].split()[0])
    await until(lambda: not alive(child))
    process = tables.one("SELECT process_id FROM oai_history")
    assert f"job 1, repository 1, process {process}: child {child}" in logged


async def test_the_log_names_the_run_of_a_job_that_ended(
    quick: Settings, database: Database, tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="manager.worker")
    tables.add("oai_history", repository_id=tables.repository(), status="lost", harvest_start_time="now")
    tables.add("oai_job", repository_id=1, metadata_prefix="fail")
    async with managing(quick, database):
        await until(lambda: any("exit code" in message for message in caplog.messages))
    assert "job 1: ended, exit code 4, run 2" in caplog.messages


async def test_ending_the_manager_ends_its_harvests_and_the_next_manager_resumes_them(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with managing(quick, database):
        process_id = await until(lambda: running_process(tables))
    assert not alive(process_id)
    assert tables.history() == [("incomplete", "long")]
    (again,) = tables("SELECT status, attempt, harvest_start_time <= now() AS due FROM oai_job")
    assert tuple(again) == (0, 0, True)
    async with managing(quick, database):
        await until(lambda: running_process(tables))


async def test_invalid_schedules_are_rejected_and_the_others_are_harvested(
    quick: Settings, database: Database, tables: Tables
) -> None:
    repository = tables.repository()
    for wrong in ({"frequency": "now and then"}, {"time_zone": "Moon"}, {"harvest_from": "yesterday"}):
        tables.add("oai_recurring_job", repository_id=repository, **wrong)
    tables.add("oai_recurring_job", repository_id=repository)
    async with managing(quick, database):
        await until(tables.history)
        set_aside = tables("SELECT state_reason FROM oai_recurring_job WHERE state = 4 ORDER BY id")
        for row, found in zip(set_aside, ("'now and then'", "'Moon'", "'yesterday'"), strict=True):
            assert found in row.state_reason
        tables("UPDATE oai_recurring_job SET frequency = 'hourly', state = 0 WHERE id = 1")
        await until(lambda: tables("SELECT FROM oai_history WHERE recurring_id = 1"))


async def test_run_now_harvests_in_addition_to_the_planned_job(
    quick: Settings, database: Database, tables: Tables
) -> None:
    with database.session() as session:
        schedule = schedules.add_schedule(session, repository_id=tables.repository(), frequency="0 0 1 1 *")
        schedules.run_now(session, schedule.id)
        session.commit()
    async with managing(quick, database):
        await until(tables.history)
        await until(lambda: len(tables("SELECT FROM oai_job WHERE harvest_start_time > now()")) == 1)


async def test_a_job_of_a_dead_manager_is_lost_and_retried(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), status=1, process_id=4194303, host=host_name())
    async with managing(quick, database):
        await until(lambda: len(tables.history()) == 2)
    assert tables.history() == [("lost", "oai_dc"), ("completed", "oai_dc")]


async def test_a_job_is_not_lost_while_a_harvester_elsewhere_runs_it(
    quick: Settings, database: Database, tables: Tables
) -> None:
    repository = tables.repository()
    with only_harvest(database, repository):  # as its process does, on any machine
        tables.add("oai_job", repository_id=repository, status=1, metadata_prefix="long", host="elsewhere")
        async with managing(quick, database):
            tables.add("oai_job", repository_id=tables.repository("https://example.net/"))
            await until(tables.history)
            assert len(tables("SELECT FROM oai_job WHERE job_id = 1 AND status = 1")) == 1
    async with managing(quick, database):
        await until(lambda: ("lost", "long") in tables.history())


async def test_a_manager_continues_after_the_loss_of_its_database_connections(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository())
    async with managing(quick, database):
        await until(tables.history)
        tables(_END_OTHERS)
        tables.add("oai_recurring_job", repository_id=1)
        await until(lambda: len(tables.history()) == 2)


@pytest.mark.copied_database("it changes a setting of the database")
async def test_a_manager_continues_after_its_database_was_temporarily_read_only(
    quick: Settings, database: Database, tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    name = tables.one("SELECT current_database()")
    tables.add("oai_job", repository_id=tables.repository())
    async with managing(quick, database):
        await until(tables.history)
        tables(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        tables(_END_OTHERS)
        await until(lambda: "read-only" in caplog.text)
        writing = "-c default_transaction_read_only=off"
        with psycopg.connect(database.conninfo, options=writing, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
            connection.execute(_END_OTHERS)
        tables.add("oai_job", repository_id=1)
        await until(lambda: len(tables.history()) == 2)
    assert "internal error" not in caplog.text


def _unanswered(work: Callable[..., object], times: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make a transaction of the worker fail that many times for want of an answer; return the attempts."""
    attempts: list[int] = []

    def attempt(*given: object, **named: object) -> object:
        attempts.append(len(attempts))
        if len(attempts) <= times:
            raise OperationalError("SELECT secret", {}, psycopg.OperationalError("in recovery mode"))
        return work(*given, **named)

    monkeypatch.setattr(f"manager.worker.worker.{work.__name__}", attempt)
    return attempts


@pytest.mark.parametrize("work", [claim.note_process, settlement.settle])
async def test_no_job_is_lost_when_the_database_temporarily_does_not_answer(
    quick: Settings,
    database: Database,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    work: Callable[..., object],
) -> None:
    attempts = _unanswered(work, 2, monkeypatch)
    once = quick.model_copy(update={"manager": quick.manager.model_copy(update={"retries": 0})})
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="crash")
    async with managing(once, database):
        await until(tables.history)
        await until(lambda: not tables("SELECT FROM oai_job"))
    assert len(attempts) == 3
    assert tables.history() == [("failed", "crash")]
    warnings = [entry.getMessage() for entry in caplog.records if "does not answer" in entry.getMessage()]
    (warning,) = warnings
    assert warning.startswith("the database does not answer: in recovery mode; Zatva tries again")
    assert not [entry for entry in caplog.records if entry.exc_info]


async def test_no_job_is_lost_when_the_queue_loses_its_database(
    quick: Settings, database: Database, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_job, lost = queue.DrainingJobManager.fetch_job, asyncio.Event()
    after_the_loss: list[bool] = []
    tried = asyncio.Event()

    def settle(*given: Any, **named: Any) -> Any:
        tried.set()
        after_the_loss.append(lost.is_set())
        if after_the_loss.count(True) < 3:
            raise OperationalError("SELECT", {}, psycopg.OperationalError("in recovery mode"))
        return settlement.settle(*given, **named)

    async def fails_once(*given: Any, **named: Any) -> Any:
        if tried.is_set() and not lost.is_set():
            lost.set()
            raise ConnectorException from psycopg.OperationalError("in recovery mode")
        return await fetch_job(*given, **named)

    monkeypatch.setattr("manager.worker.worker.settle", settle)
    monkeypatch.setattr(queue.DrainingJobManager, "fetch_job", fails_once)
    changed = {"retries": 0, "stop_seconds": 0.01, "lost_seconds": 60}
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="crash")
    limits = quick.manager.model_copy(update=changed)
    async with managing(quick.model_copy(update={"manager": limits}), database):
        await until(tables.history)
        await until(lambda: not tables("SELECT FROM oai_job"))
    assert after_the_loss.count(True) == 3
    assert tables.history() == [("failed", "crash")]


@pytest.mark.parametrize("cause", [psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction])
async def test_a_worker_logs_why_the_queue_lost_its_connection_and_tries_again(
    quick: Settings,
    database: Database,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    cause: type[Exception],
) -> None:
    fetch_job, failures = queue.DrainingJobManager.fetch_job, [cause("in recovery mode\nat all")]

    async def fails_once(*given: Any, **named: Any) -> Any:
        if failures:
            raise ConnectorException from failures.pop()
        return await fetch_job(*given, **named)

    monkeypatch.setattr(queue.DrainingJobManager, "fetch_job", fails_once)
    tables.add("oai_job", repository_id=tables.repository())
    async with managing(quick, database):
        await until(tables.history)
    lost = "the connection to the queue's database was lost: in recovery mode; trying again"
    assert lost in caplog.messages


async def test_a_permanent_error_of_the_queue_ends_the_worker(
    quick: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise ConnectorException from psycopg.errors.UndefinedFunction("no function fetch_job")

    monkeypatch.setattr(queue.DrainingJobManager, "fetch_job", fails)
    with pytest.raises(ConnectorException) as found:
        await asyncio.wait_for(serve_worker(quick, database, command=STAND_IN), PATIENCE)
    assert "no function fetch_job" in str(as_zatva_error(found.value))


async def test_the_leader_logs_messages_of_the_database_without_statements(
    quick: Settings, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unanswered(*_: object) -> None:
        raise OperationalError("SELECT secret", {}, psycopg.OperationalError("in recovery mode"))

    monkeypatch.setattr("manager.leader.loop.settle_orphans", unanswered)
    async with managing(quick, database):
        await until(lambda: "the database does not answer: in recovery mode; " in caplog.text)
    assert "secret" not in caplog.text


async def test_a_worker_ends_although_the_database_never_answers_again(
    quick: Settings, database: Database, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = _unanswered(settlement.settle, 10**6, monkeypatch)
    hasty = quick.model_copy(update={"manager": quick.manager.model_copy(update={"stop_seconds": 0.5})})
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with asyncio.timeout(60):
        async with managing(hasty, database):
            await until(lambda: running_process(tables))
    assert len(attempts) > 1


async def test_a_worker_ends_although_the_queue_waits_for_its_database(
    quick: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = asyncio.Event()

    async def waits(*_: object, **__: object) -> None:
        waiting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(queue.DrainingJobManager, "fetch_job", waits)
    async with asyncio.timeout(60), managing(quick, database):
        await waiting.wait()


async def test_a_worker_ends_although_its_queue_has_just_lost_its_database(
    quick: Settings, database: Database, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_job, settling, lost = queue.DrainingJobManager.fetch_job, asyncio.Event(), False
    loop = asyncio.get_running_loop()

    async def fails_once(*given: Any, **named: Any) -> Any:
        nonlocal lost
        if not lost and running_process(tables):
            lost = True
            raise ConnectorException from psycopg.OperationalError("in recovery mode")
        return await fetch_job(*given, **named)

    def settle(*_given: Any, **_named: Any) -> Any:
        loop.call_soon_threadsafe(settling.set)
        raise OperationalError("SELECT", {}, psycopg.OperationalError("in recovery mode"))

    monkeypatch.setattr("manager.worker.worker.settle", settle)
    monkeypatch.setattr(queue.DrainingJobManager, "fetch_job", fails_once)
    hasty = quick.model_copy(update={"manager": quick.manager.model_copy(update={"stop_seconds": 0.5})})
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with asyncio.timeout(60), managing(hasty, database):
        await settling.wait()


async def test_an_embargo_that_has_ended_is_lifted(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add(
        "collection",
        set_spec="collection:a",
        name="A",
        access="embargo",
        embargo_until="2020-01-01T00:00:00Z",
    )
    async with managing(quick, database):
        await until(lambda: tables.one("SELECT access FROM collection") == "open")


async def test_harvests_beyond_the_concurrency_wait_for_the_worker(
    quick: Settings, database: Database, tables: Tables
) -> None:
    narrow = quick.model_copy(update={"manager": quick.manager.model_copy(update={"concurrency": 1})})
    for host in ("a.example", "b.example"):
        tables.add("oai_job", repository_id=tables.repository(f"https://{host}/"), metadata_prefix="long")
    async with managing(narrow, database):
        await until(lambda: running_process(tables) and tables("SELECT FROM oai_job WHERE status = 2"))
        with database.session() as session:
            views = jobs.list_jobs(session)
    assert [(view.state, view.reason) for view in views] == [
        ("running", None),
        ("queued", WaitReason(code=Code.WORKER)),
    ]


async def test_a_worker_runs_queued_jobs_without_a_manager(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository())
    with database.session() as session:
        assert launch_due(session, quick.manager) == [1]
        assert launch_due(session, quick.manager) == []
        session.commit()
    working = asyncio.create_task(serve_worker(quick, database, command=STAND_IN))
    await until(lambda: tables.history() and not tables("SELECT FROM oai_job"))
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
