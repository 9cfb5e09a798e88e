"""Names of sets are copied from the harvested repositories, and compared only where they may have changed."""

from datetime import datetime

import pytest
from sqlalchemy import text

from oai.database import Database
from provider.aggregate.update import Updater, updater
from tests.plans import work_of
from tests.provider.aggregate.harvested_rows import Harvested

MANY = 2000
SETS = """
INSERT INTO aggregate_set (repository_id, set_spec, harvested_spec, name, lineage)
SELECT 1, 'one:' || n, n, n, '{}' FROM generate_series(1, :number) AS n
"""
LISTED = """
INSERT INTO oai_set (repository_id, set_spec, set_name) SELECT 1, n, n FROM generate_series(1, :number) AS n
"""
REFRESHED = "UPDATE oai_repository SET identified = clock_timestamp()"
NAMES = "SELECT set_spec, name FROM aggregate_set WHERE name <> harvested_spec ORDER BY set_spec"


@pytest.fixture
def compared(harvested: Harvested, database: Database) -> dict[int, datetime | None]:
    """What updates know of a source with many sets, after the first of them."""
    _execute(database, SETS, LISTED, "ANALYZE")
    known: dict[int, datetime | None] = {}
    _update(harvested, known)
    return known


def _execute(database: Database, *statements: str) -> None:
    with database.session() as session:
        for statement in statements:
            session.execute(text(statement), {"number": MANY} if ":number" in statement else {})
        session.commit()


def _update(harvested: Harvested, compared: dict[int, datetime | None] | None) -> None:
    with updater(harvested.database.engine, harvested.settings, compared=compared) as found:
        assert isinstance(found, Updater)
        found.run()


def _names(database: Database) -> list[tuple[str, str]]:
    with database.session() as session:
        return [(set_spec, name) for set_spec, name in session.execute(text(NAMES))]


def test_the_sets_of_a_repository_are_renamed_after_it_was_refreshed(
    harvested: Harvested, database: Database, compared: dict[int, datetime | None]
) -> None:
    before = _names(database)
    _execute(
        database,
        "UPDATE oai_set SET set_name = 'Maps' WHERE set_spec = '7'",
        "UPDATE oai_set SET set_name = '' WHERE set_spec = '8'",
        REFRESHED,
    )
    _update(harvested, compared)
    assert (before, _names(database)) == ([("one", "http://o/")], [("one", "http://o/"), ("one:7", "Maps")])


def test_the_set_of_a_source_has_the_new_name_of_its_repository(
    harvested: Harvested, database: Database, compared: dict[int, datetime | None]
) -> None:
    _execute(database, "UPDATE oai_repository SET repository_name = 'Library'")
    _update(harvested, compared)
    assert _names(database) == [("one", "Library")]


def test_names_that_were_changed_between_two_processes_are_copied_by_the_second(
    harvested: Harvested, database: Database, compared: dict[int, datetime | None]
) -> None:
    assert compared
    _execute(database, "UPDATE oai_set SET set_name = 'Maps' WHERE set_spec = '7'")
    _update(harvested, None)
    assert _names(database) == [("one", "http://o/"), ("one:7", "Maps")]


@pytest.mark.copied_database("rows that plans go through are counted")
def test_the_names_of_sets_are_not_compared_unless_their_repository_was_refreshed(
    harvested: Harvested, database: Database, compared: dict[int, datetime | None]
) -> None:
    with work_of(database, "UPDATE aggregate_set") as work:
        _update(harvested, compared)
    assert work == []
    _execute(database, REFRESHED)
    with work_of(database, "UPDATE aggregate_set") as work:
        _update(harvested, compared)
    assert sum(work) >= MANY
