"""An incremental harvest requests a list that changed while it was read a second time."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome, received, shares_of
from harvester.harvest.run import Tuning
from harvester.harvest.source import replay_request
from harvester.vocabulary import Level, Method, Slice
from oai.errors import ExitCode
from oai.failures import Failure, FailureCode
from tests.harvester.fake_repository import many
from tests.harvester.killing import kill_where_it_stalls, stall
from tests.harvester.library import Library

_FROM = "2000-01-01"
_SKIPPED = "oai:fake.example:10"
_AGAIN = "; it is requested a second time, because it may have skipped records"


@pytest.fixture
def library(library: Library) -> Library:
    """Return the library of a repository that states no size of its lists."""
    library.fake.sizes = False
    return library


def change_while_listed(library: Library, *, times: int = 1) -> None:
    """Change the list's first record whenever the second page is requested, at most so many times.

    The record moves to the end of the list, so the page skips one.
    """
    left = [True] * times

    async def move(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("10|") and left:
            left.pop()
            first = library.fake.items.pop(0)
            library.fake.items.append(
                replace(first, datestamp="2024-06-03T00:00:00Z", title=first.title + "!")
            )

    library.fake.before = move


def readings(library: Library) -> int:
    return len(library.windows())


def counts_each_record_once(outcome: RunOutcome) -> bool:
    shares = shares_of(outcome.counts)
    return sum(shares.values()) == received(outcome.counts) and min(shares.values()) >= 0


@pytest.mark.parametrize("method", [Method.RECORDS, Method.IDENTIFIERS])
@pytest.mark.parametrize("level", [Level.LOOSE, Level.STRICT])
async def test_an_incremental_harvest_receives_what_a_changing_list_skipped(
    library: Library, method: Method, level: Level
) -> None:
    change_while_listed(library)
    outcome = await library.run(harvest_from=_FROM, method=method, validation=level)
    assert (outcome.verdict, readings(library), outcome.evidence.restarts) == ("complete", 2, 1)
    assert _SKIPPED in library.living()
    assert outcome.warnings == (f"the list repeated 1 record while it was read{_AGAIN}",)
    assert (outcome.counts["new"], outcome.counts["updated"], len(library.living())) == (25, 1, 25)
    assert counts_each_record_once(outcome)


async def test_a_harvest_from_the_watermark_does_not_lose_a_skipped_record(library: Library) -> None:
    library.fake.items = []
    await library.run()
    library.fake.items = [replace(item, datestamp="2024-06-02T00:00:00Z") for item in many(25)]
    change_while_listed(library)
    outcome = await library.run()
    assert (outcome.verdict, len(library.living())) == ("complete", 25)
    assert counts_each_record_once(outcome)


async def test_a_list_that_became_shorter_is_read_again_and_its_deletions_count_once(
    library: Library,
) -> None:
    library.fake.sizes = True
    await library.run()
    library.delete(2, 12, 22, datestamp="2024-01-02T00:00:00Z")
    removed = library.fake.items[0]

    async def remove(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("10|") and removed in library.fake.items:
            library.fake.items.remove(removed)

    library.fake.before = remove
    outcome = await library.run(harvest_from=_FROM)
    words = "the list became shorter while it was read: 25 records, then 24"
    assert outcome.warnings == (f"{words}{_AGAIN}",)
    assert (outcome.counts["deleted"], outcome.counts["unchanged"]) == (3, 21)
    assert counts_each_record_once(outcome)


async def test_a_list_that_changes_in_both_readings_ends_with_a_warning(library: Library) -> None:
    change_while_listed(library, times=9)
    outcome = await library.run(harvest_from=_FROM)
    assert (outcome.verdict, readings(library)) == ("complete", 2)
    assert counts_each_record_once(outcome)
    first, second = outcome.notes
    assert first.text.endswith(_AGAIN)
    assert second.text == (
        "the list repeated 1 record while it was read; it also changed when it was read for the first time;"
        " the next full harvest (--full) finds records that both readings skipped"
    )
    assert second.failure == Failure(code=FailureCode.LIST_REPEATED, facts={"count": 1})


async def test_a_repository_that_always_repeats_a_record_is_read_twice_each_time(library: Library) -> None:
    library.fake.items.insert(12, library.fake.items[3])
    for _ in range(2):
        library.fake.asked.clear()
        outcome = await library.run(harvest_from=_FROM)
        assert (outcome.verdict, readings(library), len(outcome.warnings)) == ("complete", 2, 2)
        assert counts_each_record_once(outcome)
    assert (outcome.counts["unchanged"], outcome.counts["repeated"]) == (25, 1)


async def test_each_changing_slice_is_read_twice(library: Library) -> None:
    months = [replace(item, datestamp=f"2024-0{2 + n // 13}-05T00:00:00Z") for n, item in enumerate(many(26))]
    library.fake.items = [*months[:12], months[3], *months[12:], months[14]]
    outcome = await library.run(harvest_from="2024-02-01", harvest_to="2024-03-31", slice=Slice.MONTH)
    assert (outcome.verdict, outcome.evidence.restarts, len(library.living())) == ("complete", 2, 26)
    assert [window for window in library.windows() if library.windows().count(window) == 2] == [
        *[("2024-02-01T00:00:00Z", "2024-02-29T23:59:59Z")] * 2,
        *[("2024-02-29T23:59:59Z", "2024-03-31T23:59:59Z")] * 2,
    ]


@pytest.mark.parametrize("stopped_at", ["20|", "", "10|"])
async def test_an_interrupted_second_reading_is_resumed(library: Library, stopped_at: str) -> None:
    change_while_listed(library)
    move, stop = library.fake.before, asyncio.Event()

    async def stop_in_second_reading(asked: dict[str, str]) -> None:
        assert move is not None
        await move(asked)
        again = readings(library) == 2 and asked["verb"] == "ListRecords"
        if again and asked.get("resumptionToken", "").startswith(stopped_at):
            stop.set()
            await asyncio.sleep(3600)

    library.fake.before = stop_in_second_reading
    assert (await library.run(stop=stop, harvest_from=_FROM)).status == "incomplete"
    library.fake.before = None
    library.fake.asked.clear()
    outcome = await library.run(harvest_from=_FROM)
    assert (outcome.verdict, outcome.evidence.restarts, readings(library) <= 1) == ("complete", 1, True)
    assert (len(library.living()), outcome.counts["new"], outcome.counts["updated"]) == (25, 25, 1)
    assert counts_each_record_once(outcome)


BEFORE_IT_BEGINS = "new.run_state->'windows'->0 ? 'second_reading'"
BEFORE_THE_LIST_ENDS = "old.run_state->'windows'->0 ? 'second_reading' AND new.run_state->'windows' = '[]'"


@pytest.mark.parametrize(
    ("when", "left"),
    [(BEFORE_IT_BEGINS, 1), (BEFORE_THE_LIST_ENDS, 0)],
    ids=["before it begins", "after its last page"],
)
async def test_a_harvest_killed_near_its_second_reading_reads_the_list_no_third_time(
    library: Library, when: str, left: int
) -> None:
    change_while_listed(library)
    stall(library, "UPDATE ON oai_harvest", when)
    await kill_where_it_stalls(library, "oai_harvest", arguments=("--from", _FROM))
    library.fake.asked.clear()
    outcome = await library.run(harvest_from=_FROM)
    assert (outcome.verdict, readings(library), outcome.evidence.restarts) == ("complete", left, 1)
    assert (len(library.living()), outcome.counts["new"], outcome.counts["updated"]) == (25, 25, 1)
    assert counts_each_record_once(outcome)


async def test_a_full_harvest_is_read_once_and_warns_of_repeated_records(library: Library) -> None:
    change_while_listed(library)
    outcome = await library.run()
    assert (outcome.verdict, readings(library)) == ("complete", 1)
    (note,) = outcome.notes
    assert note.text == (
        "the list repeated 1 record while it was read; it may have skipped records, which the next full"
        " harvest (--full) finds"
    )
    assert note.failure == Failure(code=FailureCode.LIST_REPEATED, facts={"count": 1})


async def test_a_list_that_ends_before_the_size_of_a_sample_is_read_once(library: Library) -> None:
    change_while_listed(library)
    outcome = await library.run(harvest_from=_FROM, max_records=40)
    assert (readings(library), outcome.counts["records"]) == (1, 25)


async def test_a_single_page_that_repeats_a_record_is_read_once(library: Library) -> None:
    library.fake.page_size = 100
    library.fake.items.append(library.fake.items[0])
    outcome = await library.run(harvest_from=_FROM)
    assert (readings(library), outcome.warnings) == (1, ())


async def replayed(library: Library, *, stop_after: int | None = None) -> RunOutcome:
    """Replay the first run; `stop_after`: interrupt the replay after so many pages."""
    number = library.history()[0].history_id
    with library.database.session() as session:
        request = replay_request(session, library.settings, HarvestRequest(repository_id=0), number)
    stop, left = asyncio.Event(), [stop_after]

    def on_progress(_counts: Counter[str], _total: int | None) -> None:
        if left[0] is not None:
            left[0] -= 1
            if not left[0]:
                stop.set()

    return await harvest(
        library.database,
        library.settings,
        request,
        stop=stop,
        on_progress=on_progress,
        tuning=Tuning(group_records=1, old_seconds=0),
    )


async def test_a_replay_reads_the_list_as_often_as_the_run_did(library: Library) -> None:
    library.change_settings(keep_raw=True)
    change_while_listed(library)
    first = await library.run(harvest_from=_FROM)
    for path in library.folder.rglob("*.xml"):
        path.unlink()
    outcome = await replayed(library)
    assert (outcome.verdict, outcome.warnings[:1]) == ("complete", first.warnings)
    assert outcome.evidence.restarts == 1
    assert len(library.files()) == 25


@pytest.mark.parametrize("pages", range(1, 6))
async def test_an_interrupted_replay_has_the_answers_of_the_run_in_the_end(
    library: Library, pages: int
) -> None:
    """The second reading repeats requests, to which the run received other answers."""
    library.change_settings(keep_raw=True)
    change_while_listed(library)
    first = await library.run(harvest_from=_FROM)
    assert (await replayed(library, stop_after=pages)).exit_code == ExitCode.INTERRUPTED
    outcome = await replayed(library)
    assert (outcome.verdict, outcome.warnings[:1]) == ("complete", first.warnings)
    uninterrupted = await replayed(library)
    assert outcome.evidence == uninterrupted.evidence
    assert outcome.counts["records"] == uninterrupted.counts["records"] == 25


def forget_second_reading(path: Path) -> None:
    """Cut the stored answers off before the second reading, which earlier versions did not have."""
    with path.open("rb") as file:
        answers = ArchiveIterator(file)
        _first, second = [
            answers.get_record_offset()
            for record in answers
            if record.rec_type == "request" and "from=" in record.rec_headers.get_header("WARC-Target-URI")
        ]
    with path.open("r+b") as file:
        file.truncate(second)


async def test_a_replay_of_a_run_without_a_second_reading_has_none(library: Library) -> None:
    library.change_settings(keep_raw=True)
    change_while_listed(library)
    await library.run(harvest_from=_FROM)
    forget_second_reading(library.settings.data / (library.history()[0].raw_path or ""))
    outcome = await replayed(library)
    assert (outcome.verdict, outcome.evidence.restarts, outcome.counts["records"]) == ("complete", 0, 25)
    assert outcome.warnings[0].startswith("the list repeated 1 record while it was read; it may have skipped")
