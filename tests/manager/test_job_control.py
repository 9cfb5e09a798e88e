"""Jobs that are paused, resumed, stopped or killed: their rows and their processes."""

import os
import signal

import pytest

from manager.jobs import views as jobs
from manager.jobs.control import KILL, PAUSE, RESUME, STOP, JobTransition, change_job
from manager.models import JobStatus
from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings
from tests.manager.conftest import Tables, alive, managing, running_process, until

WORDS = {"pause": PAUSE, "resume": RESUME, "stop": STOP, "kill": KILL}
BECOMES = {
    "pause": {0: 4, 2: 4, 1: 5, 7: 5},
    "resume": {4: 0, 5: 1, 8: 0},
    "stop": {1: 3, 5: 3, 7: 3},
    "kill": {1: 6, 3: 6, 5: 6, 7: 6},
}


def change(database: Database, what: JobTransition, number: int = 1) -> JobStatus:
    with database.session() as session:
        status = change_job(session, number, what)
        session.commit()
        return status


@pytest.mark.parametrize("word", BECOMES)
def test_each_change_is_possible_in_its_states_only(database: Database, tables: Tables, word: str) -> None:
    repository = tables.repository()
    for status in JobStatus:
        tables.add("oai_job", repository_id=repository, status=status.value)
    for number, status in enumerate(JobStatus, 1):
        if status in BECOMES[word]:
            assert change(database, WORDS[word], number) == BECOMES[word][status]
        else:
            with pytest.raises(UsageError, match=f"job {number} is"):
                change(database, WORDS[word], number)
    after = [row.status for row in tables("SELECT status FROM oai_job ORDER BY job_id")]
    assert after == [BECOMES[word].get(status, status) for status in JobStatus]


def test_a_change_of_an_unknown_job_is_refused(database: Database) -> None:
    with pytest.raises(UsageError, match="no job 1;"):
        change(database, PAUSE)


async def test_a_paused_harvest_ends_keeps_its_job_and_continues_when_resumed(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_recurring_job", repository_id=tables.repository(), metadata_prefix="long")
    async with managing(quick, database):
        process_id = await until(lambda: running_process(tables))
        assert change(database, PAUSE) is JobStatus.PAUSING
        await until(lambda: tables("SELECT FROM oai_job WHERE status = 4"))
        assert not alive(process_id)
        assert tables.history() == [("incomplete", "long")]
        assert change(database, RESUME) is JobStatus.SCHEDULED
        again = await until(lambda: running_process(tables))
        assert again != process_id
        assert [row.job_id for row in tables("SELECT job_id FROM oai_job")] == [1]
        os.kill(again, signal.SIGKILL)
        # The second run has written no row, and the row of the first one is not mistaken for it.
        await until(lambda: len(tables.history()) == 2)
    assert tables.history()[1] == ("failed", "long")


async def test_a_harvest_that_is_resumed_before_it_has_paused_continues(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="slow_page")
    async with managing(quick, database):
        process_id = await until(lambda: running_process(tables))
        change(database, PAUSE)
        await until(lambda: tables("SELECT FROM oai_harvest WHERE last_error = 'finishing'"))
        change(database, RESUME)
        await until(lambda: running_process(tables) not in {None, process_id})
        assert tables.one("SELECT job_id FROM oai_job") == 1


async def test_a_waiting_job_that_is_paused_does_not_begin(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository())
    assert change(database, PAUSE) is JobStatus.PAUSED
    tables.add("oai_job", repository_id=tables.repository("https://other.example/"))
    async with managing(quick, database):
        await until(lambda: tables.history() and len(tables("SELECT FROM oai_job")) == 1)
        with database.session() as session:
            (view,) = jobs.list_jobs(session)
        assert (view.job_id, view.state, view.under_way) == (1, "paused", False)


async def test_a_stopped_harvest_ends_and_is_not_retried(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with managing(quick, database):
        process_id = await until(lambda: running_process(tables))
        change(database, STOP)
        await until(lambda: not tables("SELECT FROM oai_job"))
        assert not alive(process_id)
    assert tables.history() == [("incomplete", "long")]


async def test_killing_a_job_does_not_wait_for_its_current_page(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="stubborn")
    async with managing(quick, database):
        process_id = await until(lambda: running_process(tables))
        change(database, STOP)
        change(database, KILL)
        await until(lambda: not tables("SELECT FROM oai_job"))
        assert not alive(process_id)
    (row,) = tables("SELECT status, failure_reason FROM oai_history")
    assert (row.status, row.failure_reason[:18]) == ("killed", "the job was killed")


async def test_deleting_the_repository_of_a_running_harvest_ends_its_process(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_recurring_job", repository_id=tables.repository(), metadata_prefix="stubborn")
    hasty = quick.model_copy(update={"manager": quick.manager.model_copy(update={"stop_seconds": 0.2})})
    async with managing(hasty, database):
        process_id = await until(lambda: running_process(tables))
        tables("DELETE FROM oai_repository")
        await until(lambda: not alive(process_id))
        tables.add("oai_job", repository_id=tables.repository("https://other.example/"))
        await until(tables.history)
    assert tables.history() == [("completed", "oai_dc")]


async def test_a_schedule_edited_while_it_runs_is_planned_again_and_runs_once(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add(
        "oai_recurring_job", repository_id=tables.repository(), metadata_prefix="long", frequency="hourly"
    )
    async with managing(quick, database):
        process_id = await until(lambda: running_process(tables))
        tables(
            "UPDATE oai_recurring_job SET frequency = 'every 3 hours', metadata_prefix = 'oai_dc', state = 0"
        )
        await until(lambda: len(tables("SELECT FROM oai_job")) == 2)
        planned = "SELECT metadata_prefix, harvest_start_time > now() AS later FROM oai_job WHERE status = 0"
        assert tuple(tables(planned)[0]) == ("oai_dc", True)
        assert alive(process_id)
        change(database, STOP)
        await until(lambda: len(tables("SELECT FROM oai_job")) == 1)
    assert tables.history() == [("incomplete", "long")]
