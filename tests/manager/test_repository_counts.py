"""How many records are stored beside how many were offered."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from harvester.models import History, Record, Repository
from harvester.store.paths import identifier_key
from harvester.vocabulary import RunStatus
from manager import repository_counts
from manager.repository_counts import RepositoryCounts, count_records
from oai.database import Database
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, Item, many, serve
from tests.harvester.library import Library
from tests.web.rows import a_repository, a_run

_ENDED = {"end": "empty token", "lists": 1, "complete_list_size": None}


@pytest.fixture
async def library(database: Database, settings: Settings, tmp_path: Path) -> AsyncIterator[Library]:
    async with serve(FakeRepository(items=many(25), now="2024-06-01T12:00:00Z")) as fake:
        yield Library(database, settings, fake, tmp_path / "out")


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    with database.session() as opened:
        a_repository(opened)
        yield opened


def _records(session: Session, count: int, **columns: Any) -> None:
    for number in range(count):
        identifier = f"{columns}:{number}"
        values = {"metadata_prefix": "oai_dc", "datestamp": "2026-01-01", **columns}
        key = identifier_key(identifier)
        session.add(Record(repository_id=1, identifier=identifier, identifier_key=key, **values))
    session.flush()


def _run(session: Session, listed: int, **columns: Any) -> History:
    evidence = _ENDED | columns.pop("evidence", {})
    repository = session.get_one(Repository, 1)
    return a_run(session, repository, record_count=listed, evidence=evidence, **columns)


def _offered(counts: RepositoryCounts) -> dict[str, int | None]:
    return {one.metadata_prefix: one.offered.records if one.offered else None for one in counts.formats}


async def test_a_harvest_is_counted_with_what_it_rejected_and_what_is_deleted(
    library: Library,
) -> None:
    library.fake.items.append(Item(identifier="oai:a:gone", deleted=True))
    library.fake.items.append(Item(identifier="oai:a:broken", metadata="<dc>\x0b</dc>"))
    await library.run()

    with library.database.session() as session:
        counts = count_records(session, library.repository_id)

    (one,) = counts.formats
    assert (counts.whole, one.metadata_prefix, one.active, one.deleted) == (True, "oai_dc", 25, 1)
    assert one.offered is not None
    assert (one.offered.records, one.offered.rejected, one.offered.filtered) == (27, 1, 0)


def test_stored_records_are_counted_by_format_and_state(session: Session) -> None:
    _records(session, 3)
    _records(session, 1, status="deleted")
    _records(session, 2, metadata_prefix="marc21")

    counts = count_records(session, 1)

    found = [(one.metadata_prefix, one.active, one.deleted, one.offered) for one in counts.formats]
    assert found == [("marc21", 2, 0, None), ("oai_dc", 3, 1, None)]


def test_the_last_complete_list_is_neither_a_list_of_changes_nor_a_set_nor_a_sample(session: Session) -> None:
    _run(session, 500)
    wanted = _run(session, 400, invalid_count=20, repeated_count=10, filtered_count=5)
    _run(session, 3)
    _run(session, 0, status=RunStatus.NO_CHANGES)
    _run(session, 900, set_spec="maps")
    _run(session, 800, verdict="partial", status=RunStatus.INCOMPLETE)
    _run(session, 800, verdict="partial", evidence={"end": "sample"})
    _run(session, 70, metadata_prefix="marc21", evidence={"complete_list_size": 72})

    counts = count_records(session, 1)

    assert _offered(counts) == {"marc21": 72, "oai_dc": 410}
    offered = counts.formats[1].offered
    assert offered is not None
    assert astuple(offered)[0] == wanted.history_id
    assert (offered.rejected, offered.filtered) == (20, 5)


def test_a_list_of_changes_is_not_taken_for_a_complete_list_if_much_more_is_stored(session: Session) -> None:
    _records(session, 9)
    _run(session, 4)

    assert _offered(count_records(session, 1)) == {"oai_dc": None}


def test_many_records_are_not_counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_counts, "MOST_COUNTED", 4)
    _records(session, 5)
    _run(session, 5)

    counts = count_records(session, 1)

    assert not counts.whole
    assert [(one.active, one.deleted) for one in counts.formats] == [(None, None)]
    assert _offered(counts) == {"oai_dc": 5}
