"""Every page is checked with axe, light and dark, wide and narrow."""

import itertools
import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from harvester.harvest.models import Quarantined
from harvester.models import History, Record, Repository
from harvester.store.paths import identifier_key
from harvester.vocabulary import RunStatus
from manager.models import JobStatus
from manager.notices.models import Kind, MuteKind, Notice, NoticeRule, NoticeState, Occasion
from manager.notices.mutes import acknowledge, mute
from oai.errors import required
from provider.models import Takedown
from tests.inspector import Inspector
from tests.web.conftest import Server, enter
from tests.web.pages import PAGES
from tests.web.repository import repository
from tests.web.rows import (
    BEGAN,
    a_bibliographic_record,
    a_filtering_set,
    a_hold,
    a_repository,
    a_rule,
    a_run,
    a_schedule,
    a_store_audit,
    a_worker,
    an_examination,
    some_exports,
    some_titles,
)
from web.auth.users import find_user, set_language

pytestmark = pytest.mark.browser

_LANGUAGES = ("cs", "sk", "en")
"""Of the tests that share the pages. One test has them all: its process then knows the kinds of elements."""
_ALIKE = re.compile(
    r"/(jobs/1/(pause|resume|kill|remove)|(schedules|sets|rules|exports|organisations)/./remove|1/disable"
    r"|workers/1/drain|runs/1/release)$"
)
"""Confirmation pages: the template of `/jobs/1/stop` with other words. Tested with `--long`."""
_AGAIN = frozenset(
    {
        "/admin/organisations/new",
        "/admin/users/new",
        "/admin/users?words=nobody",
        "/alerts/rules/new",
        "/alerts/rules/new?repository=1",
        "/archive/aggregate",
        "/archive/collections",
        "/archive/documents",
        "/archive/harvesters",
        "/archive/sets?tree=domain",
        "/archive/titles?q=x&source=library&show=listed",
        "/imports/sets/new",
        "/repositories/1/explorer",
        "/repositories/1/remove",
        "/repositories?find=x",
        "/rules/by-example",
        "/rules/new",
        "/runs/1/changes",
        "/runs/1/log?level=error",
        "/runs/1/remove",
        "/runs/1/requests",
        "/schedules/new?repository=1",
        "/search",
    }
)
"""Pages whose elements are all, with the same classes at the same places, on others. `--long` has them."""
_LONG = "https://repository.example/oai?verb=ListRecords&resumptionToken=" + "x" * 120 + ": HTTP status 500"


@pytest.fixture
def poll_seconds() -> float:
    """Read rows rarely: no test here waits for them, and frequent reads slow the checks down."""
    return 1.0


def _fill(server: Server) -> None:
    """Add objects of each kind, with long names and addresses."""
    with server.database.session() as session:
        telc = a_repository(session, name="Library of Telč" + " and its many friends" * 4)
        schedule = a_schedule(session, telc, set_spec="books:" + "a" * 80)
        a_run(
            session,
            telc,
            status=RunStatus.FAILED,
            failure_reason=_LONG,
            warnings=[_LONG],
            evidence={"x": _LONG},
        )
        for status in RunStatus:
            a_run(session, telc, status=status)
        add_job = text(
            "INSERT INTO oai_job (repository_id, recurring_id, status, process_id, host, started) "
            "VALUES (1, :schedule, :status, 7, 'worker-1.library.example', now())"
        )
        for job_status in JobStatus:
            session.execute(add_job, {"schedule": schedule.id, "status": job_status})
        _fill_details(session, telc)
        progress = (
            "INSERT INTO oai_harvest (repository_id, metadata_prefix, job_id, run_started, counts, "
            "complete_list_size, last_error) VALUES (1, 'oai_dc', 2, now(), '{}', 1000, :error)"
        )
        session.execute(text(progress), {"error": _LONG})
        session.commit()


def _fill_details(session: Session, telc: Repository) -> None:
    """A record, a broken one, a run with its course and one that is held, an examination."""
    identifier = "oai:telc.example:" + "1" * 90
    session.execute(
        insert(Record).values(
            repository_id=telc.repository_id, identifier=identifier,
            identifier_key=identifier_key(identifier), datestamp="2026-01-01", metadata_prefix="oai_dc",
        )
    )  # fmt: skip
    session.execute(
        insert(Quarantined).values(
            repository_id=telc.repository_id, metadata_prefix="oai_dc", fault_key=uuid.uuid4(),
            identifier="oai:telc.example:" + "2" * 90, reason="xmlParseEntityRef: no name, line 2", url=_LONG,
            raw=b"<record>\n<a>x & y\x01\xff</a>" + b"z" * 300, raw_size=320, last_run=BEGAN, history_id=1,
        )
    )  # fmt: skip
    run = session.get_one(History, 1)
    run.pace = [[0.5, 10, 1], [1.0, 20, 2], [1.5, 40, 3]]
    a_hold(session, run, sample=["oai:telc.example:" + digit * 90 for digit in "13"])
    _fill_alerts(session, telc)
    a_worker(session)
    a_store_audit(session, telc, path="a/" + "long-folder-name/" * 10 + "1.xml")
    a_rule(session, telc)
    a_rule(session, telc, ' ignoreCase="true"')  # which can be edited in words
    a_filtering_set(session)
    session.add(Takedown(targets=["http://" + "a" * 60 + ".example.cz/*"], reason=_LONG, requester=_LONG))
    some_titles(session)
    some_exports(session)
    a_bibliographic_record(session, telc, title="Slovník " + "staročeský " * 20)
    telc.examined, telc.examination = BEGAN, an_examination().as_json()
    telc.profile = an_examination().profile.as_json()
    session.flush()


def _fill_alerts(session: Session, telc: Repository) -> None:
    """A rule of each kind, and a message in each state about each occasion."""
    for kind in Kind:
        target = f"{kind}.{'a' * 60}@telc.example, b@telc.example"
        session.add(NoticeRule(repository_id=telc.repository_id, kind=kind, channel="mail", target=target))
        session.flush()
    session.add(NoticeRule(channel="webhook", target="https://telc.example/" + "hook" * 20))
    now, hour = datetime.now(UTC), timedelta(hours=1)
    for part in ("books", "journals"):
        run = a_run(
            session, telc, status="failed", set_spec=part, harvest_start_time=now, harvest_end_time=now
        )
    acknowledge(session, run.history_id, note=_LONG, by="Alena")
    mute(session, None, MuteKind.MAINTENANCE, note=_LONG, starts=now + hour, ends=now + 2 * hour)
    for state, occasion in itertools.zip_longest(NoticeState, Occasion, fillvalue="sent"):
        session.add(
            Notice(
                rule_id=1, history_id=1, occasion=occasion, channel="mail", target="b@telc.example", tries=1,
                facts={"repository_name": telc.repository_name}, state=state, last_error=_LONG,
            )
        )  # fmt: skip
    session.flush()


@pytest.mark.slow
async def test_every_page_is_accessible(
    server: Server, inspector: Inspector, request: pytest.FixtureRequest
) -> None:
    _fill(server)
    await enter(inspector.page, server)
    long = request.config.getoption("--long")
    pages = [path for path in PAGES if long or (path not in _AGAIN and not _ALIKE.search(path))]
    for number, language in enumerate(_LANGUAGES):
        with server.database.session() as session:
            alena = required(find_user(session, "Alena"), "a standing user")
            set_language(session, alena.user_id, language)
            session.commit()
        mine = pages[number :: len(_LANGUAGES)]
        await inspector.check(*(server.base_url + path for path in mine))


async def test_signing_in_and_adding_a_repository_are_accessible(
    server: Server, inspector: Inspector
) -> None:
    page = inspector.page
    await inspector.check(server.base_url + "/sign-in", server.link("Viktor"))
    await enter(page, server)
    await page.locator(".tabs summary").click()
    await inspector.check()
    await page.goto(server.base_url + "/repositories/new")
    await page.get_by_role("button", name="Check address", exact=True).click()
    await expect(page.get_by_role("alert")).to_be_focused()
    await inspector.check()
    async with repository() as address:
        await page.get_by_label("Base URL").fill(f"{address}/oai")
        await page.get_by_role("button", name="Check address", exact=True).click()
        await inspector.check()
        await page.get_by_role("button", name="Continue").last.click()
        await page.get_by_label("For experts").check()
        await page.get_by_role("textbox", name="Frequency").fill("sometimes")
        await page.get_by_role("button", name="Preview schedule").last.click()
        await expect(page.get_by_role("alert")).to_be_focused()
        await inspector.check()


async def test_pages_of_viewers_are_accessible_when_empty_and_when_filled(
    server: Server, inspector: Inspector
) -> None:
    await enter(inspector.page, server, "Viktor")
    await inspector.check(*(server.base_url + path for path in ("/", "/repositories", "/schedules")))
    _fill(server)
    await inspector.check(*(server.base_url + path for path in ("/", "/repositories/1", "/schedules")))


async def test_lists_fit_the_page_when_printed(server: Server, inspector: Inspector) -> None:
    _fill(server)
    await enter(inspector.page, server)
    paths = ("/", "/repositories", "/runs", "/jobs", "/alerts/deliveries")
    await inspector.check_prints(*(server.base_url + path for path in paths))


async def test_each_kind_of_fault_is_found_on_an_accessible_page(
    server: Server, inspector: Inspector
) -> None:
    await inspector.check(server.base_url + "/sign-in")
    for fault, found in (
        ("main label').remove()", "label"),
        ("main form button').textContent = ''", "button-name"),
        ("h1').remove()", "page-has-heading-one"),
        ("main label').style.color = '#999'", "color-contrast"),
        ("main form button').style.marginLeft = '2000px'", "out of reach"),
        ("main label').style.paddingLeft = '400px'", "beyond its card"),
        ("main form').outerHTML = '<p class=inline><button>a</button><button><span>b<br>c'", "uneven"),
    ):
        await inspector.page.reload()
        await inspector.page.evaluate(f"document.querySelector('{fault}")
        with pytest.raises(AssertionError, match=found):
            await inspector.check()
