"""Results of imports and of audits of stores are removed after some time."""

from typing import Any

import pytest

from harvester.bibliographic.imports import prune_imports
from manager.leader.lock import Fenced
from manager.leader.loop import Duties
from manager.store_audits import prune_audits
from oai.database import Database
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from tests.manager.conftest import Tables
from tests.manager.notices.conftest import take_over

_OLD = "2000-01-01"


@pytest.fixture
def two(tables: Tables) -> Tables:
    """Two repositories, 1 and 2."""
    for number in (1, 2):
        tables.add("oai_repository", base_url=f"https://{number}.example/oai", base_dir=str(number))
    return tables


def add_import(tables: Tables, repository: int, ended: str | None, state: str, **columns: object) -> None:
    tables.add(
        "bibliographic_import",
        repository_id=repository,
        started_by="harvest",
        ended=ended,
        state=state,
        **columns,
    )


def imports(tables: Tables) -> list[int]:
    return [row.import_id for row in tables("SELECT import_id FROM bibliographic_import ORDER BY 1")]


def test_the_last_imports_of_each_repository_stay(database: Database, two: Tables) -> None:
    add_import(two, 1, _OLD, "completed")
    add_import(two, 1, _OLD, "completed")  # the last one that compared all records
    add_import(two, 1, _OLD, "completed", whole=False)
    add_import(two, 1, _OLD, "no changes", whole=False)  # the last complete one
    add_import(two, 1, _OLD, "failed", whole=False)
    add_import(two, 1, None, "running", whole=False)
    add_import(two, 2, "2999-01-01", "completed")
    add_import(two, 2, "2999-01-02", "completed")
    with database.session() as session:
        assert prune_imports(session, keep_days=730, most=100) == 3
        session.commit()
    assert imports(two) == [2, 4, 6, 7, 8]


def test_not_more_than_the_given_number_of_imports_is_removed_the_oldest_first(
    database: Database, two: Tables
) -> None:
    for _ in range(5):
        add_import(two, 1, _OLD, "completed")
    with database.session() as session:
        assert prune_imports(session, keep_days=730, most=3) == 3
        session.commit()
    assert imports(two) == [4, 5]


def test_the_last_audits_of_each_repository_stay_and_those_not_announced(
    database: Database, two: Tables
) -> None:
    for repository, state, announced in (
        (1, "done", _OLD),
        (1, "failed", _OLD),
        (1, "done", _OLD),
        (1, "failed", _OLD),
        (2, "failed", None),
        (2, "done", "2999-01-01"),
    ):
        two.add(
            "oai_store_audit",
            repository_id=repository, state=state, started=_OLD, ended=_OLD, announced=announced,
        )  # fmt: skip
    with database.session() as session:
        assert prune_audits(session, keep_days=730, most=100) == 2
        session.commit()
    rows = two("SELECT audit_id FROM oai_store_audit ORDER BY audit_id")
    assert [row.audit_id for row in rows] == [3, 4, 5, 6]


@pytest.mark.parametrize(("days", "left"), [(730, [2]), (0, [1, 2])])
async def test_the_leader_removes_old_results_unless_they_are_kept_permanently(
    settings: Settings, database: Database, two: Tables, days: float, left: list[int]
) -> None:
    for _ in range(2):
        add_import(two, 1, _OLD, "completed")
    manager = settings.manager.model_copy(update={"result_days": days})
    kept = settings.model_copy(update={"manager": manager})
    with DatabaseExecutor(database, threads=1, name="manager-database") as transactions:
        fenced = Fenced(transactions, await transactions.run(take_over))
        no_worker: Any = None
        duties = Duties(kept, database, transactions, fenced, no_worker)
        assert duties.remove_results in duties.functions()
        await duties.remove_results()
    assert imports(two) == left
