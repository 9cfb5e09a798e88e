"""A broken record's page fetches it again: it stays broken, or is stored by its schedule's rules."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from lxml import html
from sqlalchemy import func, insert, literal, select, update

from harvester.harvest import checkpoint
from harvester.harvest.checkpoint import only_harvest
from harvester.harvest.harvest import harvest
from harvester.harvest.models import Quarantined
from harvester.harvest.request import HarvestRequest
from harvester.models import History, Record, Repository
from oai.audit import AuditEntry
from oai.errors import required
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_schedule
from web.auth.organisations import find_organisation, give_repository


@pytest.fixture
async def fake(server: Server) -> AsyncIterator[FakeRepository]:
    """A repository of three records that was harvested while the second one was broken."""
    fake = FakeRepository(items=many(3, size=8))
    async with serve(fake):
        with server.database.session() as session:
            row = a_repository(session)
            row.base_url = fake.url
            session.commit()
        fake.fault = lambda _, body: body.replace(b"Title 1", b"Title & 1")
        request = HarvestRequest(repository_id=1)
        await harvest(server.database, server.settings, request, stop=asyncio.Event())
        yield fake


def _schedule(server: Server) -> None:
    with server.database.session() as session:
        schedule = a_schedule(session, session.get_one(Repository, 1), metadata_prefix="oai_dc")
        session.execute(update(History).values(recurring_id=schedule.id))
        session.commit()


def _stored(server: Server) -> set[str]:
    with server.database.session() as session:
        return set(session.scalars(select(Record.identifier)))


@pytest.mark.usefixtures("fake")
async def test_a_record_that_is_still_broken_is_shown_as_it_was_received_now(
    server: Server, administrator: Browser
) -> None:
    _schedule(server)
    _, before = await administrator.get("/errors/1")

    status, page, _ = await administrator.post("/errors/1/again")

    assert "Fetch this record again" in before
    assert "curl --compressed" in before
    assert "mailto:admin@fake.example" in before
    assert status == 200
    assert "The record is still rejected." in page
    assert "Fetch this record again" in page
    assert page.count('class="faulty"') == 2
    assert len(_stored(server)) == 2


async def test_a_corrected_record_is_stored_and_its_error_is_resolved(
    server: Server, administrator: Browser, fake: FakeRepository
) -> None:
    _schedule(server)
    fake.fault = None

    _, page, _ = await administrator.post("/errors/1/again")
    _, after = await administrator.get("/errors/1")
    _, record = await administrator.get("/records/3")

    assert "The record is valid now and was stored." in page
    assert 'href="/records/3"' in page
    assert "&lt;dc:title&gt;Title 1" in record
    assert "The record was read without errors later" in after
    assert "Fetch this record again" not in after
    assert fake.asked[-1]["verb"] == "GetRecord"


@pytest.mark.usefixtures("fake")
async def test_the_letter_has_request_fault_and_correction_in_the_chosen_language(
    administrator: Browser,
) -> None:
    _, page = await administrator.get("/errors/1?letter=cs")
    root: Any = html.fromstring(page)
    letter = root.xpath("string(//pre[@id='letter'])")
    for words in (
        "Vážen",
        "verb=GetRecord&identifier=oai%3Afake.example%3A1",
        "Řádek ",
        "Title & 1",
        "Title &amp; 1",
        "Alena",
    ):
        assert words in letter
    assert ">Request<" in page, "the page itself stays in the reader's language"
    assert "Dear colleague" in (await administrator.get("/errors/1?letter=xx"))[1]


@pytest.mark.usefixtures("fake")
async def test_letter_quotes_the_place_of_a_fault_in_a_long_line(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        error = session.scalars(select(Quarantined)).one()
        error.raw = b"<record>" + b"<a>b</a>" * 1000 + b"Title & 1" + b"<a>b</a>" * 1000 + b"</record>"
        error.raw_size = len(error.raw)
        session.commit()
    _, page = await administrator.get("/errors/1")
    root: Any = html.fromstring(page)
    letter = root.xpath("string(//pre[@id='letter'])")
    assert "Line 1, column 8016:\n    …" in letter
    assert "Title & 1" in letter.partition("column 8016:")[2].partition("\n\n")[0]


@pytest.mark.usefixtures("fake")
async def test_the_letter_has_all_changes_that_make_the_record_readable(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        error = session.scalars(select(Quarantined)).one()
        error.raw = error.raw.replace(b"Title & 1", b"Title & 1 &nbsp; x")
        error.raw_size = len(error.raw)
        session.commit()
    _, page = await administrator.get("/errors/1")
    root: Any = html.fromstring(page)
    letter = root.xpath("string(//pre[@id='letter'])")
    assert "It can be read when this is changed" in letter
    assert "Title &amp; 1" in letter
    assert "&#160; x" in letter


@pytest.mark.usefixtures("fake")
async def test_a_letter_is_signed_with_the_full_name_of_the_organisation(
    server: Server, owner: Browser
) -> None:
    with server.database.session() as session:
        organisation = required(find_organisation(session, "mzk"), "mzk")
        organisation.name = "Moravian Library"
        give_repository(session, 1, organisation.organisation_id)
        session.commit()

    _, page = await owner.get("/errors/1")

    root: Any = html.fromstring(page)
    assert root.xpath("string(//pre[@id='letter'])").endswith("Kind regards\nOlga, Moravian Library\n")


def _letter(page: str) -> str:
    root: Any = html.fromstring(page)
    return str(root.xpath("string(//pre[@id='letter'])"))


async def test_one_letter_has_all_rejected_records_of_a_run_by_kind(
    server: Server, administrator: Browser, fake: FakeRepository
) -> None:
    _schedule(server)
    fake.items += many(12, size=8)[3:]
    fake.fault = lambda _, body: re.sub(rb"Title ([1-8])\b", rb"Title & \1", body).replace(
        b"Title 9", b"Title \x01 9"
    )
    request = HarvestRequest(repository_id=1, full=True)
    await harvest(server.database, server.settings, request, stop=asyncio.Event())
    with server.database.session() as session:
        run = session.scalars(select(func.max(History.history_id))).one()
        session.execute(update(Quarantined).values(history_id=run))
        session.commit()

    _, page = await administrator.get(f"/runs/{run}/errors")
    _, in_czech = await administrator.get(f"/runs/{run}/errors?letter=cs")

    letter = _letter(page)
    assert letter.count("(8)") == letter.count("(1)") == 1
    assert letter.count("    oai:fake.example:") == 6, "five of the first kind"
    assert letter.count("Title &amp; ") == 1, "one worked example of each kind"
    assert "verb=GetRecord&identifier=oai%3Afake.example%3A" in letter
    assert "mailto:admin@fake.example" in page
    assert _letter(in_czech).startswith("Vážen")
    assert "more records that cannot be read than these" not in letter


async def test_the_letter_of_a_run_says_when_it_is_not_about_all_records(
    server: Server, administrator: Browser, fake: FakeRepository
) -> None:
    assert fake.items
    columns = [
        one.key for one in Quarantined.__table__.columns if one.key not in {"quarantine_id", "fault_key"}
    ]
    with server.database.session() as session:
        run = session.scalars(select(Quarantined.history_id)).one()
        copies = select(*(Quarantined.__table__.c[one] for one in columns), func.gen_random_uuid())
        copies = copies.join_from(
            Quarantined, func.generate_series(1, 500).table_valued(), literal(value=True)
        )
        session.execute(insert(Quarantined).from_select([*columns, "fault_key"], copies))
        session.commit()

    _, page = await administrator.get(f"/runs/{run}/errors")

    assert "(500)" in _letter(page)
    assert "There are more records that cannot be read than these." in _letter(page)


async def test_a_run_without_unread_records_has_no_letter(
    server: Server, administrator: Browser, fake: FakeRepository
) -> None:
    assert fake.items
    with server.database.session() as session:
        run = session.scalars(select(Quarantined.history_id)).one()
        session.execute(update(Quarantined).values(resolved=func.now()))
        session.commit()

    status, page = await administrator.get(f"/runs/{run}/errors")

    assert (status, _letter(page)) == (200, "")
    assert "mailto:" not in page


async def test_accepting_a_repair_stores_the_record_and_repairs_later_ones(
    server: Server, administrator: Browser, viewer: Browser, fake: FakeRepository
) -> None:
    _schedule(server)
    _, before = await administrator.get("/errors/1")
    assert "<ins>amp;</ins>" in before
    assert (await viewer.post("/errors/1/repair"))[0] == 403

    _, page, _ = await administrator.post("/errors/1/repair")

    assert "The record is valid now and was stored." in page
    assert len(_stored(server)) == 3
    with server.database.session() as session:
        assert session.get_one(Repository, 1).repairs == ["ampersand"]
    _, settings = await administrator.get("/repositories/1/settings")
    assert 'value="ampersand" checked' in settings
    form = {"base_url": fake.url, "deletion_policy": "remove", "repository_name": ""}
    assert (await administrator.post("/repositories/1/settings", form))[0] == 303
    with server.database.session() as session:
        assert session.get_one(Repository, 1).repairs == []


async def test_the_audit_log_has_a_repair_at_its_repository_and_a_fetched_record(
    server: Server, administrator: Browser, fake: FakeRepository
) -> None:
    _schedule(server)
    fake.fault = None

    await administrator.post("/errors/1/repair")
    await administrator.post("/errors/1/again")

    fetched = ("error.fetch", "error", "1", "oai:fake.example:1")
    with server.database.session() as session:
        repaired, *rest = session.scalars(select(AuditEntry).order_by(AuditEntry.audit_id))
        assert (repaired.action, repaired.object_kind, repaired.object_id) == (
            "repository.repair",
            "repository",
            "1",
        )
        assert repaired.object_name == session.get_one(Repository, 1).display_name
        assert (repaired.before, repaired.after) == ({"repairs": []}, {"repairs": ["ampersand"]})
        found = [(one.action, one.object_kind, one.object_id, one.object_name) for one in rest]
        assert found == [fetched, fetched]


async def test_no_repair_is_proposed_for_a_record_that_no_repair_makes_readable(
    server: Server, administrator: Browser, fake: FakeRepository
) -> None:
    asked = list(fake.asked)
    with server.database.session() as session:
        session.execute(update(Quarantined).values(raw=b"<record><a></record>", raw_size=20))
        session.commit()
    assert "Repair on arrival" not in (await administrator.get("/errors/1"))[1]
    assert (await administrator.post("/errors/1/repair"))[0] == 409
    assert fake.asked == asked, "it was not fetched"


async def test_a_corrected_record_without_a_schedule_is_shown_and_not_stored(
    server: Server, administrator: Browser, fake: FakeRepository
) -> None:
    fake.fault = None

    _, page, _ = await administrator.post("/errors/1/again")

    assert "the next harvest stores it" in page
    assert len(_stored(server)) == 2
    with server.database.session() as session:
        assert session.get_one(Quarantined, 1).resolved is None


async def test_a_record_is_not_fetched_while_its_repository_is_being_harvested(
    server: Server, administrator: Browser, fake: FakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "BUSY_WAIT", "50ms")
    _schedule(server)
    fake.fault = None

    with only_harvest(server.database, 1):
        status, page, _ = await administrator.post("/errors/1/again")

    assert status == 200
    assert "The repository is being harvested" in page
    with server.database.session() as session:
        assert session.scalars(select(AuditEntry)).all() == [], "nothing was changed"


@pytest.mark.usefixtures("fake")
async def test_a_part_without_an_identifier_cannot_be_fetched_again(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        session.execute(update(Quarantined).values(identifier=None))
        session.commit()

    _, page = await administrator.get("/errors/1")
    status, _, _ = await administrator.post("/errors/1/again")

    assert "Fetch this record again" not in page
    assert status == 409


async def test_a_viewer_cannot_fetch_a_record_again(viewer: Browser, fake: FakeRepository) -> None:
    asked = len(fake.asked)

    status, _, _ = await viewer.post("/errors/1/again")

    assert status == 403
    assert len(fake.asked) == asked


async def test_the_api_fetches_a_record_again(
    server: Server, administrator: Browser, fake: FakeRepository
) -> None:
    _schedule(server)
    fake.fault = None
    headers = {"X-CSRF-Token": await administrator.token()}

    async with administrator.http.post(f"{server.base_url}/api/v1/errors/1/again", headers=headers) as answer:
        found = await answer.json()

    assert (answer.status, found["fate"], found["record_id"]) == (200, "stored", 3)
