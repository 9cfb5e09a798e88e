"""The next page of a list is prepared while the current one is read, with the same content."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime

import pytest
from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request
from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from provider.http.pages_ahead import PAGES_AHEAD, PagesAhead
from provider.protocol.repository import OaiAnswer
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, Provider, small_pages

_PAGE = OaiAnswer(body=b"a page", response_date=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
async def provider(database: Database, settings: Settings, aiohttp_client: AiohttpClient) -> Provider:
    chosen = small_pages(settings, pages_ahead=True)
    return Provider(client=await aiohttp_client(create_app(chosen, database, base_url=BASE_URL)))


def _made(answer: OaiAnswer = _PAGE, seconds: float = 0.0) -> Callable[[], Coroutine[None, None, OaiAnswer]]:
    async def make() -> OaiAnswer:
        await asyncio.sleep(seconds)
        return answer

    return make


async def test_a_prepared_page_is_returned_once_and_only_for_its_key() -> None:
    pages = PagesAhead()
    pages.begin("token", _made(seconds=0.05))
    assert await pages.take("another") is None
    assert await pages.take("token") is _PAGE
    assert await pages.take("token") is None


async def test_a_failed_preparation_returns_no_page() -> None:
    async def fail() -> OaiAnswer:
        raise OSError("no database")

    pages = PagesAhead()
    pages.begin("token", fail)
    await asyncio.sleep(0.01)
    assert await pages.take("token") is None


async def test_prepared_pages_are_limited_in_time_and_number() -> None:
    pages = PagesAhead(seconds=0.05, most=2)
    for number in range(3):
        pages.begin(number, _made())
    assert [await pages.take(number) for number in (2, 0)] == [None, _PAGE]
    await asyncio.sleep(0.1)
    assert await pages.take(1) is None


async def test_a_client_that_disconnects_while_waiting_does_not_block_closing() -> None:
    pages = PagesAhead()
    pages.begin("token", _made(seconds=0.1))
    waiting = asyncio.create_task(pages.take("token"))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await pages.close()


async def test_closing_cancels_preparations() -> None:
    pages = PagesAhead()
    pages.begin("token", _made(seconds=60))
    await asyncio.wait_for(pages.close(), 5)


async def test_the_next_page_is_prepared_before_it_is_requested(
    archive: Archive, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.add_many(8)
    given: list[bool] = []
    take = PagesAhead.take

    async def noted(self: PagesAhead, key: object) -> OaiAnswer | None:
        page = await take(self, key)
        given.append(page is not None)
        return page

    monkeypatch.setattr(PagesAhead, "take", noted)
    first = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")
    await _made_ahead(provider.client)
    second = await provider.ask(verb="ListRecords", resumptionToken=str(first.token))
    await _made_ahead(provider.client)
    third = await provider.ask(verb="ListRecords", resumptionToken=str(second.token))
    # A prepared page is used once; a repeated request computes it again, with the same records.
    again = await provider.ask(verb="ListRecords", resumptionToken=str(first.token))

    assert given == [False, True, True, False]
    assert len({*first.identifiers, *second.identifiers, *third.identifiers}) == 8
    assert again.identifiers == second.identifiers


async def test_pages_of_other_encodings_are_not_mixed_up(archive: Archive, provider: Provider) -> None:
    archive.add_many(4)
    first = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")
    await _made_ahead(provider.client)
    plain = await provider.client.get(
        "/oai",
        params={"verb": "ListRecords", "resumptionToken": str(first.token)},
        headers={"Accept-Encoding": "identity"},
    )
    assert "Content-Encoding" not in plain.headers
    assert b"<ListRecords>" in await plain.read()


async def _made_ahead(client: TestClient[Request, Application]) -> None:
    pages = client.app[PAGES_AHEAD]
    tasks = list(pages._pages.values())  # noqa: SLF001 nothing shows from outside that a page is made
    assert tasks
    await asyncio.wait(tasks)
