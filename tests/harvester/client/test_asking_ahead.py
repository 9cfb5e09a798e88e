"""The next page is requested while one is read, and that has no other effect."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from harvester.client.listing import PrefetchedAnswers
from harvester.client.repository_client import Client, Selection
from harvester.client.transport import Arguments, HttpReply
from harvester.reading.answers import Page
from harvester.reading.errors import HttpStatusError, MalformedAnswerError
from harvester.reading.replies import OnToken, Unread
from oai.vocabulary import Verb
from tests.harvester.fake_repository import FakeRepository, many

_BASE = "http://fake.example/oai"
_OTHER: Arguments = [("resumptionToken", "another")]
_NEXT: Arguments = [("resumptionToken", "next")]
_LATER: Arguments = [("resumptionToken", "later")]


class Repository:
    """A transport over a small repository; answers can be changed, and events are noted in order."""

    def __init__(self, *, change: Callable[[dict[str, str], bytes], bytes] = lambda _, body: body) -> None:
        self._fake = FakeRepository(items=many(5), page_size=2)
        self._change = change
        self.noted: list[str] = []

    async def __call__(self, base_url: str, arguments: Arguments) -> HttpReply:
        asked = dict(arguments)
        self.noted.append(f"asked {asked.get('resumptionToken', 'first')[:1]}")
        await asyncio.sleep(0)
        body = self._change(asked, self._fake.answer(asked).encode())
        return HttpReply(url=f"{base_url}?{asked}", status=200, headers={}, body=body)

    async def read(self, unread: Unread, on_token: OnToken) -> Page:
        """Read a page, and announce its token shortly before."""
        page = unread.read(on_token)
        await asyncio.sleep(0.01)
        self.noted.append(f"read {len(page.headers)}")
        return page

    def client(self) -> Client:
        return Client(_BASE, self, read_page=self.read, retries=0)


def _names(pages: list[Page]) -> list[str]:
    return [header.identifier for page in pages for header in page.headers]


async def test_the_next_page_is_requested_while_one_is_read() -> None:
    repository = Repository()
    client = repository.client()
    pages = [page async for page in client.pages(Verb.LIST_RECORDS, Selection(metadata_prefix="oai_dc"))]
    assert _names(pages) == [f"oai:fake.example:{number}" for number in range(5)]
    assert repository.noted == ["asked f", "asked 2", "read 2", "asked 4", "read 2", "read 1"]
    assert client.traffic.requests == 3


async def test_a_broken_page_is_not_requested_again_if_the_next_one_has_been_requested() -> None:
    def change(_asked: dict[str, str], body: bytes) -> bytes:
        return body.replace(b"<identifier>", b"<name>", 1).replace(b"</identifier>", b"</name>", 1)

    repository = Repository(change=change)
    found = repository.client().pages(Verb.LIST_RECORDS, Selection(metadata_prefix="oai_dc"), loose=True)
    pages = [page async for page in found]
    assert [len(page.faults) for page in pages] == [1, 1, 1]
    # The last page has no token, so it is requested again.
    assert repository.noted == [
        "asked f", "asked 2", "read 1", "asked 4", "read 1", "read 0", "asked 4", "read 0",
    ]  # fmt: skip


async def test_a_strict_list_raises_on_a_broken_page_although_the_next_one_is_requested_ahead() -> None:
    repository = Repository(change=lambda _, body: body.replace(b"<datestamp>", b"<datestamp><x/>", 1))
    found = repository.client().pages(Verb.LIST_RECORDS, Selection(metadata_prefix="oai_dc"))
    with pytest.raises(MalformedAnswerError, match="contains elements besides text"):
        await anext(aiter(found))
    assert repository.noted == ["asked f"]


async def test_a_token_in_the_wrong_place_is_not_used_to_request_ahead() -> None:
    def change(_asked: dict[str, str], body: bytes) -> bytes:
        return body.replace(b"</ListRecords>", b"<record/></ListRecords>")

    repository = Repository(change=change)
    found = repository.client().pages(Verb.LIST_RECORDS, Selection(metadata_prefix="oai_dc"), loose=True)
    pages = [page async for page in found]
    assert (len(_names(pages)), repository.noted[:4]) == (5, ["asked f", "read 2", "asked f", "read 2"])


async def test_closing_the_list_cancels_the_request_that_was_sent_ahead() -> None:
    there = asyncio.Event()
    ended: list[str] = []

    async def fetch(_arguments: Arguments) -> HttpReply:
        try:
            there.set()
            await asyncio.sleep(60)
        finally:
            ended.append("let go")
        raise AssertionError("unreachable: it was let go")

    async with contextlib.aclosing(PrefetchedAnswers(fetch)) as asking:
        asking.ask("next")
        asking.ask("next")
        assert asking.asked
        await there.wait()
    assert ended == ["let go"]
    asking.ask("later")
    await asyncio.sleep(0)
    assert ended == ["let go"]


async def test_an_answer_belongs_to_its_request() -> None:
    asked: list[Arguments] = []

    async def fetch(arguments: Arguments) -> HttpReply:
        asked.append(arguments)
        await asyncio.sleep(0)
        return HttpReply(url=str(arguments), status=200, headers={}, body=b"")

    async with contextlib.aclosing(PrefetchedAnswers(fetch)) as asking:
        asking.ask("next")
        await asyncio.sleep(0)
        assert (await asking.answer(_NEXT)).url == str(_NEXT)
        asking.ask("later")
        await asyncio.sleep(0)
        assert (await asking.answer(_OTHER)).url == str(_OTHER)
        asking.ask("another")  # too late
        assert not asking.asked
        assert (await asking.answer(_NEXT)).url == str(_NEXT)
    assert asked == [_NEXT, _LATER, _OTHER, _NEXT]


async def test_an_error_of_a_request_sent_ahead_is_raised_when_its_answer_is_needed() -> None:
    async def fetch(_arguments: Arguments) -> HttpReply:
        raise HttpStatusError(_BASE, 404)

    async with contextlib.aclosing(PrefetchedAnswers(fetch)) as asking:
        asking.ask("next")
        await asyncio.sleep(0.01)
        with pytest.raises(HttpStatusError):
            await asking.answer(_NEXT)
        asking.ask("later")
        await asyncio.sleep(0.01)  # the answer is not needed, so its error is not raised
