"""The rows of the workers."""

import pytest

from manager.worker.registry import Membership, drain, is_draining, manager_status, register, unregister
from oai.database import Database
from tests.manager.conftest import Tables


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_a_worker_that_ends_removes_only_its_own_row(database: Database, tables: Tables, ended: int) -> None:
    with database.session() as session:
        numbers = [
            register(session, Membership(host="here", process_id=one, concurrency=1, lost_seconds=60))
            for one in (1, 2, 3)
        ]
        unregister(session, numbers[ended])
        session.commit()
    left = {row.worker_id for row in tables("SELECT worker_id FROM oai_worker")}
    assert left == {*numbers} - {numbers[ended]}


def test_only_the_named_worker_is_drained(database: Database) -> None:
    with database.session() as session:
        numbers = [
            register(session, Membership(host="here", process_id=one, concurrency=1, lost_seconds=60))
            for one in (1, 2, 3)
        ]
        assert drain(session, numbers[1:2]) == numbers[1:2]
        assert [is_draining(session, number) for number in numbers] == [False, True, False]


def test_the_status_of_an_empty_system_counts_nothing(database: Database) -> None:
    with database.session() as session:
        status = manager_status(session)
    assert {*status.jobs.values(), *status.schedules.values()} == {0}
    assert (status.late, status.stuck, status.workers) == (0, 0, ())
