"""The rule files with which a run is replayed."""

from pathlib import Path
from typing import Any

import pytest

from harvester.models import History
from manager.replays import RuleFiles, files_as_scheduled
from oai.database import Database
from oai.errors import UsageError
from tests.manager.conftest import Tables


def run(tables: Tables, **columns: Any) -> None:
    tables.add("oai_history", repository_id=1, status="completed", harvest_start_time="now", **columns)


def test_a_run_is_replayed_with_the_rule_files_of_its_own_schedule(
    database: Database, tables: Tables
) -> None:
    repository = tables.repository()
    for name in "ab":
        tables.add("oai_recurring_job", repository_id=repository, filter_file_path=f"/{name}.xml", state=3)
    run(tables, recurring_id=2)
    with database.session() as session:
        files = files_as_scheduled(session, session.get_one(History, 1))
    assert files == RuleFiles(filter_file=Path("/b.xml"))


def test_a_run_without_a_schedule_needs_rule_files(database: Database, tables: Tables) -> None:
    tables.repository()
    run(tables)
    with database.session() as session, pytest.raises(UsageError, match="does not belong to a schedule"):
        files_as_scheduled(session, session.get_one(History, 1))
