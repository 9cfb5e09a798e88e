"""Pages received in quick succession share a transaction, and their files are written during later ones."""

import asyncio
import re
from dataclasses import replace

import pytest
from sqlalchemy import select

from harvester.harvest.page_pipeline import PagePrefetcher
from harvester.harvest.run import Tuning
from harvester.models import Harvest, History
from harvester.store.models import RecordChange
from oai.errors import ExitCode
from tests.harvester.fake_repository import Item
from tests.harvester.library import Library, touch
from tests.manager.conftest import until


@pytest.fixture(autouse=True)
def page_by_page(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process each page alone, with another one apparently waiting, so that no commit is early."""
    library.tuning = Tuning(group_records=1, old_seconds=600.0)

    async def soon(_: PagePrefetcher, __: float) -> bool:
        return True

    monkeypatch.setattr(PagePrefetcher, "soon", soon)


def transactions(library: Library) -> int:
    with library.database.session() as session:
        return len(set(session.scalars(select(RecordChange.transaction_id))))


async def test_pages_received_in_quick_succession_share_a_transaction(library: Library) -> None:
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["new"], transactions(library)) == ("complete", 25, 1)
    assert library.audit()[0].clean


async def test_pages_that_have_waited_long_are_committed(library: Library) -> None:
    library.tuning = replace(library.tuning, old_seconds=-1.0)
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["new"], transactions(library)) == ("complete", 25, 3)


async def test_a_record_listed_twice_is_stored_as_listed_last(library: Library) -> None:
    again = [Item(identifier="oai:fake.example:3", title="Newer"), Item(identifier="oai:fake.example:4")]
    library.fake.items += again
    outcome = await library.run()
    assert (outcome.counts["new"], outcome.counts["updated"], len(library.records())) == (25, 2, 25)
    assert b"Newer" in library.files()["fake.example/3.xml"]
    assert library.audit()[0].clean


async def test_a_wait_is_noted_after_the_pages_before_it_were_committed(library: Library) -> None:
    seen: list[str] = []
    taken: list[int] = []
    kept: list[tuple[str | None, int]] = []

    async def before(arguments: dict[str, str]) -> None:
        if arguments.get("resumptionToken", "").startswith("20"):
            await until(lambda: last_note(library) if seen else taken[-1:] == [20])
            kept.append((last_note(library), len(library.records())))

    def fault(arguments: dict[str, str], _: bytes) -> tuple[int, dict[str, str], bytes] | None:
        if arguments.get("resumptionToken", "").startswith("20") and not seen:
            seen.append("503")
            return 503, {"Retry-After": "1"}, b"later"
        return None

    library.change_settings(retries=1, max_wait=2.0)
    library.fake.before, library.fake.fault = before, fault
    outcome = await library.run(on_progress=lambda counts, _: taken.append(counts["records"]))
    assert (outcome.verdict, outcome.counts["new"]) == ("complete", 25)
    (note, records), (later_note, later_records) = kept
    assert (note, records) == (None, 0)
    assert re.match(r"waiting until \d{4}-\d\d-\d\dT[\d:]+Z: .*503", later_note or ""), later_note
    assert later_records == 20


def last_note(library: Library) -> str | None:
    """Return the note on the run's row about what delays it."""
    with library.database.session() as session:
        return session.scalars(select(Harvest.last_error)).one()


async def test_a_stop_signal_commits_the_received_pages(library: Library) -> None:
    stop, taken = asyncio.Event(), asyncio.Event()

    async def before(arguments: dict[str, str]) -> None:
        if arguments.get("resumptionToken", "").startswith("20"):
            await taken.wait()
            stop.set()
            await asyncio.sleep(5)

    library.fake.before = before
    outcome = await library.run(stop=stop, on_progress=lambda *_: taken.set())
    assert (outcome.exit_code, outcome.counts["new"]) == (ExitCode.INTERRUPTED, len(library.records()))
    assert outcome.counts["new"] >= 10
    library.fake.before = None
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["new"], len(library.records())) == ("complete", 25, 25)
    assert library.audit()[0].clean


async def test_a_held_page_leaves_the_pages_before_it_stored_completely(library: Library) -> None:
    library.change_settings(brake_updates=30, brake_minimum=5)
    await library.run()
    for number in (1, *range(10, 25)):
        library.fake.items[number] = Item(
            identifier=f"oai:fake.example:{number}", datestamp="2024-06-03T00:00:00Z", title="Newer"
        )
    outcome = await library.run(full=True)
    assert (outcome.status, outcome.counts["updated"]) == ("held", 1)
    newer = {name for name, data in library.files().items() if b"Newer" in data}
    assert newer == {"fake.example/1.xml"}
    assert library.audit()[0].clean


async def test_an_error_in_writing_files_during_a_wait_fails_the_run(library: Library) -> None:
    library.fake.items[12] = Item(identifier="oai:other.example:12")
    touch(library.folder / "other.example", b"a file where a folder is to be")
    waited: list[str] = []

    async def before(arguments: dict[str, str]) -> None:
        if arguments.get("resumptionToken", "").startswith("20"):
            await asyncio.sleep(0.5)  # this way, the pages before it are usually stored first

    def fault(arguments: dict[str, str], _: bytes) -> tuple[int, dict[str, str], bytes] | None:
        token = arguments.get("resumptionToken", "")
        if not token.startswith("20") or waited:
            return None
        waited.append(token)
        return 503, {"Retry-After": "1"}, b"later"

    library.change_settings(retries=1, max_wait=2.0)
    library.fake.fault, library.fake.before = fault, before
    with pytest.raises(OSError, match=r"other\.example"):
        await library.run()
    assert len(waited) == 1
    assert "oai:fake.example:10" not in library.records()
    (library.folder / "other.example").unlink()
    outcome = await library.run()
    assert (outcome.verdict, len(library.records())) == ("complete", 25)


async def test_records_whose_files_could_not_be_written_are_not_counted(library: Library) -> None:
    library.fake.items[12] = Item(identifier="oai:other.example:12")
    touch(library.folder / "other.example", b"a file where a folder is to be")
    with pytest.raises(OSError, match=r"other\.example"):
        await library.run()
    with library.database.session() as session:
        assert session.scalars(select(History.new_count)).one() == 0
    assert library.records() == {}
    (library.folder / "other.example").unlink()
    outcome = await library.run()
    assert (outcome.verdict, len(library.records())) == ("complete", 25)
    assert library.audit()[0].clean
