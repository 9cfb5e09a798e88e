"""What was kept of a run is taken in again, with other rules, without asking the repository."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from warcio.archiveiterator import ArchiveIterator

from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.harvest.source import replay_request
from harvester.models import Harvest, History, Record
from harvester.repositories import add_repository
from harvester.vocabulary import Level, Method, Slice
from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, Item, many, serve

_NOW = "2024-06-01T12:00:00Z"
_FILTERS = """<filters match="any"><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'
</selectionNamespaces><filter xpath="//dc:title" regexp="Title [0-4] " invert="false" ignoreCase="true"/>
</filters>"""
_MAPPINGS = """<normalize><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
<mapping xpath="//dc:title"><newElement name="dc:subject" regexp="Title" ignoreCase="true">
<newValue>Titles</newValue></newElement></mapping></normalize>"""


class Bench:
    """A repository that is harvested with its raw answers kept."""

    def __init__(self, database: Database, settings: Settings, fake: FakeRepository, folder: Path) -> None:
        self.database = database
        self.fake = fake
        self.folder = folder
        changes = {"retries": 1, "keep_raw": True}
        harvester = settings.harvester.model_copy(update=changes)
        self.settings = settings.model_copy(update={"harvester": harvester})
        with database.session() as session:
            added = add_repository(session, base_url=fake.url, base_dir=str(folder))
            session.commit()
            self.repository_id = added.repository_id

    async def run(self, *, stop: asyncio.Event | None = None, **parameters: Any) -> RunOutcome:
        request = HarvestRequest(repository_id=self.repository_id, **parameters)
        return await harvest(self.database, self.settings, request, stop=stop or asyncio.Event())

    async def run_up_to(self, token_begins: str, **parameters: Any) -> None:
        """A run that is interrupted while it waits for the page that the token asks for."""
        stop = asyncio.Event()

        async def stick(asked: dict[str, str]) -> None:
            if asked.get("resumptionToken", "").startswith(token_begins):
                while not self.counted(int(token_begins.removesuffix("|"))):  # noqa: ASYNC110 a row gives no sign
                    await asyncio.sleep(0.02)
                stop.set()
                await asyncio.sleep(3600)

        self.fake.before = stick
        assert (await self.run(stop=stop, **parameters)).exit_code == 130
        self.fake.before = None

    def counted(self, records: int) -> bool:
        """Whether the run under way has taken in so many records."""
        with self.database.session() as session:
            return session.scalars(select(Harvest)).one().counts.get("records") == records

    async def replay(self, history_id: int, **rules: Any) -> RunOutcome:
        with self.database.session() as session:
            request = replay_request(
                session, self.settings, HarvestRequest(repository_id=0, **rules), history_id
            )
        return await harvest(self.database, self.settings, request, stop=asyncio.Event())

    def history(self) -> list[History]:
        with self.database.session() as session:
            return list(session.scalars(select(History).order_by(History.history_id)))

    def warc(self) -> Path:
        raw_path = self.history()[-1].raw_path
        assert raw_path is not None
        return self.settings.data / raw_path

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def statuses(self) -> dict[str, str]:
        with self.database.session() as session:
            return {record.identifier: record.status for record in session.scalars(select(Record))}

    def watermark(self) -> str | None:
        with self.database.session() as session:
            return session.scalars(select(Harvest.watermark)).one()


@pytest.fixture
async def bench(database: Database, settings: Settings, tmp_path: Path) -> AsyncIterator[Bench]:
    async with serve(FakeRepository(items=many(25), now=_NOW)) as fake:
        yield Bench(database, settings, fake, tmp_path / "out")


def _records(path: Path) -> list[tuple[str, str]]:
    with path.open("rb") as file:
        return [
            (record.rec_type, record.rec_headers.get_header("WARC-Target-URI") or "")
            for record in ArchiveIterator(file)
        ]


async def test_each_request_and_answer_of_a_run_is_a_record_of_one_file(bench: Bench) -> None:
    outcome = await bench.run()
    assert outcome.raw_path is not None
    assert outcome.raw_path.startswith(f"raw/{bench.repository_id}/")
    kinds = [kind for kind, _ in _records(bench.warc())]
    assert kinds == ["warcinfo", "request", "response", "metadata", *["request", "response"] * 3]
    assert bench.settings.store not in bench.warc().parents


async def test_nothing_is_kept_unless_it_is_asked_for(bench: Bench) -> None:
    harvester = bench.settings.harvester.model_copy(update={"keep_raw": False})
    bench.settings = bench.settings.model_copy(update={"harvester": harvester})
    outcome = await bench.run()
    assert outcome.raw_path is None
    assert not (bench.settings.data / "raw").exists()
    with pytest.raises(UsageError, match="run 1 has no stored answers"):
        await bench.replay(bench.history()[0].history_id)
    with pytest.raises(UsageError, match="no run 999;"):
        await bench.replay(999)


async def test_a_replay_gives_the_same_files_without_asking(bench: Bench) -> None:
    await bench.run()
    files = bench.files()
    for path in bench.folder.rglob("*.xml"):
        path.unlink()
    asked = len(bench.fake.asked)
    outcome = await bench.replay(bench.history()[0].history_id)
    assert (outcome.verdict, outcome.counts["unchanged"]) == ("complete", 25)
    assert bench.files() == files
    assert len(bench.fake.asked) == asked
    last = bench.history()[-1]
    assert (last.replay_of, last.raw_path) == (bench.history()[0].history_id, None)


async def test_a_replay_applies_the_rules_of_today(bench: Bench, tmp_path: Path) -> None:
    filters, mappings = tmp_path / "filters.xml", tmp_path / "mappings.xml"
    filters.write_text(_FILTERS)
    mappings.write_text(_MAPPINGS)
    await bench.run(filter_file=filters)
    assert len(bench.files()) == 5
    outcome = await bench.replay(bench.history()[0].history_id, normalize_file=mappings)
    assert (outcome.counts["new"], outcome.counts["updated"]) == (20, 5)
    assert all(b"Titles" in data for data in bench.files().values())


@pytest.mark.parametrize("method", [*Method])
@pytest.mark.parametrize("length", [None, Slice.MONTH])
async def test_a_replay_asks_for_the_same_whatever_was_asked_for(
    bench: Bench, method: Method, length: Slice | None
) -> None:
    bench.fake.items = [
        Item(identifier=f"oai:f:{n}", datestamp=f"2024-0{n % 6 + 1}-05T00:00:00Z", sets=("a",))
        for n in range(20)
    ]
    first = await bench.run(
        method=method, slice=length, set_spec="a", harvest_from="2024-02-01", harvest_to="2024-04-30"
    )
    asked = len(bench.fake.asked)
    again = await bench.replay(bench.history()[0].history_id)
    assert again.counts["records"] == first.counts["records"] == 10
    assert (again.verdict, again.counts["unchanged"]) == ("complete", 10)
    assert len(bench.fake.asked) == asked


async def test_a_replay_does_not_move_the_watermark(bench: Bench) -> None:
    await bench.run()
    bench.fake.now = "2024-07-01T12:00:00Z"
    await bench.run()
    assert bench.watermark() == "2024-07-01T12:00:00Z"
    await bench.replay(bench.history()[0].history_id)
    assert bench.watermark() == "2024-07-01T12:00:00Z"


async def test_what_later_harvests_changed_or_deleted_stays_as_they_have_it(bench: Bench) -> None:
    await bench.run()
    later = "2024-06-15T00:00:00Z"
    bench.fake.items[3] = Item(identifier="oai:fake.example:3", datestamp=later, title="Renewed")
    bench.fake.items[4] = Item(identifier="oai:fake.example:4", datestamp=later, deleted=True)
    await bench.run(full=True)
    outcome = await bench.replay(bench.history()[0].history_id)
    assert outcome.counts["superseded"] == 2
    assert any(
        "2 records were left unchanged because later harvests have newer versions" in words
        for words in outcome.warnings
    )
    assert b"Renewed" in bench.files()["3.xml"]
    assert bench.statuses()["oai:fake.example:4"] == "deleted"


async def test_records_that_came_later_do_not_disappear_by_a_replay(bench: Bench) -> None:
    def forgetful(_asked: dict[str, str], good: bytes) -> bytes:
        return good.replace(b"<deletedRecord>persistent", b"<deletedRecord>no")

    bench.fake.fault = forgetful
    await bench.run()
    bench.fake.items += many(5, start=25)
    await bench.run(full=True)
    await bench.replay(bench.history()[0].history_id)
    assert set(bench.statuses().values()) == {"active"}
    assert len(bench.statuses()) == 30


async def test_waits_and_tries_are_replayed_in_no_time(bench: Bench) -> None:
    failures = iter([True, False, False, False, False])

    def fault(asked: dict[str, str], good: bytes) -> bytes | tuple[int, dict[str, str], bytes]:
        busy = asked["verb"] == "ListRecords" and next(failures)
        return (503, {"Retry-After": "1"}, b"") if busy else good

    bench.fake.fault = fault
    await bench.run()
    outcome = await bench.replay(bench.history()[0].history_id)
    assert (outcome.verdict, outcome.counts["unchanged"]) == ("complete", 25)


async def test_compressed_and_broken_answers_are_kept_as_they_came(bench: Bench) -> None:
    bench.fake.fault = lambda _, good: good.replace(b"Title 12 ", b"\x01")
    first = await bench.run()
    again = await bench.replay(bench.history()[0].history_id)
    assert first.counts["invalid"] == again.counts["invalid"] == 1
    assert again.counts["records"] == first.counts["records"]
    strict = await bench.replay(bench.history()[0].history_id, validation=Level.STRICT)
    assert strict.exit_code == 5


async def test_a_run_that_was_cut_off_and_gone_on_with_is_replayed_as_one(bench: Bench) -> None:
    await bench.run_up_to("20|")
    second = await bench.run()
    assert second.evidence.resumed_at == 20
    assert len(list((bench.settings.data / "raw").rglob("*.warc.gz"))) == 2
    outcome = await bench.replay(bench.history()[-1].history_id)
    assert (outcome.verdict, outcome.counts["unchanged"]) == ("complete", 25)


async def test_a_harvest_that_can_be_gone_on_with_is_not_displaced(bench: Bench) -> None:
    await bench.run()
    first = bench.history()[0].history_id
    await bench.run_up_to("10|", full=True)
    outcome = await bench.replay(first)
    assert outcome.exit_code == 2
    assert "can be resumed" in (outcome.failure_reason or "")
    assert (await bench.run(full=True)).evidence.resumed_at == 10


async def test_an_answer_that_was_not_kept_is_told(bench: Bench) -> None:
    await bench.run()
    path = bench.warc()
    path.write_bytes(path.read_bytes()[:-200])
    outcome = await bench.replay(bench.history()[0].history_id)
    assert outcome.exit_code == 4
    assert outcome.failure_reason is not None
    assert "resumptionToken=20" in outcome.failure_reason
    assert "the earlier run" in outcome.failure_reason
    assert outcome.counts["records"] == 20


async def test_a_file_that_was_moved_away_is_told(bench: Bench) -> None:
    await bench.run()
    bench.warc().unlink()
    with pytest.raises(UsageError, match="stored answers of the run were not found"):
        await bench.replay(bench.history()[0].history_id)
