"""Flat paging of the aggregate: whatever the set, one range scan of the index for its level."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import event, text

from oai.database import Database
from provider.aggregate.catalogue import entry_page, find_scope, list_size
from provider.protocol.tokens import Position
from tests.provider.aggregate.conftest import begun
from tests.provider.conftest import Kept
from tests.provider.served import until

INDEXES = {
    None: "ix_aggregate_record_page",
    "one": "ix_aggregate_record_source",
    "one:a": "ix_aggregate_membership_page",
    "one:a:b": "ix_aggregate_membership_page",
}
LATER = datetime(2200, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def filled(kept: Kept) -> None:
    database = kept.open()
    harvested = begun(database, kept.settings)
    with database.session() as session:
        for number in range(6):
            harvested.write(session, str(number), sets=["a:b"])
        session.commit()
    # Other transactions on the server, such as its maintenance, delay publishing.
    until(lambda: harvested.update() == 6)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("after", [None, 1])
@pytest.mark.parametrize("set_spec", INDEXES)
def test_a_page_is_one_range_scan_of_its_index(
    kept_database: Database, set_spec: str | None, after: int | None
) -> None:
    sent: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        sent.append((statement, parameters))

    with kept_database.session() as session:
        scope = find_scope(session, 1, set_spec)
        assert scope is not None
        first = entry_page(session, scope, from_=None, until=LATER, after=None, limit=2)
        behind = Position(datestamp=first[0].datestamp, id=first[0].id) if after else None
        event.listen(kept_database.engine, "before_cursor_execute", note)
        page = entry_page(session, scope, from_=first[0].datestamp, until=LATER, after=behind, limit=3)
        event.remove(kept_database.engine, "before_cursor_execute", note)
        assert list_size(session, scope, LATER) == 6
    assert len(page) == 3
    assert page[0].set_specs == ["one:a:b"]
    (statement,) = sent
    limit = next(node for node in _nodes(_plan(kept_database, statement)) if node["Node Type"] == "Limit")
    assert not [node for node in _nodes(limit) if "Sort" in node["Node Type"]]
    (scan,) = [node for node in _nodes(limit) if "Index Name" in node]
    assert scan["Index Name"] == INDEXES[set_spec]
    assert "datestamp" in scan["Index Cond"]
    assert ("ROW(" in scan["Index Cond"]) == (after is not None)


def _plan(database: Database, statement: tuple[str, Any]) -> dict[str, Any]:
    """Return the plan as for many rows; with these few, PostgreSQL would read and sort all of them."""
    with database.engine.connect() as connection:
        for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
            connection.execute(text(f"SET {setting} = off"))
        query, parameters = statement
        explained = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {query}", parameters).scalar_one()
    whole: dict[str, Any] = (json.loads(explained) if isinstance(explained, str) else explained)[0]["Plan"]
    return whole


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)
