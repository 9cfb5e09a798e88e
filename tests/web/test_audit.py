import csv
import io
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from oai.database import Database
from oai.settings import Settings
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_schedule
from web.log_entries import Filter, audit, list_entries
from web.models import AuditEntry


def _a_schedule(server: Server) -> int:
    with server.database.session() as session:
        number = a_schedule(session, a_repository(session, name="Library of Telč")).id
        session.commit()
    return number


async def test_every_change_is_noted_with_who_what_and_from_where(
    server: Server, administrator: Browser
) -> None:
    number = _a_schedule(server)

    await administrator.post(f"/schedules/{number}/pause")

    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "schedules.pause")).one()
    assert entry.user_name == "Alena"
    assert (entry.object_kind, entry.object_id, entry.object_name) == (
        "schedule",
        str(number),
        "Library of Telč",
    )
    assert (entry.address, entry.via, entry.status) == ("127.0.0.1", "link", 303)


async def test_what_is_refused_or_only_looked_at_is_not_noted(server: Server, viewer: Browser) -> None:
    number = _a_schedule(server)

    await viewer.post(f"/schedules/{number}/pause")
    await viewer.get("/schedules")

    with server.database.session() as session:
        assert session.scalars(select(AuditEntry.action)).all() == ["sign-in"]


@pytest.mark.usefixtures("viewer")
async def test_a_sign_in_names_its_user(server: Server) -> None:
    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry)).one()

    assert (entry.action, entry.user_name, entry.object_name) == ("sign-in", "Viktor", "Viktor")


async def test_the_page_filters_pages_and_gives_csv(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        for number in range(120):
            audit(
                session,
                server.settings.web,
                action="schedules.run" if number % 2 else "jobs.pause",
                user_name="=Eva",
                object_kind="schedule",
                object_id=str(number),
            )
        session.commit()

    _, page = await administrator.get("/admin/audit?action=schedules.run")
    assert page.count('id="entry-') == 50
    older = page.partition('class="pager"')[2].partition('href="')[2].partition('"')[0].replace("&amp;", "&")
    _, rest = await administrator.get(older)
    assert rest.count('id="entry-') == 10
    assert "jobs.pause</span>" not in page + rest
    status, text = await administrator.get("/admin/audit.csv?user=%3DEva")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert status == 200
    assert len(rows) == 120
    assert rows[0]["user_name"] == "'=Eva", "no formula for a spreadsheet"
    for odd in ("since=2026-13-99", "until=9999-12-31", "before=x", "user=%00", "number=%ff"):
        assert (await administrator.get(f"/admin/audit?{odd}"))[0] == 200, odd


def test_entries_are_kept_for_the_days_that_are_set(database: Database, settings: Settings) -> None:
    with database.session() as session:
        for action in ("first", "second"):
            audit(session, settings.web, action=action)
            session.flush()
        session.execute(update(AuditEntry).values(at=func.now() - timedelta(days=366)))

        audit(session, settings.web.model_copy(update={"audit_days": 0}), action="third")
        session.flush()
        assert len(list_entries(session, Filter())) == 3
        audit(session, settings.web, action="fourth")
        session.flush()

        assert [entry.action for entry in list_entries(session, Filter())] == ["fourth", "third"]
