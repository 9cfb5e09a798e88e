"""Imports follow what an approval or a record that is fetched again changes in the store."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from sqlalchemy import func, select, update

from harvester.bibliographic.importer import import_after_harvest
from harvester.bibliographic.models import BibliographicRow, Import
from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.models import History, Repository
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.web.api.conftest import token_of
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_schedule
from web.imports.sources import IMPORTS


@pytest.fixture
async def fake(server: Server) -> AsyncIterator[FakeRepository]:
    """A repository of 25 records, registered and not harvested."""
    fake = FakeRepository(items=many(25, size=8))
    async with serve(fake):
        with server.database.session() as session:
            a_repository(session).base_url = fake.url
            session.commit()
        yield fake


async def _harvest(server: Server) -> None:
    request = HarvestRequest(repository_id=1, full=True)
    await harvest(server.database, server.settings, request, stop=asyncio.Event())
    await asyncio.to_thread(import_after_harvest, server.database, server.settings, 1)


def _searchable(server: Server) -> int | None:
    with server.database.session() as session:
        return session.scalar(select(func.count()).select_from(BibliographicRow))


async def _ended(server: Server) -> None:
    async with asyncio.timeout(60):
        while server.app[IMPORTS].under_way:  # noqa: ASYNC110 only pages show the progress
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("by_api", [False, True], ids=["page", "API"])
async def test_records_that_an_approval_deletes_are_no_longer_found(
    server: Server, administrator: Browser, fake: FakeRepository, *, by_api: bool
) -> None:
    await _harvest(server)
    del fake.items[:12]
    await _harvest(server)
    assert _searchable(server) == 25

    if by_api:
        headers = {"Authorization": f"Bearer {token_of(server, 'Alena')}"}
        async with aiohttp.ClientSession(headers=headers) as http:
            answer = await http.post(f"{server.base_url}/api/v1/runs/2/release", json={})
            assert (await answer.json())["deleted"] == 12
    else:
        await administrator.post("/runs/2/release")
    await _ended(server)

    assert _searchable(server) == 13
    with server.database.session() as session:
        last = session.scalars(select(Import).order_by(Import.import_id.desc())).first()
        assert last is not None
        assert (last.started_by, last.whole) == ("Alena", False)


async def test_a_record_that_is_fetched_again_and_stored_is_found(
    server: Server, administrator: Browser, fake: FakeRepository
) -> None:
    del fake.items[3:]
    fake.fault = lambda _, body: body.replace(b"Title 1", b"Title & 1")
    await _harvest(server)
    with server.database.session() as session:
        schedule = a_schedule(session, session.get_one(Repository, 1), metadata_prefix="oai_dc")
        session.execute(update(History).values(recurring_id=schedule.id))
        session.commit()
    before = _searchable(server)
    fake.fault = None

    _, page, _ = await administrator.post("/errors/1/again")
    await _ended(server)

    assert "The record is valid now and was stored." in page
    assert (before, _searchable(server)) == (2, 3)
