"""The page of the aggregate: sources, counts, delay; for staff only."""

import re

import pytest
from playwright.async_api import Page
from sqlalchemy import text, update

from harvester.models import Repository
from provider.aggregate.sources import add_source, find_repository
from tests.provider.aggregate.harvested_rows import Harvested
from tests.web.conftest import Browser, Server, enter
from tests.web.rows import a_repository
from web.archive.address import aggregate_address
from web.auth.organisations import give_repository
from web.models import User

FORMATS = """
INSERT INTO aggregate_format (prefix, harvested_prefix, namespace, schema)
SELECT 'format' || n, n, n, '' FROM generate_series(1, 8) AS n
"""
COUNTS = """
INSERT INTO aggregate_count
SELECT one.id, format.id, 1234567 FROM aggregate_set AS one, aggregate_format AS format
ON CONFLICT DO NOTHING
"""
LINES_OF_WORDS = """
name => [...name.childNodes].filter(node => node.nodeType === Node.TEXT_NODE).map(word => {
    const range = document.createRange();
    range.selectNodeContents(word);
    return range.getClientRects().length;
})
"""


def _publish_records(server: Server) -> None:
    harvested = Harvested(database=server.database, settings=server.settings)
    harvested.begin()
    with server.database.session() as session:
        for name in ("a", "b", "c"):
            harvested.write(session, name)
        session.commit()
    harvested.update()


def _execute(server: Server, *statements: str) -> None:
    with server.database.session() as session:
        for statement in statements:
            session.execute(text(statement))
        session.commit()


async def test_the_aggregate_page_shows_its_sources_and_its_delay(
    server: Server, administrator: Browser
) -> None:
    _, empty = await administrator.get("/archive/aggregate")
    _publish_records(server)
    _execute(server, "UPDATE aggregate_feed SET followed = now() - interval '15 minutes'")

    _, page = await administrator.get("/archive/aggregate")
    async with administrator.http.get(server.base_url + "/api/v1/archive/aggregate") as answer:
        body = await answer.json()

    assert "No repositories in the aggregate yet." in empty
    assert aggregate_address(server.settings) in page
    assert "http://o/" in page
    assert "original" in page
    assert "oai_dc" in page
    assert re.findall(r"[\d:]+ min ago", page) == ["15 min ago"]
    assert body["records"] == 3
    assert body["followed"] is not None
    assert [(one["set_spec"], one["formats"]) for one in body["sources"]] == [("one", {"oai_dc": 3})]


@pytest.mark.parametrize("width", [390, 1280])
async def test_names_of_sets_break_only_between_their_words(server: Server, page: Page, width: int) -> None:
    _publish_records(server)
    _execute(
        server,
        "UPDATE aggregate_source SET name = 'muzeum_vychodnich_cech.hradec'",
        "UPDATE aggregate_set SET set_spec = 'muzeum_vychodnich_cech.hradec'",
        FORMATS,
        COUNTS,
    )
    await page.set_viewport_size({"width": width, "height": 900})
    await enter(page, server, path="/archive/aggregate")

    name = page.locator(".set-name .mono")

    assert await name.inner_text() == "muzeum_vychodnich_cech.hradec"
    assert await name.evaluate(LINES_OF_WORDS) == [1, 1, 1, 1]


async def test_partners_cannot_open_the_aggregate_page(owner: Browser) -> None:
    status, _ = await owner.get("/archive/aggregate")
    assert status == 403


async def test_a_curator_publishes_a_repository_and_withdraws_it(server: Server, curator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    _, form = await curator.get("/archive/aggregate?repository=1")
    refused, body, _ = await curator.post("/archive/aggregate", {"repository_id": "1", "name": "not a set"})
    added, _, target = await curator.post("/archive/aggregate", {"repository_id": "1", "name": "telc"})
    _, page = await curator.get("/archive/aggregate")
    again, _, _ = await curator.post("/archive/aggregate", {"repository_id": "1", "name": "other"})
    _, question = await curator.get("/archive/aggregate/1/remove")
    withdrawn, _, _ = await curator.post("/archive/aggregate/1/remove")
    twice, _, _ = await curator.post("/archive/aggregate/1/remove")
    unknown, _, _ = await curator.post("/archive/aggregate/7/remove")

    assert '<option value="1" selected>' in form
    assert refused == 422
    assert "use 1 to 60 letters" in body
    assert (added, target) == (303, "/archive/aggregate?done=aggregate-added")
    assert "All repositories are in the aggregate." in page
    assert 'href="/archive/aggregate/1/remove"' in page
    assert again == 422, "records keep their set"
    assert "Withdraw Library of Telč from the aggregate?" in question
    assert (withdrawn, twice, unknown) == (303, 409, 404)


async def test_no_repository_is_published_unless_it_is_chosen(server: Server, curator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        a_repository(session, folder="brno")
        session.commit()
    await curator.post("/archive/aggregate", {"repository_id": "2", "name": "telc"})

    _, form = await curator.get("/archive/aggregate?repository=2")
    refused, body, _ = await curator.post("/archive/aggregate", {"repository_id": ""})

    assert re.findall(r'<option value="([^"]*)"', form)[:2] == ["", "1"]
    assert 'value="1" selected' not in form
    assert (refused, "Enter a whole number." in body) == (422, True)


async def test_the_api_publishes_and_withdraws_repositories(server: Server, curator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    api = f"{server.base_url}/api/v1/archive/aggregate/sources"
    headers = {"X-CSRF-Token": await curator.token()}

    async with curator.http.post(api, json={"repository_id": 1}, headers=headers) as answer:
        added = answer.status, (await answer.json())["set_spec"]
    async with curator.http.delete(f"{api}/1", headers=headers) as answer:
        removed = answer.status, (await answer.json())["state"]
    async with curator.http.delete(f"{api}/7", headers=headers) as answer:
        unknown = answer.status

    assert added == (201, "telc-example")
    assert removed == (200, "withdrawn")
    assert unknown == 404


async def test_a_curator_of_another_organisation_sees_only_withdrawn_repositories(
    server: Server, curator: Browser
) -> None:
    with server.database.session() as session:
        for name in ("Telč", "Brno"):
            number = a_repository(session, name=name, folder=name).repository_id
            give_repository(session, number, 2)
        add_source(session, find_repository(session, "1"))
        session.execute(update(User).where(User.name == "Katka").values(organisation_id=1))
        session.commit()
    api = f"{server.base_url}/api/v1/archive/aggregate/sources"
    headers = {"X-CSRF-Token": await curator.token()}

    withdrawn, _, _ = await curator.post("/archive/aggregate/1/remove")
    _, page = await curator.get("/archive/aggregate")
    added, _, _ = await curator.post("/archive/aggregate", {"repository_id": "1"})
    async with curator.http.delete(f"{api}/1", headers=headers) as answer:
        removed = answer.status
    async with curator.http.post(api, json={"repository_id": 1}, headers=headers) as answer:
        again = answer.status
    unseen, _, _ = await curator.post("/archive/aggregate", {"repository_id": "2"})

    assert (withdrawn, added, removed, again, unseen) == (303, 303, 200, 201, 404)
    assert '<option value="1"' in page
    assert 'href="/repositories/1"' not in page, "the curator may not open it"
    assert "Brno" not in page
    with server.database.session() as session:
        session.delete(session.get_one(Repository, 1))
        session.commit()
    gone, _, _ = await curator.post("/archive/aggregate", {"repository_id": "1"})
    assert (gone, '<option value="1"' in (await curator.get("/archive/aggregate"))[1]) == (404, False)
