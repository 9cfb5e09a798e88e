"""The page of the aggregate: sources, counts, how late it is; for the house alone."""

from tests.provider.aggregate.harvested_rows import Harvested
from tests.web.conftest import Browser, Server
from web.archive.address import aggregate_address


def _given_out(server: Server) -> None:
    harvested = Harvested(database=server.database, settings=server.settings)
    harvested.begin()
    with server.database.session() as session:
        for name in ("a", "b", "c"):
            harvested.write(session, name)
        session.commit()
    harvested.update()


async def test_the_aggregate_tells_its_sources_and_how_late_it_is(
    server: Server, administrator: Browser
) -> None:
    _, empty = await administrator.get("/archive/aggregate")
    _given_out(server)

    _, page = await administrator.get("/archive/aggregate")
    async with administrator.http.get(server.base_url + "/api/v1/archive/aggregate") as answer:
        told = await answer.json()

    assert "No repositories in the aggregate yet." in empty
    assert aggregate_address(server.settings) in page
    assert "http://o/" in page
    assert "original" in page
    assert "oai_dc" in page
    assert " ago</span>" in page
    assert told["records"] == 3
    assert told["followed"] is not None
    assert [(one["set_spec"], one["formats"]) for one in told["sources"]] == [("one", {"oai_dc": 3})]


async def test_partners_do_not_get_there(owner: Browser) -> None:
    status, _ = await owner.get("/archive/aggregate")
    assert status == 403
