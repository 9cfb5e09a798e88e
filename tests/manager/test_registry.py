"""The rows of the workers."""

from datetime import timedelta

import pytest

from manager.worker.registry import (
    Membership,
    all_workers,
    drain,
    forget_lost,
    give_sign,
    is_draining,
    manager_status,
    places,
    register,
    unregister,
)
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


@pytest.mark.parametrize(
    ("silent", "life"), [(50, "alive"), (70, "lost"), (190, "gone"), (-50, "alive"), (-190, "gone")]
)
def test_a_worker_is_lost_if_its_last_sign_is_too_far_in_the_past_or_future(
    database: Database, tables: Tables, silent: int, life: str
) -> None:
    membership = Membership(host="here", process_id=1, concurrency=4, lost_seconds=60)
    with database.session() as session:
        number = register(session, membership)
        session.commit()
        silence = timedelta(seconds=silent)
        tables("UPDATE oai_worker SET last_sign = last_sign - :by, good_until = good_until - :by", by=silence)
        assert [worker.lost for worker in all_workers(session)] == [life != "alive"]
        assert places(session) == (4 if life == "alive" else 0)
        assert forget_lost(session) == ([number] if life == "gone" else [])
        give_sign(session, number, membership, draining=False)
        assert [worker.lost for worker in all_workers(session)] == [False]
