"""The demo's generated history: the same each time, and each run states that it never took place."""

from datetime import UTC, datetime

from sqlalchemy import select

from harvester.models import History
from harvester.repositories import add_repository
from oai.database import Database
from zatva.sample import DAYS, write_past

_NOW = datetime(2026, 3, 4, 1, 0, tzinfo=UTC)


def test_every_generated_run_is_marked_as_such_and_sends_no_notice(database: Database) -> None:
    runs = _past(database)
    assert len(runs) == DAYS
    assert all(run.host == "generated" and "never took place" in run.warnings[0] for run in runs)
    assert all(run.announced is not None and run.harvest_end_time < _NOW for run in runs)


def test_the_generated_history_has_good_and_failed_runs_and_ends_with_a_good_one(database: Database) -> None:
    runs = _past(database)
    assert {run.status for run in runs} == {"completed", "no changes", "failed", "incomplete"}
    assert runs[-1].verdict == "complete"
    assert {run.failure_reason is None for run in runs if run.failure_code is None} == {True}
    assert all(run.record_count == run.new_count + run.updated_count + run.deleted_count for run in runs)


def test_the_generated_history_is_the_same_each_time(database: Database) -> None:
    first, second = _past(database), _past(database)
    assert [run.record_count for run in first] == [run.record_count for run in second]


def _past(database: Database) -> list[History]:
    with database.session() as session:
        number = add_repository(session, base_url="http://127.0.0.1/oai").repository_id
        write_past(session, number, _NOW)
        return list(
            session.scalars(
                select(History).where(History.repository_id == number).order_by(History.history_id)
            )
        )
