"""A record that could not be read is fetched again by GetRecord."""

from pathlib import Path

import pytest
from sqlalchemy import select

from harvester.harvest.checkpoint import only_harvest
from harvester.harvest.models import Quarantined
from harvester.harvest.refetch import Refetched, RefetchState, fetch_again
from harvester.harvest.request import HarvestRequest
from harvester.models import History
from harvester.reading.errors import RepositoryBusyError
from harvester.store.changes import read_changes
from harvester.vocabulary import Level
from oai.errors import UsageError
from tests.forked_isolated import forked
from tests.harvester.fake_repository import Item
from tests.harvester.library import Library

BROKEN = "oai:fake.example:3"
GOOD = b"Title 3 "
BAD = b"Title & 3 "


@pytest.fixture(autouse=True)
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the process that contacts the repository from one that has imported the modules."""
    monkeypatch.setattr("harvester.isolated.started_process", forked)


async def _with_a_broken_record(library: Library) -> Quarantined:
    """Harvest a library whose fourth record has a bare ampersand, in lists and in GetRecord."""
    library.fake.fault = lambda _, good: good.replace(GOOD, BAD)
    await library.run()
    with library.database.session() as session:
        return session.scalars(select(Quarantined)).one()


async def _again(library: Library, error: Quarantined, *, store: bool = True, **rules: object) -> Refetched:
    request = HarvestRequest(repository_id=library.repository_id, **rules)  # type: ignore[arg-type]
    return await fetch_again(library.database, library.settings, error, request, store=store)


def _entry(library: Library) -> Quarantined:
    with library.database.session() as session:
        return session.scalars(select(Quarantined)).one()


async def test_a_record_that_became_readable_is_stored_and_its_entry_resolved(library: Library) -> None:
    error = await _with_a_broken_record(library)
    library.fake.fault = None

    result = await _again(library, error)

    assert (result.fate, result.reads_well) == (RefetchState.STORED, True)
    assert GOOD in result.raw
    assert BROKEN in library.living()
    assert GOOD in library.files()["fake.example/3.xml"]
    assert _entry(library).resolved is not None
    with library.database.session() as session:
        assert [line.identifier for line in read_changes(session)][-1] == BROKEN
        assert len(session.scalars(select(History)).all()) == 1


async def test_a_record_that_is_still_broken_keeps_its_entry(library: Library) -> None:
    error = await _with_a_broken_record(library)

    result = await _again(library, error)

    assert result.fate is RefetchState.BROKEN
    assert "EntityRef" in result.reason
    assert BAD in result.raw
    kept = _entry(library)
    assert (kept.resolved, kept.history_id, kept.raw) == (None, error.history_id, error.raw)
    assert kept.last_seen > error.last_seen
    assert BROKEN not in library.living()


async def test_the_answer_shown_is_the_record_although_its_schema_is_read_later(library: Library) -> None:
    error = await _with_a_broken_record(library)
    library.fake.fault = None

    result = await _again(library, error, validation=Level.VERY_STRICT)

    assert "verb=GetRecord" in result.url
    assert GOOD in result.raw


async def test_a_preview_stores_no_record(library: Library) -> None:
    error = await _with_a_broken_record(library)
    library.fake.fault = None

    result = await _again(library, error, store=False)

    assert result.fate is RefetchState.READABLE
    assert BROKEN not in library.living()
    assert _entry(library).resolved is None


async def test_filter_rules_are_applied_as_in_a_harvest(library: Library, tmp_path: Path) -> None:
    error = await _with_a_broken_record(library)
    library.fake.fault = None
    rules = tmp_path / "filter.xml"
    rules.write_text(
        "<filters><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>"
        "<filter xpath='//dc:title' regexp='nothing like it'/></filters>"
    )

    result = await _again(library, error, filter_file=rules)

    assert result.fate is RefetchState.FILTERED
    assert BROKEN not in library.living()
    assert _entry(library).resolved is not None


async def test_a_record_of_a_strict_harvest_is_read_strictly(library: Library) -> None:
    error = await _with_a_broken_record(library)
    library.fake.fault = lambda _, good: good.replace(b"<GetRecord>", b"<GetRecord><odd/>")

    result = await _again(library, error, validation=Level.STRICT)

    assert result.fate is RefetchState.BROKEN


async def test_a_record_that_was_deleted_meanwhile_is_deleted_here(library: Library) -> None:
    await library.run()
    library.fake.items[3] = Item(identifier=BROKEN, datestamp="2024-06-02T00:00:00Z", title="Title 3 new")
    error = await _with_a_broken_record(library)
    library.fake.fault = None
    library.delete(3)

    result = await _again(library, error)

    assert result.fate is RefetchState.DELETED
    assert BROKEN not in library.living()
    assert "fake.example/3.xml" not in library.files()
    assert _entry(library).resolved is not None


@pytest.mark.usefixtures("impatient")
async def test_no_record_is_stored_while_the_repository_is_harvested(library: Library) -> None:
    error = await _with_a_broken_record(library)
    library.fake.fault = None

    with only_harvest(library.database, library.repository_id), pytest.raises(RepositoryBusyError):
        await _again(library, error)

    assert _entry(library).resolved is None


async def test_an_entry_without_identifier_cannot_be_fetched_again(library: Library) -> None:
    error = await _with_a_broken_record(library)
    error.identifier = None

    with pytest.raises(UsageError, match="identifier of rejected record 1 is not known"):
        await _again(library, error)
