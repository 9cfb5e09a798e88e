"""A lock of a repository: its jobs wait with a reason, queued ones are put back, and it expires."""

from typing import Any

import pytest

from harvester.locks import remove_expired
from manager.job_commands import last_run_if_idle
from manager.jobs.reasons import WaitReason, in_words
from manager.jobs.views import find_job
from manager.leader.dispatcher import launch_due
from manager.models import JobStatus
from manager.worker.claim import claim
from oai.database import Database
from oai.sections import ManagerSettings
from oai.settings import Settings
from tests.manager.conftest import Tables, managing, until

_WAITS = {"code": "locked", "holder": "xpat", "reason": "builds", "until": "2050-01-01T00:00:00Z"}


@pytest.fixture
def locked(tables: Tables) -> int:
    """A repository with a due job, locked for long; another repository has a job as well."""
    number = tables.repository()
    for one in (number, tables.repository("https://other.example/oai")):
        tables.add("oai_job", repository_id=one)
    lock(tables, number, "xpat", "2050-01-01T00:00Z")
    return number


def lock(tables: Tables, number: int, holder: str, expires: str) -> None:
    tables.add("oai_repository_lock", repository_id=number, holder=holder, reason="builds", expires=expires)


def launch(database: Database) -> list[int]:
    with database.session() as session:
        launched = launch_due(session, ManagerSettings())
        session.commit()
        return launched


def waiting(tables: Tables) -> Any:
    return tables.one("SELECT waiting FROM oai_job WHERE job_id = 1")


def test_a_job_of_a_locked_repository_waits_with_holder_reason_and_expiry(
    locked: int, database: Database, tables: Tables
) -> None:
    assert launch(database) == [2]
    assert waiting(tables) == _WAITS
    with database.session() as session:
        shown = find_job(session, 1)
    assert shown is not None
    assert shown.reason is not None
    assert in_words(shown.reason) == "locked by xpat until 2050-01-01T00:00:00Z: builds"
    tables("DELETE FROM oai_repository_lock WHERE repository_id = :number", number=locked)
    assert launch(database) == [1]


def test_of_several_locks_the_last_to_expire_is_shown(
    locked: int, database: Database, tables: Tables
) -> None:
    for holder, expires in (("early", "2049-01-01T00:00Z"), ("past", "2020-01-01T00:00Z")):
        lock(tables, locked, holder, expires)
    launch(database)
    assert waiting(tables) == _WAITS
    lock(tables, locked, "late", "2051-01-01T00:00Z")
    launch(database)
    assert waiting(tables)["holder"] == "late"


def test_a_job_that_was_queued_before_the_lock_is_put_back(database: Database, tables: Tables) -> None:
    number = tables.repository()
    tables.add("oai_job", repository_id=number)
    assert launch(database) == [1]
    lock(tables, number, "xpat", "2050-01-01T00:00Z")
    with database.session() as session:
        assert claim(session, 1, "here", 5) is None
        session.commit()
    assert tables.one("SELECT status FROM oai_job") == JobStatus.SCHEDULED
    assert waiting(tables) == _WAITS
    tables("DELETE FROM oai_repository_lock")
    assert launch(database) == [1]


def test_a_job_that_was_queued_before_a_maintenance_window_is_put_back(
    database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository())
    assert launch(database) == [1]
    tables.add("mute", kind="maintenance", note="upgrade", ends="2050-01-01T00:00Z")
    with database.session() as session:
        assert claim(session, 1, "here", 5) is None
        session.commit()
    assert tables.one("SELECT status FROM oai_job") == JobStatus.SCHEDULED
    assert waiting(tables) == {"code": "maintenance", "until": "2050-01-01T00:00:00Z"}


def test_an_expired_lock_has_no_effect_and_is_removed(
    locked: int, database: Database, tables: Tables
) -> None:
    lock(tables, locked, "other", "2051-01-01T00:00Z")
    tables("UPDATE oai_repository_lock SET expires = now() - interval '1 second' WHERE holder = 'xpat'")
    with database.session() as session:
        assert [row.holder for row in remove_expired(session)] == ["xpat"]
        session.commit()
    assert tables.one("SELECT holder FROM oai_repository_lock") == "other"
    tables("UPDATE oai_repository_lock SET expires = now() - interval '1 second'")
    assert launch(database) == [1, 2]


async def test_the_manager_removes_an_expired_lock_and_logs_it(
    database: Database, tables: Tables, quick: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    lock(tables, tables.repository(), "xpat", "2020-01-01T00:00Z")
    caplog.set_level("INFO", logger="manager.duties")
    async with managing(quick, database):
        await until(lambda: not tables("SELECT FROM oai_repository_lock"))
    expected = "repository 1: removed the lock of xpat, which expired 2020-01-01T00:00:00Z: builds"
    assert expected in caplog.messages


def test_waiting_for_a_locked_repository_ends_although_a_job_is_due(
    locked: int, database: Database, tables: Tables
) -> None:
    with database.session() as session:
        assert last_run_if_idle(session, locked) is not None
        tables("UPDATE oai_job SET status = 1 WHERE job_id = 1")
        session.rollback()
        assert last_run_if_idle(session, locked) is None
        tables("UPDATE oai_job SET status = 0 WHERE job_id = 1")
        tables("DELETE FROM oai_repository_lock")
        session.rollback()
        assert last_run_if_idle(session, locked) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"expires": "infinity"},
        {"expires": "9999-01-01T00:00Z"},
        {"locked": "-infinity"},
        {"holder": ""},
        {"holder": "x" * 201},
        {"reason": ""},
        {"reason": "x" * 2001},
        {"reason": None},
        {"repository_id": 12},
    ],
    ids=str,
)
def test_an_invalid_lock_is_refused(tables: Tables, wrong: dict[str, Any]) -> None:
    row = {"repository_id": tables.repository(), "reason": "builds", **wrong}
    with pytest.raises(Exception, match="oai_repository_lock"):
        tables.add("oai_repository_lock", **row)


def test_a_wait_reason_without_facts_is_written_with_unknown_values() -> None:
    reason = WaitReason.from_json({"code": "locked"})
    assert reason is not None
    assert in_words(reason) == "locked by (unknown) until (unknown): (unknown)"
