"""Pages received together are stored together, and no page waits long to be committed."""

import asyncio
from dataclasses import replace

from harvester.harvest.fetch import Fetched, PreparedPage
from harvester.harvest.page_pipeline import PagePrefetcher, _by_answers
from harvester.harvest.run import Tuning
from harvester.harvest.transform import RecordBatch
from harvester.reading.answers import Page, ResumptionToken
from tests.harvester.library import Library
from tests.manager.conftest import until

_PATIENCE = 30.0


def page() -> PreparedPage:
    one = Page(url="http://example/oai", response_date="", token=ResumptionToken(value="more"))
    fetched = Fetched(page=one, entries=())
    return PreparedPage(fetched=fetched, batch=RecordBatch(records=(), filtered=0, repeated=0))


async def test_a_page_that_arrives_soon_is_awaited() -> None:
    ahead = PagePrefetcher()
    assert not await ahead.soon(0.01)
    asyncio.get_running_loop().call_later(0.01, lambda: ahead.fail(ValueError("the end")))
    assert await ahead.soon(_PATIENCE)
    pages, error = await ahead.group()
    assert (pages, str(error)) == ([], "the end")
    assert not await ahead.soon(0.01), "it was taken"


async def test_pages_that_are_left_are_returned_with_the_error() -> None:
    ahead = PagePrefetcher()
    for _ in range(3):
        await ahead.put(page())
    ahead.fail(ValueError("the end"))
    pages, error = await ahead.group()
    assert (len(pages), str(error)) == (3, "the end")
    assert not await ahead.soon(0.01)


async def test_received_pages_are_committed_while_the_repository_is_slow(library: Library) -> None:
    library.tuning = Tuning(old_seconds=600.0)
    seen: list[int] = []

    async def before(arguments: dict[str, str]) -> None:
        if not arguments.get("resumptionToken", "").startswith("20"):
            return
        await until(lambda: len(library.records()) >= 20)
        seen.append(len(library.records()))

    library.fake.before = before
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["new"], seen) == ("complete", 25, [20])


def test_the_parts_of_a_large_answer_are_a_separate_group() -> None:
    async def no_more() -> Page:
        raise AssertionError("not read")

    def prepared(part: int, *, more: bool = False) -> PreparedPage:
        made = page()
        rest = no_more if more else None
        shown = replace(made.fetched.page, part=part, rest=rest)
        return replace(made, fetched=replace(made.fetched, page=shown))

    pages = [
        prepared(0), prepared(0), prepared(1, more=True), prepared(2), prepared(0), prepared(1), prepared(1)
    ]  # fmt: skip
    groups = [[one.fetched.page.part for one in group] for group in _by_answers(pages)]
    assert groups == [[0, 0], [1, 2], [0], [1], [1]]
