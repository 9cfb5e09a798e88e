"""The stored answers of a run are processed again, with other rules, without requests to the repository."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update
from warcio.archiveiterator import ArchiveIterator

from harvester.harvest.approval import release
from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.harvest.source import replay_request
from harvester.models import Harvest, History
from harvester.rule_lab.replay_preview import preview_replay
from harvester.vocabulary import Level, Method, Slice
from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, Item, many, serve
from tests.harvester.library import Library

_NOW = "2024-06-01T12:00:00Z"
_FILTERS = """<filters match="any"><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'
</selectionNamespaces><filter xpath="//dc:title" regexp="Title [0-4] " invert="false" ignoreCase="true"/>
</filters>"""
_MAPPINGS = """<normalize><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
<mapping xpath="//dc:title"><newElement name="dc:subject" regexp="Title" ignoreCase="true">
<newValue>Titles</newValue></newElement></mapping></normalize>"""


async def run_up_to(library: Library, token_begins: str, **parameters: Any) -> None:
    """Run a harvest that is interrupted while it waits for the page of the token."""
    stop = asyncio.Event()
    stored = int(token_begins.removesuffix("|"))

    async def stick(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith(token_begins):
            while library.harvest_row().counts.get("records") != stored:  # noqa: ASYNC110 a row gives no sign
                await asyncio.sleep(0.02)
            stop.set()
            await asyncio.sleep(3600)

    library.fake.before = stick
    assert (await library.run(stop=stop, **parameters)).exit_code == 130
    library.fake.before = None


async def replay(library: Library, history_id: int, **rules: Any) -> RunOutcome:
    with library.database.session() as session:
        given = HarvestRequest(repository_id=0, **rules)
        request = replay_request(session, library.settings, given, history_id)
    return await harvest(library.database, library.settings, request, stop=asyncio.Event())


def previewed(library: Library, history_id: int, **rules: Any) -> dict[str, int]:
    with library.database.session() as session:
        given = HarvestRequest(repository_id=0, **rules)
        request = replay_request(session, library.settings, given, history_id)
        return dict(preview_replay(session, library.settings, request).counts)


def warc(library: Library) -> Path:
    raw_path = library.history()[-1].raw_path
    assert raw_path is not None
    return library.settings.data / raw_path


def statuses(library: Library) -> dict[str, str]:
    return {identifier: record.status for identifier, record in library.records().items()}


@pytest.fixture
async def library(database: Database, settings: Settings, tmp_path: Path) -> AsyncIterator[Library]:
    async with serve(FakeRepository(items=many(25), now=_NOW)) as fake:
        library = Library(database, settings, fake, tmp_path / "out")
        library.change_settings(retries=1, keep_raw=True)
        yield library


def _records(path: Path) -> list[tuple[str, str]]:
    with path.open("rb") as file:
        return [
            (record.rec_type, record.rec_headers.get_header("WARC-Target-URI") or "")
            for record in ArchiveIterator(file)
        ]


async def test_each_request_and_answer_of_a_run_is_a_record_in_one_file(library: Library) -> None:
    outcome = await library.run()
    assert outcome.raw_path is not None
    assert outcome.raw_path.startswith(f"raw/{library.repository_id}/")
    kinds = [kind for kind, _ in _records(warc(library))]
    assert kinds == ["warcinfo", "request", "response", "metadata", *["request", "response"] * 3]
    assert library.settings.store not in warc(library).parents


async def test_answers_are_stored_only_on_request(library: Library) -> None:
    library.change_settings(keep_raw=False)
    outcome = await library.run()
    assert outcome.raw_path is None
    assert not (library.settings.data / "raw").exists()
    with pytest.raises(UsageError, match="run 1 has no stored answers"):
        await replay(library, library.history()[0].history_id)
    with pytest.raises(UsageError, match="no run 999;"):
        await replay(library, 999)


async def test_a_replay_results_in_the_same_files_without_requests(library: Library) -> None:
    await library.run()
    files = library.files()
    for path in library.folder.rglob("*.xml"):
        path.unlink()
    asked = len(library.fake.asked)
    outcome = await replay(library, library.history()[0].history_id)
    assert (outcome.verdict, outcome.counts["unchanged"]) == ("complete", 25)
    assert library.files() == files
    assert len(library.fake.asked) == asked
    last = library.history()[-1]
    assert (last.replay_of, last.raw_path) == (library.history()[0].history_id, None)


async def test_raw_answers_have_no_credentials_of_the_base_url_and_can_be_replayed(
    library: Library,
) -> None:
    library.change_repository(base_url=library.fake.url.replace("://", "://me:s%40cret@"))
    await library.run()
    assert b"cret" not in gzip.decompress(warc(library).read_bytes())
    outcome = await replay(library, library.history()[0].history_id)
    assert (outcome.verdict, outcome.counts["unchanged"]) == ("complete", 25)


async def test_a_replay_applies_the_current_rules(library: Library, tmp_path: Path) -> None:
    filters, mappings = tmp_path / "filters.xml", tmp_path / "mappings.xml"
    filters.write_text(_FILTERS)
    mappings.write_text(_MAPPINGS)
    await library.run(filter_file=filters)
    assert len(library.files()) == 5
    outcome = await replay(library, library.history()[0].history_id, normalize_file=mappings)
    assert (outcome.counts["new"], outcome.counts["updated"]) == (20, 5)
    assert all(b"Titles" in data for data in library.files().values())


@pytest.mark.parametrize(
    ("method", "length"),
    [
        (Method.RECORDS, Slice.MONTH),
        (Method.IDENTIFIERS, None),
        pytest.param(Method.RECORDS, None, marks=pytest.mark.long),
        pytest.param(Method.IDENTIFIERS, Slice.MONTH, marks=pytest.mark.long),
    ],
)
async def test_a_replay_repeats_the_requests_of_the_run_whatever_its_parameters(
    library: Library, method: Method, length: Slice | None
) -> None:
    library.fake.items = [
        Item(identifier=f"oai:f:{n}", datestamp=f"2024-0{n % 6 + 1}-05T00:00:00Z", sets=("a",))
        for n in range(20)
    ]
    first = await library.run(
        method=method, slice=length, set_spec="a", harvest_from="2024-02-01", harvest_to="2024-04-30"
    )
    asked = len(library.fake.asked)
    again = await replay(library, library.history()[0].history_id)
    assert again.counts["records"] == first.counts["records"] == 10
    assert (again.verdict, again.counts["unchanged"]) == ("complete", 10)
    assert len(library.fake.asked) == asked


async def test_a_replay_does_not_move_the_watermark(library: Library) -> None:
    await library.run()
    library.fake.now = "2024-07-01T12:00:00Z"
    await library.run()
    assert library.harvest_row().watermark == "2024-07-01T12:00:00Z"
    await replay(library, library.history()[0].history_id)
    assert library.harvest_row().watermark == "2024-07-01T12:00:00Z"


async def test_records_changed_or_deleted_by_later_harvests_stay_as_they_are(library: Library) -> None:
    await library.run()
    later = "2024-06-15T00:00:00Z"
    library.fake.items[3] = Item(identifier="oai:fake.example:3", datestamp=later, title="Renewed")
    library.fake.items[4] = Item(identifier="oai:fake.example:4", datestamp=later, deleted=True)
    await library.run(full=True)
    outcome = await replay(library, library.history()[0].history_id)
    assert outcome.counts["superseded"] == 2
    assert any(
        "2 records were left unchanged because later harvests have newer versions" in words
        for words in outcome.warnings
    )
    assert [name for name, data in library.files().items() if b"Renewed" in data] == ["fake.example/3.xml"]
    assert statuses(library)["oai:fake.example:4"] == "deleted"


def changed(**values: Any) -> Callable[[list[Item]], None]:
    """Return what changes the first item without a new datestamp."""
    return lambda items: items.insert(0, replace(items.pop(0), **values))


def removed(items: list[Item]) -> None:
    del items[0]


@pytest.mark.parametrize(
    ("datestamp", "change"),
    [
        pytest.param("2024-06-01", changed(deleted=True), id="deleted on the same day"),
        pytest.param("2024-06-01", changed(title="Renewed"), id="changed on the same day"),
        pytest.param("2024-06-01T00:00:00Z", changed(title="Renewed"), id="changed without a new datestamp"),
        pytest.param("2024-06-01", removed, id="removed on the same day"),
        pytest.param("2024-06-01T14:00:00Z", removed, id="removed and dated in the future"),
    ],
)
async def test_a_record_that_a_later_harvest_changed_or_deleted_stays_whatever_its_datestamp(
    library: Library, datestamp: str, change: Callable[[list[Item]], None]
) -> None:
    if len(datestamp) == len("2024-06-01"):
        library.fake.granularity = "YYYY-MM-DD"
    library.fake.items = [replace(item, datestamp=datestamp) for item in library.fake.items]
    await library.run()
    first = library.history()[0].history_id
    change(library.fake.items)
    await library.run(full=True)
    before = (statuses(library), library.files())
    assert previewed(library, first) == {"unchanged": 24, "superseded": 1}
    outcome = await replay(library, first)
    assert (outcome.counts["superseded"], outcome.counts["unchanged"]) == (1, 25)
    assert (statuses(library), library.files()) == before


def mapped(folder: Path, subject: str) -> Path:
    """Return a normalise file that adds the subject to each record."""
    path = folder / f"{subject}.xml"
    path.write_text(_MAPPINGS.replace("Titles", subject))
    return path


async def subjects(library: Library, history_id: int, mappings: Path) -> int:
    """Replay the run with the file; return how many records have its subject then."""
    await replay(library, history_id, normalize_file=mappings)
    return sum(mappings.stem.encode() in data for data in library.files().values())


async def test_a_replay_can_be_repeated_with_other_rules(library: Library, tmp_path: Path) -> None:
    library.fake.items[3] = replace(library.fake.items[3], deleted=True)
    await library.run()
    first = library.history()[0].history_id
    await library.run(full=True)  # receives the same records, so it writes none
    for subject in ("One", "Two", "Three"):
        assert previewed(library, first, normalize_file=mapped(tmp_path, subject)) == {
            "updated": 24, "unchanged": 1
        }  # fmt: skip
        assert await subjects(library, first, mapped(tmp_path, subject)) == 24


async def test_a_replay_changes_what_a_killed_one_wrote(library: Library, tmp_path: Path) -> None:
    await library.run()
    first, mappings = library.history()[0].history_id, mapped(tmp_path, "One")
    assert await subjects(library, first, mappings) == 25
    with library.database.session() as session:
        given = HarvestRequest(repository_id=0, normalize_file=mappings)
        kind = replay_request(session, library.settings, given, first).kind()
        session.execute(delete(History).where(History.replay_of.is_not(None)))
        unfinished = {"process_id": 1, "host": "here", "run_parameters": {"kind": kind}}
        session.execute(update(Harvest).values(unfinished))
        session.commit()
    assert await subjects(library, first, mappings) == 25
    assert await subjects(library, first, mapped(tmp_path, "Two")) == 25


async def test_a_replay_changes_what_replays_of_earlier_runs_wrote_but_not_what_later_runs_received(
    library: Library, tmp_path: Path
) -> None:
    await library.run()
    changed(title="Renewed")(library.fake.items)
    await library.run(full=True)
    first, second = (row.history_id for row in library.history())
    assert await subjects(library, first, mapped(tmp_path, "One")) == 24
    assert await subjects(library, second, mapped(tmp_path, "Two")) == 24
    titles = [data for data in library.files().values() if b"Renewed" in data]
    assert (len(titles), await subjects(library, second, mapped(tmp_path, "Three"))) == (1, 24)
    assert await subjects(library, first, mapped(tmp_path, "Four")) == 0


async def test_a_replay_changes_what_both_parts_of_an_interrupted_run_wrote_but_no_other_run(
    library: Library, tmp_path: Path
) -> None:
    library.fake.items[0] = replace(library.fake.items[0], sets=("maps",))
    await run_up_to(library, "20|")
    library.fake.items[0] = replace(library.fake.items[0], title="Title renewed")
    await library.run(set_spec="maps")
    assert (await library.run()).evidence.resumed_at == 20
    last = library.history()[-1].history_id
    assert await subjects(library, last, mapped(tmp_path, "One")) == 24
    assert sum(b"Title renewed" in data for data in library.files().values()) == 1
    assert await subjects(library, last, mapped(tmp_path, "Two")) == 24


async def test_a_replay_with_other_rules_leaves_the_deletions_of_a_held_run(
    library: Library, tmp_path: Path
) -> None:
    library.change_settings(brake_minimum=1, brake_deletions=10)
    await library.run()
    library.delete(*range(5))
    assert (await library.run(full=True)).status == "held"
    first, held = (row.history_id for row in library.history())
    assert await subjects(library, first, mapped(tmp_path, "One")) == 25
    assert [hold.state for hold in library.holds()] == ["held"]
    _, deleted, _ = release(library.database, library.settings, held)
    assert (deleted, list(statuses(library).values()).count("deleted")) == (5, 5)


async def test_a_replay_deletes_no_records_that_were_added_later(library: Library) -> None:
    def forgetful(_asked: dict[str, str], good: bytes) -> bytes:
        return good.replace(b"<deletedRecord>persistent", b"<deletedRecord>no")

    library.fake.fault = forgetful
    await library.run()
    library.fake.items += many(5, start=25)
    await library.run(full=True)
    await replay(library, library.history()[0].history_id)
    assert set(statuses(library).values()) == {"active"}
    assert len(statuses(library)) == 30


async def test_waits_and_retries_are_replayed_without_delay(library: Library) -> None:
    failures = iter([True, False, False, False, False])

    def fault(asked: dict[str, str], good: bytes) -> bytes | tuple[int, dict[str, str], bytes]:
        busy = asked["verb"] == "ListRecords" and next(failures)
        return (503, {"Retry-After": "1"}, b"") if busy else good

    library.fake.fault = fault
    await library.run()
    outcome = await replay(library, library.history()[0].history_id)
    assert (outcome.verdict, outcome.counts["unchanged"]) == ("complete", 25)


async def test_compressed_and_broken_answers_are_stored_as_received(library: Library) -> None:
    library.fake.fault = lambda _, good: good.replace(b"Title 12 ", b"\x01")
    first = await library.run()
    again = await replay(library, library.history()[0].history_id)
    assert first.counts["invalid"] == again.counts["invalid"] == 1
    assert again.counts["records"] == first.counts["records"]
    strict = await replay(library, library.history()[0].history_id, validation=Level.STRICT)
    assert strict.exit_code == 5


async def test_an_interrupted_and_resumed_run_is_replayed_as_one(library: Library) -> None:
    await run_up_to(library, "20|")
    second = await library.run()
    assert second.evidence.resumed_at == 20
    assert len(list((library.settings.data / "raw").rglob("*.warc.gz"))) == 2
    outcome = await replay(library, library.history()[-1].history_id)
    assert (outcome.verdict, outcome.counts["unchanged"]) == ("complete", 25)


async def test_a_replay_does_not_start_while_a_harvest_can_be_resumed(library: Library) -> None:
    await library.run()
    first = library.history()[0].history_id
    await run_up_to(library, "10|", full=True)
    outcome = await replay(library, first)
    assert outcome.exit_code == 2
    assert "can be resumed" in (outcome.failure_reason or "")
    assert (await library.run(full=True)).evidence.resumed_at == 10


async def test_a_missing_answer_is_reported(library: Library) -> None:
    await library.run()
    path = warc(library)
    path.write_bytes(path.read_bytes()[:-200])
    outcome = await replay(library, library.history()[0].history_id)
    assert outcome.exit_code == 4
    assert outcome.failure_reason is not None
    assert "resumptionToken=20" in outcome.failure_reason
    assert "the earlier run" in outcome.failure_reason
    assert outcome.counts["records"] == 20


async def test_the_preview_leaves_out_requests_that_confirm_missing_records(library: Library) -> None:
    """The list skips record 10, because record 0 is removed while it is read; GetRecord still has it."""
    library.forgets()
    library.fake.sizes = False
    await library.run()

    async def remove(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("10|"):
            library.fake.items = [item for item in library.fake.items if not item.identifier.endswith(":0")]

    library.fake.before = remove
    outcome = await library.run(full=True)
    assert outcome.warnings[-1].startswith("1 record missing from the list was found by GetRecord")
    assert previewed(library, library.history()[-1].history_id) == {"unchanged": 24}
    assert (await replay(library, library.history()[-1].history_id)).counts["unchanged"] == 24


@pytest.mark.parametrize("method", Method)
async def test_the_preview_counts_records_that_were_fetched_one_by_one(
    library: Library, method: Method
) -> None:
    broken = b"Title 12 "
    library.fake.fault = lambda asked, good: (
        good.replace(broken, b"\x01") if asked["verb"] == "ListRecords" else good
    )
    await library.run(method=method)
    assert previewed(library, library.history()[-1].history_id) == {"unchanged": 25}


async def test_a_missing_file_is_reported(library: Library) -> None:
    await library.run()
    warc(library).unlink()
    with pytest.raises(UsageError, match="stored answers of the run were not found"):
        await replay(library, library.history()[0].history_id)
