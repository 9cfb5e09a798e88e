"""The tasks of the three users in a real browser, in Czech, with their clicks and typing counted.

Every task begins on the overview. It is done on a phone with scripts, or on a desktop without; with
`--long`, each is done on a phone, a tablet and a desktop, with scripts and without.
"""

import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from sqlalchemy import select

from harvester.harvest.models import Quarantined
from harvester.repositories import add_repository
from manager.models import Job, JobStatus
from oai.failures import FailureCode
from provider.indexing.models import IndexFile
from provider.models import Document
from tests.chromium import PATIENCE, console_messages
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.provider.archive import Archive
from tests.provider.archives import Page as Capture
from tests.provider.archives import write_pages
from tests.web.conftest import Server, enter
from tests.web.rows import a_repository, a_run
from web.site.keys import SETTINGS

pytestmark = pytest.mark.browser

_WIDTHS: Final = {390: "phone", 1024: "tablet", 1440: "desk"}


def _walked(usual: str) -> pytest.MarkDecorator:
    """Run a test with the device of that name, and with all others if `--long` is given."""
    ways = {
        f"{name}{'' if scripts else '-without-scripts'}": (width, scripts)
        for width, name in _WIDTHS.items()
        for scripts in (True, False)
    }
    walks = [
        pytest.param(way, id=name, marks=[] if name == usual else [pytest.mark.long])
        for name, way in ways.items()
    ]
    return pytest.mark.parametrize("walk", walks, indirect=True)


_ON_THE_PHONE: Final = _walked("phone")
_WITHOUT_SCRIPTS: Final = _walked("desk-without-scripts")


@dataclass(kw_only=True)
class Walk:
    """A user who does a task."""

    page: Page
    server: Server
    console: list[str]
    clicks: int = 0
    typed: list[str] = field(default_factory=list)

    async def sign_in(self, name: str) -> None:
        """Sign in, which does not count."""
        await enter(self.page, self.server, name)

    async def click(self, place: Locator) -> None:
        """Click something that can be seen."""
        self.clicks += 1
        await place.click()

    async def follow(self, name: str, *, exact: bool = False) -> None:
        """Click a link."""
        await self.click(self.page.get_by_role("link", name=name, exact=exact).first)

    async def press(self, name: str, *, exact: bool = False) -> None:
        """Click a button; the last one of that name, because it is below the text to read."""
        await self.click(self.page.get_by_role("button", name=name, exact=exact).last)

    async def type(self, label: str, text: str) -> None:
        """Fill in a field, which is typing and no click."""
        self.typed.append(label)
        await self.page.get_by_role("textbox", name=label).fill(text)

    async def see(self, text: str | re.Pattern[str]) -> None:
        """Read something on the page."""
        await expect(self.page.get_by_text(text).first).to_be_visible(timeout=PATIENCE)


@pytest.fixture
async def walk(server: Server, chromium: Browser, request: pytest.FixtureRequest) -> AsyncIterator[Walk]:
    """A tab of a Czech user, whose console has to stay empty."""
    width, scripts = request.param
    context = await chromium.new_context(
        locale="cs-CZ", viewport={"width": width, "height": 900}, java_script_enabled=scripts
    )
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    walk = Walk(page=page, server=server, console=console_messages(page))
    yield walk
    assert walk.console == []
    await context.close()


@_ON_THE_PHONE
@pytest.mark.usefixtures("manager")
async def test_a_librarian_adds_samples_plans_and_runs_in_six_clicks(walk: Walk) -> None:
    async with serve(FakeRepository(items=many(23), sets=["maps"])) as repository:
        await walk.sign_in("Alena")
        await walk.follow("Přidat repozitář")
        await walk.type("Základní adresa", repository.url)
        await walk.press("Ověřit adresu", exact=True)
        await walk.press("Zobrazit deset záznamů")
        await walk.see("Title 1 ")
        await walk.press("Pokračovat")
        await walk.click(walk.page.get_by_label("Každý den"))
        await walk.press("Uložit a spustit")
        await walk.see(re.compile("23 záznamů, všechny nové|Všechny požadované záznamy"))

    assert walk.clicks <= 6
    assert walk.typed == ["Základní adresa"]


@_WITHOUT_SCRIPTS
async def test_a_librarian_opens_the_letter_from_an_alert_in_three_clicks(walk: Walk) -> None:
    now = datetime.now(UTC)
    with walk.server.database.session() as session:
        telc = a_repository(session)
        run = a_run(session, telc, status="failed", harvest_start_time=now, harvest_end_time=now)
        run.failure_code, run.failure_facts = FailureCode.HOST_UNKNOWN, {}
        session.add(
            Quarantined(
                repository_id=telc.repository_id, metadata_prefix="oai_dc", fault_key=uuid.uuid4(),
                identifier="oai:x:1", reason="xmlParseEntityRef: no name", last_run=now, raw_size=22,
                failure_code=FailureCode.RECORD_XML, history_id=run.history_id,
                url="https://telc.example/oai", raw=b"<record>x & y</record>",
            )
        )  # fmt: skip
        session.commit()
    await walk.sign_in("Alena")
    await walk.follow("právě teď")
    await walk.follow("Chyby")
    await walk.follow("oai:x:1")

    await expect(walk.page.locator("#letter")).to_contain_text("x &amp; y")
    assert (walk.clicks <= 3, walk.typed) == (True, [])


@_ON_THE_PHONE
async def test_an_administrator_sees_late_and_stuck_jobs_and_free_space_without_a_click(walk: Walk) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    with walk.server.database.session() as session:
        for number, columns in enumerate(
            (
                {"status": JobStatus.SCHEDULED, "harvest_start_time": long_ago},
                {
                    "status": JobStatus.IN_PROGRESS,
                    "process_id": 7,
                    "started": long_ago,
                    "stuck_since": long_ago,
                },
            )
        ):
            added = add_repository(session, base_url=f"https://{number}.example/oai", base_dir=f"r{number}")
            session.add(Job(repository_id=added.repository_id, metadata_prefix="oai_dc", **columns))
        session.commit()
    await walk.sign_in("Alena")

    tiles = {
        await one.locator(".what").inner_text(): await one.locator(".much").inner_text()
        for one in await walk.page.locator(".figures li").all()
    }
    assert (tiles["Zpožděné"], tiles["Zaseknuté"]) == ("1", "1")
    assert re.fullmatch(r"[0-9,]+\s[MGT]B", tiles["Volné místo na disku"])
    assert (walk.clicks, walk.typed) == (0, [])


@_WITHOUT_SCRIPTS
async def test_a_curator_takes_a_prefix_down_in_five_clicks(walk: Walk) -> None:
    archive = Archive(walk.server.database, walk.server.settings)
    for path in ("blog/1", "blog/2", "3"):
        archive.add(f"http://www.example.cz/{path}")
    await walk.sign_in("Katka")
    await walk.follow("Znepřístupnit…")
    await walk.type("Adresy", "www.example.cz/blog")
    await walk.type("Důvod", "soudní rozhodnutí")
    await walk.type("Žadatel", "Jan Novák")
    await walk.press("Náhled")
    await walk.see("Týká se 2 dokumentů.")
    await walk.press("Znepřístupnit")
    await expect(walk.page.get_by_text("platí", exact=True)).to_be_visible()

    with walk.server.database.session() as session:
        hidden = session.scalars(select(Document.url).where(Document.deleted)).all()
    assert len(hidden) == 2
    assert walk.clicks <= 5


@_ON_THE_PHONE
async def test_a_curator_indexes_new_files_in_four_clicks(walk: Walk, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    root.mkdir()
    for name in ("a", "b"):
        write_pages(root / f"{name}.warc.gz", [Capture(url=f"http://a.example/{name}")])
    old = walk.server.app[SETTINGS]
    provider = old.provider.model_copy(update={"index_roots": (str(root),)})
    # Settings are read once; tests alone change them under a running application.
    walk.server.app._state[SETTINGS] = old.model_copy(update={"provider": provider})  # noqa: SLF001
    await walk.sign_in("Katka")
    await walk.follow("Indexovat soubory…")
    await walk.press("Indexovat nové a změněné")
    await walk.see("a.warc.gz")

    with walk.server.database.session() as session:
        queued = session.scalars(select(IndexFile.path)).all()
    assert len(queued) == 2
    assert (walk.clicks <= 4, walk.typed) == (True, [])
