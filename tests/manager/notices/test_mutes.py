"""Acknowledged failures, mutes and maintenance windows: what they cover, what is not sent, what waits."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from manager.leader.dispatcher import launch_due
from manager.models import JobStatus, RecurringState
from manager.notices.announcements import notify
from manager.notices.models import MuteKind, Occasion
from manager.notices.mutes import acknowledge, end_mute, list_mutes, mute, report_after_mutes
from oai.database import Database
from oai.errors import UsageError
from oai.sections import ManagerSettings
from tests.manager.conftest import Tables
from tests.manager.notices.conftest import Announcer
from tests.plans import work_of
from web.overview.situation import failed_runs

HOUR = timedelta(hours=1)
_MANY_RUNS = (
    """
    INSERT INTO oai_repository (base_url, base_dir)
    SELECT 'http://' || at || '.example/oai', 'many-' || at FROM generate_series(1, 200) AS at
    """,
    """
    INSERT INTO oai_history (repository_id, harvest_start_time, status, metadata_prefix)
    SELECT repository_id, now(), CASE at WHEN 60 THEN 'failed' ELSE 'completed' END, 'oai_dc'
    FROM generate_series(1, 60) AS at, oai_repository
    """,
    """
    INSERT INTO mute (kind, repository_id, history_id, metadata_prefix, note, made_by)
    SELECT 'acknowledged', repository_id, history_id, metadata_prefix, '', '' FROM oai_history
    WHERE status = 'failed' AND repository_id % 4 <> 0
    """,
    "ANALYZE oai_history, mute",
)


def act(database: Database, work: Callable[[Session], object]) -> None:
    with database.session() as session:
        work(session)
        session.commit()


def shown(database: Database, *, muted: bool = False) -> list[int]:
    with database.session() as session:
        return [one.history_id for one in failed_runs(session, muted=muted).rows]


def later(hours: float = 1) -> datetime:
    return datetime.now(UTC) + hours * HOUR


def test_an_acknowledged_failure_is_hidden_until_it_fails_differently_or_succeeds(
    announcer: Announcer, database: Database
) -> None:
    announcer.rule()
    same = {"failure_code": "host_unknown"}
    first = announcer.run("failed", **same)
    assert announcer.announce() == ["failing"]
    act(database, lambda session: acknowledge(session, first, note="we wrote to them", by="Alena"))
    assert (shown(database), shown(database, muted=True)) == ([], [first])

    announcer.tables("UPDATE notice_streak SET told = now() - interval '25 hours'")
    again = announcer.run("failed", **same)
    assert (announcer.announce(), announcer.states()) == (["still failing"], ["waiting", "muted"])
    assert shown(database, muted=True) == [again]
    assert announcer.tables.one("SELECT last_error FROM notice WHERE state = 'muted'") == (
        "acknowledged: we wrote to them"
    )

    other = announcer.run("failed", failure_code="tls_failed")
    assert (announcer.announce(), shown(database)) == (["still failing"], [other])
    repeated = announcer.run("failed", **same)
    assert shown(database) == [repeated], "it has failed otherwise in between"
    announcer.run("completed")
    assert shown(database) == []
    repeated = announcer.run("failed", **same)
    assert shown(database) == [repeated], "the harvest has succeeded in between"


def test_a_success_of_another_repository_leaves_a_failure_acknowledged(
    announcer: Announcer, database: Database
) -> None:
    run = announcer.run("failed", failure_code="host_unknown")
    announcer.run("completed", repository_id=announcer.tables.repository("https://other.example/oai"))
    act(database, lambda session: acknowledge(session, run))
    assert (shown(database), shown(database, muted=True)) == ([], [run])


@pytest.mark.parametrize(
    ("status", "code", "ends"),
    [
        ("failed", "host_unknown", 0),
        ("failed", "tls_failed", 1),
        ("completed", None, 1),
        ("incomplete", "job_stopped", 0),
    ],
)
def test_an_acknowledgement_ends_with_a_different_failure_or_a_success(
    announcer: Announcer, database: Database, status: str, code: str | None, ends: int
) -> None:
    held = announcer.hold()
    other = announcer.run("failed", failure_code="host_unknown", set_spec="other")
    failed = announcer.run("failed", failure_code="host_unknown")
    with database.session() as session:
        for run in (held, other, failed):
            acknowledge(session, run)
        session.commit()
    announcer.run(status, failure_code=code)
    announcer.announce()
    with database.session() as session:
        left = [row.history_id for row, _ in list_mutes(session, among=None, limit=9)]
    assert left == [failed, other, held][ends:]


def test_a_held_run_needs_attention_until_it_is_decided_or_acknowledged(
    announcer: Announcer, database: Database
) -> None:
    held = announcer.hold()
    announcer.tables("UPDATE oai_history SET harvest_end_time = now() - interval '100 days'")
    announcer.run("no changes", harvest_id=1)
    assert shown(database) == [held]
    act(database, lambda session: acknowledge(session, held))
    assert (shown(database), shown(database, muted=True)) == ([], [held])
    announcer.tables("UPDATE oai_hold SET state = 'superseded'")
    assert shown(database, muted=True) == []


def test_a_run_held_during_a_mute_is_reported_afterwards_although_later_runs_succeed(
    announcer: Announcer, database: Database
) -> None:
    announcer.rule()
    kind = MuteKind.MUTED
    act(database, lambda session: mute(session, announcer.repository, kind, note="moving", ends=later()))
    held = announcer.hold()
    assert (announcer.announce(), announcer.states()) == (["failing"], ["muted"])
    act(database, report_after_mutes)
    assert announcer.states() == ["muted"]
    act(database, lambda session: end_mute(session, 1))
    assert announcer.after("completed", harvest_id=1) == []
    act(database, lambda session: acknowledge(session, held))
    act(database, report_after_mutes)
    assert announcer.states() == ["muted"]
    announcer.tables("DELETE FROM mute WHERE kind = 'acknowledged'")
    act(database, report_after_mutes)
    assert announcer.states() == ["waiting"]


def test_a_schedule_suspended_during_a_mute_is_reported_once_afterwards(
    announcer: Announcer, database: Database
) -> None:
    announcer.rule()
    announcer.tables.add("oai_recurring_job", repository_id=announcer.repository)
    suspended: dict[str, Any] = {"repository_id": announcer.repository, "recurring_id": 1}
    act(database, lambda session: mute(session, None, MuteKind.MUTED, note="moving", ends=later()))
    for _ in range(2):
        act(database, lambda session: notify(session, Occasion.SUSPENDED, **suspended))
    act(database, lambda session: end_mute(session, 1))
    act(database, report_after_mutes)
    assert announcer.states() == ["muted", "muted"], "it was resumed meanwhile"
    announcer.tables("UPDATE oai_recurring_job SET state = :state", state=RecurringState.SUSPENDED)
    act(database, report_after_mutes)
    act(database, report_after_mutes)
    assert announcer.states() == ["muted", "waiting"]


def test_jobs_that_are_still_rejected_or_stuck_after_a_mute_are_reported(
    announcer: Announcer, database: Database
) -> None:
    announcer.rule()
    act(database, lambda session: mute(session, None, MuteKind.MUTED, note="moving", ends=later()))
    for job_id, occasion in ((1, Occasion.STUCK), (2, Occasion.STUCK), (3, Occasion.SET_ASIDE)):
        announcer.tables.add("oai_job", repository_id=announcer.repository)
        about = {"repository_id": announcer.repository, "job_id": job_id}
        act(database, lambda session, occasion=occasion, about=about: notify(session, occasion, **about))  # type: ignore[misc]
    announcer.tables("UPDATE oai_job SET stuck_since = now() WHERE job_id = 2")
    announcer.tables("UPDATE oai_job SET status = :state WHERE job_id = 3", state=JobStatus.SET_ASIDE)
    act(database, lambda session: end_mute(session, 1))
    act(database, report_after_mutes)
    assert announcer.states() == ["muted", "waiting", "waiting"]


@pytest.mark.parametrize("status", ["completed", "no changes"])
def test_only_a_failed_run_can_be_acknowledged(announcer: Announcer, database: Database, status: str) -> None:
    number = announcer.run(status)
    for run in (number, number + 1):
        with pytest.raises(UsageError, match="no failure to acknowledge"):
            act(database, lambda session, run=run: acknowledge(session, run))  # type: ignore[misc]


def test_a_muted_repository_sends_nothing_and_reports_afterwards(
    announcer: Announcer, database: Database
) -> None:
    announcer.rule()
    kind = MuteKind.MUTED
    act(database, lambda session: mute(session, announcer.repository, kind, note="moving", ends=later()))
    first = announcer.run("failed")
    assert (announcer.announce(), announcer.states()) == (["failing"], ["muted"])
    act(database, lambda session: notify(session, Occasion.STUCK, repository_id=announcer.repository))
    assert announcer.states() == ["muted", "muted"]
    assert (shown(database), shown(database, muted=True)) == ([], [first])

    act(database, lambda session: end_mute(session, 1))
    assert shown(database) == [first]
    assert announcer.after("failed") == ["still failing"], "though it is less than a day since"
    assert announcer.states() == ["muted", "muted", "waiting"]


def test_rejected_records_that_begin_during_a_mute_are_reported_once_after_it(
    announcer: Announcer, database: Database
) -> None:
    announcer.rule()
    kind, refused = MuteKind.MUTED, "completed with errors"
    act(database, lambda session: mute(session, announcer.repository, kind, note="moving", ends=later()))
    assert (announcer.after(refused), announcer.states()) == (["failing"], ["muted"])
    act(database, lambda session: end_mute(session, 1))
    assert (announcer.after(refused), announcer.after(refused)) == (["failing"], [])
    assert announcer.states() == ["muted", "waiting"]


def test_a_mute_of_all_repositories_hides_failures_once_it_has_begun(
    announcer: Announcer, database: Database
) -> None:
    run = announcer.run("failed")
    planned = later(1)
    kind = MuteKind.MUTED
    act(database, lambda session: mute(session, None, kind, note="x", starts=planned, ends=later(2)))
    assert shown(database) == [run]
    act(database, lambda session: mute(session, None, kind, note="x", ends=later(2)))
    assert shown(database) == []

    for number in (1, 2):
        act(database, lambda session, number=number: end_mute(session, number))  # type: ignore[misc]
    with database.session() as session:
        rows = list_mutes(session, among=None, limit=9, past=True)
        assert [row.mute_id for row, _name in rows] == [2], "one that never began is removed"
        assert list_mutes(session, among=None, limit=9) == []


@pytest.mark.parametrize(
    ("starts", "ends", "note", "words"),
    [
        (None, later(-1), "x", "in the future"),
        (later(3), later(2), "x", "after the start"),
        (None, later(24 * 91), "x", "90 days"),
        (None, later(), "  ", "note"),
        (None, later(), "x" * 2001, "2000"),
    ],
    ids=["past", "before", "long", "without", "lengthy"],
)
def test_an_invalid_mute_is_refused(
    announcer: Announcer, database: Database, starts: datetime | None, ends: datetime, note: str, words: str
) -> None:
    kind = MuteKind.MUTED
    with database.session() as session, pytest.raises(UsageError) as caught:
        mute(session, announcer.repository, kind, note=note, starts=starts, ends=ends)
    assert words in str(caught.value)


def test_no_harvest_begins_in_a_maintenance_window(
    announcer: Announcer, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=announcer.repository)
    tables.add("oai_job", repository_id=tables.repository("https://other.example/oai"))
    end = later()
    kind = MuteKind.MAINTENANCE
    act(database, lambda session: mute(session, announcer.repository, kind, note="upgrade", ends=end))
    with database.session() as session:
        assert launch_due(session, ManagerSettings()) == [2]
        session.commit()
    assert tables.one("SELECT waiting FROM oai_job WHERE job_id = 1") == {
        "code": "maintenance",
        "until": f"{end:%Y-%m-%dT%H:%M:%SZ}",
    }
    act(database, lambda session: end_mute(session, 1))
    with database.session() as session:
        assert launch_due(session, ManagerSettings()) == [1]


def test_failures_are_listed_without_reading_the_whole_history(database: Database) -> None:
    with database.session() as session:
        for statement in _MANY_RUNS:
            session.execute(text(statement))
        session.commit()
        with work_of(database, "count(*) OVER") as work:
            assert failed_runs(session, muted=True).total == 150
            assert failed_runs(session).total == 50
    assert len(work) == 2
    assert max(work) < 6000
