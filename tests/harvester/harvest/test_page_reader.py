"""Pages received in quick succession are read in a separate process, with the same result."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, chain, cycle
from pathlib import Path

import pytest

from harvester.harvest.page_reader import PageReader, ProcessPolicy
from harvester.harvest.page_reader_process import PageOfDocuments, ReadingProcess, documents_of
from harvester.harvest.run import Tuning
from harvester.reading.answers import Page
from harvester.reading.replies import OnToken, Unread
from harvester.vocabulary import Method
from oai.child import CompanionEndedError
from oai.errors import ExitCode
from oai.vocabulary import Verb
from tests.harvester.fake_repository import Item, many
from tests.harvester.harvest.test_harvest import FILTERS
from tests.harvester.harvest.test_page_reader_process import MIXED, nobody, unread
from tests.harvester.library import Library
from tests.manager.conftest import until

_PATIENCE = 30.0


@pytest.fixture
def begun() -> list[ReadingProcess]:
    """Record the processes that were started."""
    return []


@pytest.fixture
def process_policy(begun: list[ReadingProcess]) -> Iterator[ProcessPolicy]:
    """Start a process at once; a started process has already read a page."""
    used: list[ReadingProcess] = []

    class Noted(ReadingProcess):
        def __init__(self) -> None:
            super().__init__()
            begun.append(self)

        def read(self, unread: Unread, on_token: OnToken) -> PageOfDocuments | None:
            used.append(self)
            return super().read(unread, on_token)

    yield ProcessPolicy(records=1, share=-1.0, begin=Noted)
    assert bool(used) == bool(begun)


@pytest.fixture
def library(library: Library, process_policy: ProcessPolicy) -> Library:
    """A library whose pages are read by such a process."""
    library.tuning = Tuning(process_policy=process_policy)
    return library


async def read_documents(reading: PageReader, asked: Unread) -> None:
    """Read a page repeatedly until it is returned as documents, and wait for these."""
    async with asyncio.timeout(_PATIENCE):
        while not isinstance(page := await reading(asked, nobody), PageOfDocuments):
            pass
    page.documents.future.result(_PATIENCE)


async def test_documents_that_the_process_does_not_return_are_made_here(
    begun: list[ReadingProcess],
    process_policy: ProcessPolicy,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = unread(MIXED, page_size=2)

    def killed(process: ReadingProcess) -> None:
        os.kill(process.number, signal.SIGKILL)
        raise CompanionEndedError(-9)

    with PageReader(process_policy=process_policy) as reading, caplog.at_level(logging.WARNING):
        await read_documents(reading, asked)
        monkeypatch.setattr(ReadingProcess, "documents", killed)
        page = await reading(asked, nobody)
        assert isinstance(page, PageOfDocuments)
        assert page.documents.future.result(_PATIENCE) == documents_of(asked.read())
        later = await reading(asked, nobody)
        assert [record.header for record in later.records] == list(page.headers)
    assert len(begun) == 1
    assert "further pages are read without it" in caplog.text


async def test_after_a_kill_of_the_process_pages_are_read_without_it(
    begun: list[ReadingProcess], process_policy: ProcessPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    asked = unread(MIXED, page_size=2)
    with PageReader(process_policy=process_policy) as reading, caplog.at_level(logging.WARNING):
        await read_documents(reading, asked)
        os.kill(begun[0].number, signal.SIGKILL)
        assert len((await reading(asked, nobody)).records) == 2
        assert len((await reading(asked, nobody)).records) == 2
    assert caplog.text.count("ended with -9") == 1


async def test_if_the_process_cannot_be_started_pages_are_read_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def none_left() -> ReadingProcess:
        raise OSError(11, "Resource temporarily unavailable")

    asked = unread(MIXED, page_size=2)
    process_policy = ProcessPolicy(records=1, share=-1.0, begin=none_left)
    with PageReader(process_policy=process_policy) as reading, caplog.at_level(logging.WARNING):
        async with asyncio.timeout(_PATIENCE):
            while "temporarily unavailable" not in caplog.text:
                assert len((await reading(asked, nobody)).records) == 2


@pytest.mark.parametrize(("pause", "processes"), [(100.0, 0), (1.0, 1)])
async def test_a_process_is_started_if_reading_takes_a_large_share_of_the_time(
    pause: float, processes: int
) -> None:
    asked = unread(many(600), page_size=500)
    begun: list[str] = []

    def begin() -> ReadingProcess:
        begun.append("one")
        raise OSError("it is enough to know")

    with PageReader(process_policy=ProcessPolicy(begin=begin), clock=_clock(pause)) as reading:
        for _ in range(3):
            await reading(asked, nobody)
    assert len(begun) == processes


async def test_no_process_is_started_for_a_short_list_or_a_last_page(
    begun: list[ReadingProcess], process_policy: ProcessPolicy
) -> None:
    with PageReader(process_policy=process_policy) as reading:
        for _ in range(3):
            assert len((await reading(unread(MIXED), nobody)).records) == 3
    assert begun == []


async def test_a_harvest_stores_the_same_files_and_rows(
    library: Library, begun: list[ReadingProcess]
) -> None:
    wait_for_it(library, begun)
    library.fake.items[3] = Item(identifier="oai:fake.example:3", title="a & b <c>", sets=("s",))
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["new"], len(begun)) == ("complete", 25, 1)
    files = library.files()
    library.tuning = Tuning()
    again = await library.run(full=True)
    assert (again.verdict, again.counts["unchanged"], again.counts["new"]) == ("complete", 25, 0)
    assert (library.files(), len(begun)) == (files, 1)


@pytest.mark.parametrize("ahead", [True, False])
async def test_the_token_is_announced_only_when_reading_ahead_and_other_verbs_are_read_here(
    begun: list[ReadingProcess], process_policy: ProcessPolicy, *, ahead: bool
) -> None:
    tokens: list[str] = []
    asked = unread(MIXED, page_size=2)
    with PageReader(ahead=ahead, process_policy=process_policy) as reading:
        await read_documents(reading, asked)
        page = await reading(asked, tokens.append)
        await asyncio.sleep(0)
        other = await reading(unread(MIXED, verb=Verb.LIST_IDENTIFIERS), nobody)
        assert (type(other), len(other.headers)) == (Page, 3)
    assert tokens == ([page.next_token] if ahead else [])
    assert len(begun) == 1


async def test_a_sample_requests_no_unneeded_page(library: Library, begun: list[ReadingProcess]) -> None:
    wait_for_it(library, begun)
    assert (await library.run(max_records=20)).counts["new"] == 20
    assert len([asked for asked in library.fake.asked if asked.get("verb") == "ListRecords"]) == 2
    assert len(begun) == 1


@pytest.mark.parametrize("how", ["filter", "identifiers"])
async def test_pages_for_rules_and_get_record_are_read_here_with_their_elements(
    library: Library, begun: list[ReadingProcess], tmp_path: Path, how: str
) -> None:
    rules = tmp_path / "filter.xml"
    rules.write_text(FILTERS)
    chosen = {"filter_file": rules} if how == "filter" else {"method": Method.IDENTIFIERS}
    outcome = await library.run(**chosen)
    assert outcome.counts["new"] == (5 if how == "filter" else 25)
    assert begun == []


async def test_records_received_before_a_fault_are_stored(
    library: Library, begun: list[ReadingProcess]
) -> None:
    wait_for_it(library, begun)
    library.change_settings(isolation_requests=0)
    library.fake.fault = lambda arguments, _: (
        (404, {}, b"") if arguments.get("resumptionToken", "").startswith("20") else None
    )
    outcome = await library.run()
    assert (outcome.verdict, len(library.records()), len(begun)) == ("failed", 20, 1)
    library.fake.fault = None
    assert (await library.run()).verdict == "complete"
    assert len(library.records()) == 25


async def test_a_stop_signal_ends_the_process_too(library: Library, begun: list[ReadingProcess]) -> None:
    stop = asyncio.Event()

    async def before(arguments: dict[str, str]) -> None:
        if "resumptionToken" in arguments:
            await until(lambda: bool(begun))
        if arguments.get("resumptionToken", "").startswith("20"):
            stop.set()

    library.fake.before = before
    outcome = await library.run(stop=stop)
    assert outcome.exit_code == ExitCode.INTERRUPTED
    (process,) = begun
    with pytest.raises(ProcessLookupError):
        os.kill(process.number, 0)
    library.fake.before = None
    assert (await library.run()).verdict == "complete"


def wait_for_it(library: Library, begun: list[ReadingProcess]) -> None:
    """Delay the second page until the process has started."""

    async def before(arguments: dict[str, str]) -> None:
        if "resumptionToken" in arguments:
            await until(lambda: bool(begun))

    library.fake.before = before


def _clock(pause: float) -> Callable[[], float]:
    """A clock on which each page takes this long to arrive, and then five seconds to be read."""
    return partial(next, accumulate(chain([0.0], cycle([pause, 5.0]))))
