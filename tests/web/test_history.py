import re
from datetime import date

import pytest
from sqlalchemy import func, select

from harvester.models import History
from harvester.vocabulary import RunStatus
from manager.jobs.runs import Day
from manager.notices.mutes import acknowledge
from oai.datestamps import utc_now
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run, a_schedule
from web.site.keys import PageSizes
from web.site.plots import bars


async def test_a_run_is_shown_in_full(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_run(
            session,
            a_repository(session),
            status=RunStatus.FAILED,
            verdict="partial",
            record_count=70509,
            invalid_count=3,
            failure_reason="page 3: HTTP status 500",
            warnings=["oai:x:1 <b>: not well-formed"],
            evidence={"complete_list_size": 80000, "ended_by": "error", "pages": [1, 2]},
            requests=14,
            bytes=123_456_789,
        )
        session.commit()

    _, page = await viewer.get("/runs/1")
    _, parameters = await viewer.get("/runs/1/parameters")

    for fact in (
        "70,509",
        "page 3: HTTP status 500",
        "oai:x:1 &lt;b&gt;: not well-formed",
        "Size of the list as announced (completeListSize)",
        "80,000",
        "123\u00a0MB",
        "1:00 min",
        "Only some of the requested records were harvested.",
    ):
        assert fact in page + parameters


async def test_paging_shows_every_run_once(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        for _ in range(60):
            a_run(session, telc)
        session.commit()

    seen, path, pages = [], "/runs?repository=1", 0
    while path:
        _, page = await viewer.get(path)
        seen += re.findall(r'<tr id="run-(\d+)">', page)
        older = re.search(r'href="(/runs\?repository=1&amp;before=\d+)"', page)
        path = older[1].replace("&amp;", "&") if older else ""
        pages += 1

    assert pages == 3
    assert seen == [str(number) for number in range(60, 0, -1)]


async def test_the_history_of_a_repository_shows_only_its_runs(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session))
        a_run(session, a_repository(session, name="KNAV", folder="knav"))
        session.commit()

    _, page = await viewer.get("/runs?repository=2")

    assert re.findall(r'<tr id="run-(\d+)">', page) == ["2"]
    assert (await viewer.get("/runs?repository=3"))[0] == 404
    assert (await viewer.get("/runs?before=nonsense"))[0] == 200


@pytest.mark.parametrize(
    "address",
    [
        "/runs?status=bogus",
        "/runs.csv?status=bogus",
        "/runs.json?since=zzz",
        "/runs?until=2026-02-30",
        "/repositories.csv?state=bogus",
        "/repositories.csv?organisation=bogus",
        "/repositories?organisation=99999999999",
        "/repositories?sort=-bogus",
        "/jobs?view=bogus",
        "/jobs.csv?view=bogus",
        "/admin/users?role=bogus",
        "/admin/users.csv?state=bogus",
        "/admin/audit.csv?since=9999-12-31",
        "/archive/titles.csv?show=bogus",
        "/archive/takedowns.csv?show=bogus",
        "/rules?kind=bogus",
        "/alerts/deliveries?state=bogus",
    ],
)
async def test_a_filter_with_an_unknown_value_is_refused(administrator: Browser, address: str) -> None:
    status, page = await administrator.get(address)

    name, _, value = address.partition("?")[2].partition("=")
    assert (status, f"the invalid filter {name}={value}." in page) == (422, True)


@pytest.mark.parametrize("path", ["/runs", "/runs.csv", "/runs?view=timeline", "/runs?view=calendar"])
async def test_a_format_with_a_nul_character_causes_no_error(viewer: Browser, path: str) -> None:
    assert (await viewer.get(f"{path}{'&' if '?' in path else '?'}format=%00"))[0] == 200


@pytest.mark.parametrize("page_sizes", [PageSizes(timeline_runs=2)])
async def test_the_timeline_says_how_many_of_all_runs_it_shows(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        for _ in range(3):
            a_run(session, telc, harvest_end_time=utc_now())
        a_run(session, a_repository(session, name="KNAV", folder="knav"), harvest_end_time=utc_now())
        session.commit()

    _, page = await viewer.get("/runs?view=timeline")
    _, by_words = await viewer.get("/runs?view=timeline&find=tel")
    _, of_one = await viewer.get("/runs?view=timeline&repository=2")

    assert "The newest 2 of 4 runs are shown." in page
    assert "The newest 2 of 3 runs are shown." in by_words
    assert "are shown" not in of_one


async def test_the_timeline_has_separate_rows_for_repositories_of_the_same_name(
    server: Server, viewer: Browser
) -> None:
    with server.database.session() as session:
        for at in (1, 2):
            repository = a_repository(
                session, name="Slow archive of the town of Plzeň", folder=f"archive-{at}"
            )
            a_run(session, repository, harvest_end_time=utc_now())
            a_schedule(session, repository)
        session.commit()

    _, page = await viewer.get("/runs?view=timeline")
    _, week = await viewer.get("/schedules?view=week")

    rows = re.findall(r'class="axis name"[^>]*>([^<]*)<', page)
    assert re.findall(r"<li>(Slow[^<]*)</li>", page) == rows
    assert sorted(rows) == ["Slow arch…chive-1.example)", "Slow arch…chive-2.example)"]
    assert "Slow archive of the town of Plzeň (archive-2.example) · oai_dc" in page
    assert ">Slow archive of the town of Plzeň (archive-2.example)</a>" in week


async def test_a_run_is_removed_after_a_confirmation_page_that_names_it(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session))
        session.commit()

    _, page = await administrator.get("/runs/1/remove")
    assert "Remove run 1 of Library of Telč from the history?" in page
    _, _, target = await administrator.post("/runs/1/remove")

    assert target == "/runs?done=run-removed"
    with server.database.session() as session:
        assert session.scalars(select(func.count()).select_from(History)).one() == 0


async def test_entries_that_need_attention_beyond_the_shown_rows_are_counted(
    server: Server, viewer: Browser
) -> None:
    now = utc_now()
    with server.database.session() as session:
        telc = a_repository(session)
        for number in range(64):
            run = a_run(session, telc, status=RunStatus.FAILED, harvest_end_time=now, set_spec=f"s{number}")
            if number < 13:
                session.flush()
                acknowledge(session, run.history_id)
        session.commit()

    _, overview = await viewer.get("/")
    _, alerts = await viewer.get("/alerts")

    assert '<a href="/alerts">and 41 more</a>' in overview
    assert '<a href="/alerts">and 3 more</a>' in overview
    assert '<a href="/runs?status=trouble">and 1 more</a>' in alerts
    for page in (overview, alerts):
        assert "13 failures, acknowledged or muted" in page


async def test_the_overview_lists_failed_harvests_until_they_succeed(server: Server, viewer: Browser) -> None:
    now = utc_now()
    with server.database.session() as session:
        telc, knav = a_repository(session), a_repository(session, name="KNAV", folder="knav")
        a_run(session, telc, status=RunStatus.FAILED, harvest_end_time=now, record_count=5)
        a_run(session, knav, status=RunStatus.INCOMPLETE, harvest_end_time=now, failure_reason="power cut")
        a_run(session, telc, status=RunStatus.COMPLETED, harvest_end_time=now, new_count=1200)
        session.commit()

    _, page = await viewer.get("/")

    attention = page[page.index("Needs attention") : page.index("<h2>Upcoming harvests</h2>")]
    assert "KNAV" in attention
    assert "power cut" in attention
    assert "Library of Telč" not in attention
    assert 'New, 24 hours</span> <span class="much">1,200</span>' in page
    assert 'Late</span> <span class="much">0</span>' in page


async def test_what_needs_attention_leads_to_what_is_to_be_done(server: Server, viewer: Browser) -> None:
    now = utc_now()
    with server.database.session() as session:
        telc = a_repository(session)
        for status, columns in (
            (RunStatus.HELD, {"failure_reason": "held by the mass-change guard"}),
            (RunStatus.COMPLETED_WITH_ERRORS, {"invalid_count": 1300}),
            (RunStatus.FAILED, {}),
        ):
            a_run(session, telc, status=status, harvest_end_time=now, set_spec=status.value, **columns)
        session.commit()

    for page in ((await viewer.get("/"))[1], (await viewer.get("/alerts"))[1]):
        links = re.findall(r'<a class="button" href="(/runs/[^"]*)" aria-label="([^"]*)"', page)
        assert links == [
            ("/runs/3", "Show run: Library of Telč"),
            ("/runs/2/errors", "Show rejected records: Library of Telč"),
            ("/runs/1#held", "Review changes…: Library of Telč"),
        ]
        assert page.count("Rejected records: 1,300") == 1


def test_the_bar_of_a_day_without_records_can_show_the_focus() -> None:
    day = date(2026, 10, 10)
    found = Day(day=day, worst=RunStatus.FAILED, runs=1, troubled=1, records=0, new=0, changed=0)
    plot = bars([found], day, day, link=str, label="Records")
    assert re.findall(r'<rect[^>]* height="([^"]*)"', plot) == ["1.0", "1.0"]
