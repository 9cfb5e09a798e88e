import asyncio
import re

from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.web.conftest import Browser, Server
from tests.web.rows import BEGAN, a_repository, an_examination
from web.repositories.diagnostics import DIAGNOSTICS


async def test_diagnostics_run_once_show_their_progress_and_end_with_the_server(
    server: Server, administrator: Browser
) -> None:
    async with serve(FakeRepository(items=many(3))) as served:
        with server.database.session() as session:
            a_repository(session).base_url = served.url
            session.commit()

        _, _, target = await administrator.post("/repositories/1/doctor")
        await administrator.post("/repositories/1/doctor")
        under_way = server.app[DIAGNOSTICS].of(1)
        assert under_way is not None
        while not under_way.facts:  # noqa: ASYNC110 only the page shows the progress
            await asyncio.sleep(0.01)
        _, page = await administrator.get(target)
        assert "Diagnostics in progress" in page
        assert len([asked for asked in served.asked if asked["verb"] == "Identify"]) == 1

        await server.app[DIAGNOSTICS].close()

    assert server.app[DIAGNOSTICS].of(1) is None


async def test_failed_diagnostics_show_the_reason(server: Server, administrator: Browser) -> None:
    async with serve(FakeRepository()) as served:
        gone = served.url
    with server.database.session() as session:
        a_repository(session).base_url = gone
        session.commit()

    await administrator.post("/repositories/1/doctor")
    while server.app[DIAGNOSTICS].of(1):  # noqa: ASYNC110 as above
        await asyncio.sleep(0.05)
    _, page = await administrator.get("/repositories/1/doctor")

    assert "The server does not accept connections on this port." in page


async def test_the_report_has_a_letter_and_its_profile_fills_new_schedules(
    server: Server, administrator: Browser
) -> None:
    report = an_examination()
    with server.database.session() as session:
        telc = a_repository(session)
        telc.examined, telc.examination = BEGAN, report.as_json()
        telc.profile = report.profile.as_json()
        session.commit()

    _, page = await administrator.get("/repositories/1/doctor")
    _, schedule = await administrator.get("/schedules/new?repository=1")

    assert "an interrupted harvest has to start again" in page
    assert "mailto:librarian@telc.example?subject=" in page
    assert page.index("mailto:") < page.index("month by month"), "findings and letter, then settings"
    assert re.findall(r'<span class="state ([a-z]+)', page) == ["bad", "caution", "neutral", "good"]
    assert '<option value="month" selected>' in schedule


async def test_a_viewer_cannot_run_diagnostics(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    assert (await viewer.post("/repositories/1/doctor"))[0] == 403
