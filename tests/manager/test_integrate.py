"""The SQL of docs/how-to/integrate.md and docs/scale.md does what the pages say."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harvester.harvest.checkpoint import only_harvest
from oai.database import Database
from tests.manager.conftest import Tables

_DOCS = Path(__file__).parents[2] / "docs"
_PAGES = (_DOCS / "how-to" / "integrate.md", _DOCS / "scale.md")
_BLOCK = re.compile(r"<!-- tested: (\w+) -->\n```sql\n(.*?)```", re.DOTALL)


def statement(name: str) -> str:
    text = "".join(page.read_text(encoding="utf-8") for page in _PAGES)
    blocks: dict[str, str] = dict(_BLOCK.findall(text))
    return blocks[name]


@pytest.fixture
def three(tables: Tables) -> Tables:
    for number in range(3):
        tables.repository(f"https://example{number}.org/oai")
    return tables


@pytest.mark.parametrize("status", range(9))
def test_a_repository_is_busy_while_one_of_its_jobs_is_under_way(three: Tables, status: int) -> None:
    three.add("oai_job", repository_id=3, status=status, harvest_start_time="2999-01-01T00:00Z")
    assert three.one(statement("quiet")) is (status in (0, 4, 8))


def test_a_repository_is_busy_when_a_harvest_is_about_to_begin(three: Tables) -> None:
    three.add("oai_job", repository_id=2)
    assert three.one(statement("quiet"))
    three.add("oai_job", repository_id=3)
    assert not three.one(statement("quiet"))


def test_a_lock_lasts_for_six_hours_by_default_and_can_be_deleted(three: Tables) -> None:
    three(statement("lock"))
    row = three("SELECT repository_id, holder, expires - locked AS lasts FROM oai_repository_lock")[0]
    assert (row.repository_id, row.holder, row.lasts) == (3, "indexer", timedelta(hours=6))
    three(statement("unlock"))
    assert three.one("SELECT count(*) FROM oai_repository_lock") == 0


@pytest.mark.parametrize("status", range(9))
def test_a_locked_repository_is_idle_when_no_job_is_under_way(three: Tables, status: int) -> None:
    three.add("oai_job", repository_id=3, status=status)
    assert three.one(statement("idle")) is (status in (0, 4, 8))


def test_a_repository_is_not_idle_while_a_harvest_without_a_job_runs(
    three: Tables, database: Database
) -> None:
    with only_harvest(database, 2):
        assert three.one(statement("idle"))
    with only_harvest(database, 3):
        assert not three.one(statement("idle"))
    assert three.one(statement("idle"))


def test_new_runs_are_found_by_the_number_of_the_last_run(three: Tables) -> None:
    for verdict in ("complete", "failed", "partial"):
        three.add(
            "oai_history",
            repository_id=3,
            status="completed",
            verdict=verdict,
            harvest_start_time="now",
            new_count=2,
        )
    assert [row.history_id for row in three(statement("since"))] == [1, 3]
    assert [row.history_id for row in three(statement("since").replace("> 0", "> 1"))] == [3]


def test_the_next_harvest_is_the_first_planned_one(three: Tables) -> None:
    assert three.one(statement("next")) is None
    for year in (2998, 2997):
        three.add("oai_job", repository_id=3, harvest_start_time=f"{year}-01-01T00:00Z")
    assert three.one(statement("next")).year == 2997


_OLD_RUNS: dict[int, dict[str, Any]] = {
    1: {"verdict": "complete"},
    2: {"verdict": "partial", "continued_by": 3},
    3: {"verdict": "complete"},
    4: {"verdict": "complete", "announced": None},
    5: {"verdict": "partial", "continued_by": 6, "raw_path": "raw/1/a.warc.gz"},
    6: {"verdict": "complete"},
    7: {"verdict": "failed"},
    8: {"verdict": "partial"},
    9: {"verdict": "complete", "harvest_end_time": "2999-01-01T00:00Z"},
    10: {"verdict": "failed", "harvest_id": 2},
    11: {"verdict": "failed", "recurring_id": 2},
    12: {"verdict": "complete", "repository_id": 2},
    13: {"verdict": "partial", "repository_id": 2},
    14: {"verdict": "failed", "repository_id": 2},
}


def test_old_runs_are_removed_unless_something_depends_on_them(three: Tables) -> None:
    old = "2000-01-01T00:00Z"
    usual = {"repository_id": 1, "harvest_id": 1, "recurring_id": 1, "status": "any", "announced": old}
    times = {"harvest_start_time": old, "harvest_end_time": old}
    for columns in _OLD_RUNS.values():
        three.add("oai_history", **{**usual, **times, **columns})
    three.add("oai_harvest", repository_id=1, metadata_prefix="oai_dc")
    three.add("oai_hold", history_id=8, harvest_id=1, run_started=old, kind="updates", active=1, allowed=1)
    three(statement("old_runs"))
    rows = three("SELECT history_id FROM oai_history ORDER BY history_id")
    assert [row.history_id for row in rows] == [4, 5, 6, 8, 9, 10, 11, 12, 14]
