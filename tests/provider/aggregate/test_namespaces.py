"""The namespace of a source's own identifiers is known without a search through its records."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from oai.database import Database
from tests.plans import work_of
from tests.provider.aggregate.harvested_rows import Harvested
from tests.provider.served import until

pytestmark = pytest.mark.copied_database("rows that plans go through are counted")
MANY = 100
SEARCH = "identifier != "
"""Part of the statement that searches the records for own identifiers."""
EARLIER = "UPDATE aggregate_source SET namespace = NULL"
"""As an earlier version added the source."""


@pytest.fixture
def source(harvested: Harvested) -> Harvested:
    """A source with many records, all with original identifiers."""
    _write(harvested, *map(str, range(MANY)))
    until(lambda: harvested.update() == MANY)
    return harvested


def _write(harvested: Harvested, *names: str) -> None:
    with harvested.database.session() as session:
        for name in names:
            harvested.write(session, name)
        session.commit()


def _own(database: Database) -> list[str]:
    statement = (
        "SELECT identifier FROM aggregate_record WHERE identifier <> harvested_identifier ORDER BY identifier"
    )
    with database.session() as session:
        return list(session.scalars(text(statement)))


def _execute(database: Database, statement: str) -> None:
    with database.session() as session:
        session.execute(text(statement))
        session.commit()


def test_the_first_own_identifier_of_a_source_needs_no_search(source: Harvested) -> None:
    _write(source, "no URI")
    with work_of(source.database, SEARCH) as work:
        until(lambda: source.update() == 1)
    assert work == []
    assert _own(source.database) == [f"oai:{source.settings.provider.namespace}:one:oai:one:no%20URI"]


def test_the_records_of_a_source_of_an_earlier_version_are_searched_once(source: Harvested) -> None:
    _execute(source.database, EARLIER)
    for name, searches in (("no URI", 1), ("no URI either", 0)):
        _write(source, name)
        with work_of(source.database, SEARCH) as work:
            until(lambda: source.update() == 1)
        assert len(work) == searches


def test_a_source_of_an_earlier_version_keeps_the_namespace_of_its_records(source: Harvested) -> None:
    _write(source, "no URI")
    until(lambda: source.update() == 1)
    _execute(source.database, EARLIER)
    provider = source.settings.provider.model_copy(update={"namespace": "other.example"})
    later = replace(source, settings=source.settings.model_copy(update={"provider": provider}))
    _write(later, "no URI either")
    until(lambda: later.update() == 1)
    namespace = source.settings.provider.namespace
    assert [identifier.split(":")[1] for identifier in _own(source.database)] == [namespace, namespace]
