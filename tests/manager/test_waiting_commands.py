"""`zatva job wait`: until a job has ended, or a repository is quiet."""

import json

import pytest
from sqlalchemy.orm import Session

from manager.job_commands import Ended, exit_code_of, job_ended, last_run_if_idle, until
from oai.database import Database
from oai.errors import TryLaterError, UsageError
from tests.commands import Done, zatva
from tests.manager.conftest import Tables


def wait(environment: dict[str, str], *words: str) -> Done:
    return zatva(environment, "job", "wait", *words)


@pytest.mark.parametrize(
    ("status", "failure", "code"),
    [
        ("completed", None, 0), ("no changes", None, 0), ("completed with errors", None, 3),
        ("held", "held", 3), ("failed", "timeout", 4), ("lost", "process_lost", 1),
        ("killed", "process_killed", 130), ("on holiday", None, 1), ("incomplete", "interrupted", 130),
        ("incomplete", "job_stopped", 130), ("incomplete", "job_paused", 130),
        ("incomplete", "manager_ended", 130), ("incomplete", "disconnected", 4),
        ("incomplete", "part_bytes", 4), ("incomplete", None, 4),
    ],
)  # fmt: skip
def test_only_an_interrupted_harvest_has_the_exit_code_of_an_interruption(
    status: str, failure: str | None, code: int
) -> None:
    assert exit_code_of(status, failure) == code


def test_waiting_for_an_ended_job_shows_its_outcome(environment: dict[str, str], tables: Tables) -> None:
    repository = tables.repository()
    tables.add(
        "oai_history",
        repository_id=repository,
        job_id=7,
        status="completed with errors",
        harvest_start_time="now",
    )
    done = wait(environment, "7", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (3, "completed with errors")


def test_a_wait_that_times_out_has_exit_code_75(environment: dict[str, str], tables: Tables) -> None:
    tables.add("oai_job", repository_id=tables.repository())
    assert wait(environment, "--repository", "1", "--timeout", "0.1").returncode == 75
    assert wait(environment, "1", "--timeout", "0.1").returncode == 75


def test_waiting_for_unknown_objects_or_with_wrong_arguments_is_refused(
    environment: dict[str, str], tables: Tables
) -> None:
    tables.repository()
    for words in (("9",), ("--repository", "9"), (), ("1", "--repository", "1")):
        assert wait(environment, *words).returncode == 2


def test_a_repository_without_harvests_is_quiet(environment: dict[str, str], tables: Tables) -> None:
    tables.repository()
    assert wait(environment, "--repository", "1").returncode == 0


@pytest.mark.parametrize("code", ["repository_locked", "repository_busy"])
def test_a_run_that_did_not_start_because_of_a_lock_does_not_count(
    environment: dict[str, str], tables: Tables, code: str
) -> None:
    repository = tables.repository()
    failed = {"repository_id": repository, "status": "failed", "harvest_start_time": "2026-01-01"}
    tables.add("oai_history", **failed, failure_code=code)
    done = wait(environment, "--repository", "1")
    assert (done.returncode, "no harvest has ended yet" in done.stdout) == (0, True)
    tables.add("oai_history", **failed, failure_code="timeout", harvest_end_time="2026-01-01T01:00Z")
    tables.add("oai_history", **failed, failure_code=code)
    done = wait(environment, "--repository", "1")
    assert (done.returncode, "run 2, ended 2026-01-01T01:00:00Z: failed" in done.stdout) == (4, True)


@pytest.mark.parametrize(
    ("status", "due", "quiet"),
    [
        (0, "1 hour", True), (0, "-1 second", False), (1, "-1 second", False), (2, "-1 second", False),
        (3, "-1 second", False), (4, "-1 second", True),
    ],
)  # fmt: skip
def test_a_running_or_due_job_makes_a_repository_busy(
    database: Database,
    tables: Tables,
    status: int,
    due: str,
    quiet: bool,  # noqa: FBT001 a case
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), status=status)
    tables("UPDATE oai_job SET harvest_start_time = now() + CAST(:due AS interval)", due=due)
    with database.session() as session:
        assert (last_run_if_idle(session, 1) is not None) is quiet


def test_waiting_polls_until_the_job_has_ended(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository)
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            tables("DELETE FROM oai_job")
            tables.add(
                "oai_history",
                repository_id=repository,
                job_id=1,
                status="completed",
                harvest_start_time="now",
            )

    ended = until(database, lambda session: job_ended(session, 1), timeout=None, sleep=nap)
    assert (ended.run is not None, naps) == (True, [1.0, 1.0, 1.0])


def test_waiting_times_out_by_the_given_clock(database: Database) -> None:
    moments = iter([0.0, 1.0, 4.9, 5.0])

    def never(session: Session) -> Ended | None:
        del session
        return None

    with pytest.raises(TryLaterError, match="5 seconds"):
        until(database, never, timeout=5, clock=lambda: next(moments), sleep=lambda _: None)


def test_an_unknown_job_is_refused(database: Database) -> None:
    with database.session() as session, pytest.raises(UsageError, match="job 5"):
        job_ended(session, 5)


def test_the_last_run_of_a_quiet_repository_is_its_own(database: Database, tables: Tables) -> None:
    numbers = [tables.repository(f"https://{name}.example/oai") for name in "abc"]
    for number in numbers:
        tables.add("oai_history", repository_id=number, status="completed", harvest_start_time="now")
    with database.session() as session:
        for number in numbers:
            ended = last_run_if_idle(session, number)
            assert ended is not None
            assert ended.run is not None
            assert ended.run.repository_id == number


def test_a_wait_without_a_timeout_is_no_error(environment: dict[str, str], tables: Tables) -> None:
    tables.repository()
    assert wait(environment, "--repository", "1").returncode == 0
