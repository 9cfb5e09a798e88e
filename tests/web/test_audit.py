import ast
import csv
import io
import re
from collections import defaultdict
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import pytest
from lxml import html
from sqlalchemy import func, insert, select, update

from harvester.models import Repository
from harvester.repositories import add_repository
from manager.models import RecurringState
from manager.schedules.service import run_now
from manager.worker.process import environment_for
from oai.actions import ACTIONS, VERB_TITLES
from oai.audit import (
    BEGUN,
    KIND_TITLES,
    TABLES,
    Actor,
    AuditEntry,
    Filter,
    Subject,
    begin,
    list_entries,
    record,
    settle,
)
from oai.database import Database
from oai.models import Base
from oai.owners import Organisation
from oai.rights import Scope
from tests.commands import zatva_beside
from tests.measures import ROOT
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_schedule
from web.admin.changes import LABELS, changes_of
from web.auth.access import KIND_OF_ROW
from web.auth.api_tokens import make_token
from web.auth.organisations import add_organisation
from web.auth.users import add_user, find_user
from web.site.i18n import use_language


def _a_schedule(server: Server) -> int:
    with server.database.session() as session:
        number = a_schedule(session, a_repository(session, name="Library of Telč")).id
        session.commit()
    return number


def _a_token(server: Server) -> str:
    with server.database.session() as session:
        alena = find_user(session, "Alena")
        assert alena is not None
        _, token = make_token(
            session, server.settings.web, alena.user_id, name="t", scopes=[Scope.READ, Scope.HARVEST]
        )
        session.commit()
    return token


async def test_a_change_is_recorded_with_user_object_and_address(
    server: Server, administrator: Browser
) -> None:
    number = _a_schedule(server)

    await administrator.post(f"/schedules/{number}/pause")

    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "schedule.pause")).one()
    assert entry.user_name == "Alena"
    assert (entry.object_kind, entry.object_id, entry.object_name) == (
        "schedule",
        str(number),
        "Library of Telč",
    )
    assert (entry.address, entry.via, entry.status) == ("127.0.0.1", "link", 303)


async def test_refusals_are_counted_in_one_entry_and_reading_in_none(server: Server, viewer: Browser) -> None:
    number = _a_schedule(server)

    for _ in range(3):
        await viewer.post(f"/schedules/{number}/pause")
    await viewer.get("/schedules")

    with server.database.session() as session:
        entries = session.scalars(select(AuditEntry).order_by(AuditEntry.audit_id)).all()
        found = [(entry.action, entry.user_name, entry.status, entry.count) for entry in entries]
    assert found == [("schedule.pause", "Viktor", 403, 3)]


async def test_refused_requests_of_strangers_share_one_entry(server: Server, stranger: Browser) -> None:
    for number in range(1, 4):
        await stranger.post(f"/schedules/{number}/pause")

    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry)).one()
    assert (entry.action, entry.user_name, entry.status, entry.count) == ("schedule.pause", None, 401, 3)


async def test_wrong_input_and_steps_of_a_form_leave_no_entry(server: Server, administrator: Browser) -> None:
    number = _a_schedule(server)

    wrong, _, _ = await administrator.post(f"/schedules/{number}/sample", {"records": "many"})
    step, _, _ = await administrator.post(
        "/repositories/new", {"do": "back-to-address", "base_url": "http://a.example"}
    )

    assert (wrong, step) == (422, 200)
    with server.database.session() as session:
        assert session.scalars(select(AuditEntry.action)).all() == []


@pytest.mark.parametrize("surface", ["page", "API", "command"])
async def test_every_surface_writes_the_same_single_entry(
    server: Server, administrator: Browser, surface: str
) -> None:
    number = _a_schedule(server)

    if surface == "page":
        await administrator.post(f"/schedules/{number}/pause")
    elif surface == "API":
        headers = {"Authorization": f"Bearer {_a_token(server)}"}
        url = f"{server.base_url}/api/v1/schedules/{number}/pause"
        async with administrator.http.post(url, headers=headers) as answer:
            assert answer.status == 200
    else:
        environment = environment_for(server.settings)
        assert (await zatva_beside(environment, "schedule", "pause", str(number))).returncode == 0

    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action != "sign-in")).one()
    assert (entry.action, entry.object_kind, entry.object_id) == ("schedule.pause", "schedule", str(number))
    assert entry.before == {"state": RecurringState.NEW}
    assert entry.after == {"state": RecurringState.PAUSED}
    assert entry.via == {"page": "link", "API": "token", "command": "command"}[surface]


async def test_the_page_shows_what_changed_and_what_was_refused(
    server: Server, administrator: Browser, viewer: Browser
) -> None:
    number = _a_schedule(server)
    with server.database.session() as session:
        job = run_now(session, number).job_id
        session.commit()
    await administrator.post(f"/jobs/{job}/pause")
    await administrator.post(f"/schedules/{number}/pause")
    await viewer.post(f"/schedules/{number}/pause")
    await viewer.post(f"/schedules/{number}/pause")
    edited = {
        "metadata_prefix": "marc21",
        "frequency": "every 6 hours",
        "validation": "1",
        "incremental": "yes",
    }
    rarely = {**edited, "method": "1", "slice": "month", "overlap": "queue"}
    for form in (edited, rarely):
        assert (await administrator.post(f"/schedules/{number}/edit", form))[0] == 303

    async with administrator.http.get(
        server.base_url + "/admin/audit", headers={"Accept-Language": "cs"}
    ) as answer:
        page = await answer.text()

    changes = re.findall(r'<span class="under">(.+: <span.+ → .+)</span>', page)
    shown = re.sub("<[^>]+>", "|", " ".join(changes))
    for expected in (
        "Stav: |ve frontě| → |pozastaveno|",
        "Stav: |nový| → |pozastaveno|",
        "Kontrola záznamů: |Volná| → |Velmi přísná|",
        ": |ListRecords| → |ListIdentifiers, pak GetRecord pro každý záznam|",
        " → |Měsíc po měsíci|",
        ": |Vynechat| → |Spustit po skončení předchozího běhu|",
    ):
        assert expected in shown
    assert "Četnost: |každý den v 02:30| → |každých 6 hodin" in shown
    assert "odmítnuto: 2" in page
    assert '<data value="schedule.pause">Pozastavit plán</data>' in page
    assert f'<data value="schedule">plán</data> <span class="mono">{number}</span>' in page
    assert '<option value="schedule.pause">Pozastavit plán</option>' in page


async def test_the_page_uses_the_labels_of_the_forms_and_names_the_repository(
    server: Server, administrator: Browser, viewer: Browser
) -> None:
    number = _a_schedule(server)
    dated = {"metadata_prefix": "marc21", "frequency": "daily at 02:30", "harvest_from": "2020-01-01"}
    mute = {"repository": "1", "kind": "maintenance", "hours": "4", "note": "move"}
    rule = {
        "repository": "all",
        "kind": "error",
        "channel": "mail",
        "target": "j@mzk.example",
        "language": "cs",
    }
    for path, form in (
        (f"/schedules/{number}/edit", dated),
        ("/alerts/mutes/new", mute),
        ("/alerts/rules/new?repository=1", rule),
    ):
        status, answer, _ = await administrator.post(path, form)
        assert status == 303, answer
    await viewer.post(f"/schedules/{number}/pause")

    async with administrator.http.get(
        server.base_url + "/admin/audit", headers={"Accept-Language": "cs"}
    ) as answered:
        page: Any = html.fromstring(await answered.text())

    shown = [" ".join(one.text_content().split()) for one in page.find_class("under")]
    assert any(re.fullmatch(r"Od data změny: .+ → 1\. 1\. 2020", one) for one in shown)
    assert {"Druh: údržba", "Kdy: Selhání", "Způsob doručení: E-mailem", "Jazyk: Čeština"} <= set(shown)
    assert "odmítnuto: 1 (chybí oprávnění)" in shown
    muted = page.xpath("//tr[td/span/data[@value='mute.add']]")[0]
    assert "Library of Telč" in muted.text_content()


@pytest.mark.parametrize(
    ("kind", "after", "shown"),
    [
        ("user", {"name": "novak"}, ["Uživatelské jméno: novak"]),
        ("repository", {"name": "MZK"}, ["Název: MZK"]),
        (
            "aggregate source",
            {"name": "mzk", "repository_name": "MZK", "identifiers": "original"},
            ["Sada: mzk", "Název: MZK", "Identifikátory: původní"],
        ),
        ("titles", {"new": 3, "name": "mzk"}, ["Nové: 3", "Název: mzk"]),
    ],
)
def test_labels_of_changes_fit_the_kind_of_object(
    kind: str, after: dict[str, object], shown: list[str]
) -> None:
    entry = AuditEntry(object_kind=kind, after=after)

    def read() -> list[str]:
        use_language("cs")
        return [f"{change.label}: {change.after}" for change in changes_of(entry)]

    assert copy_context().run(read) == shown


def test_each_verb_and_kind_that_the_code_writes_has_a_title() -> None:
    """`test_no_message_is_missing_or_left_over` requires each of the words in every language."""
    used = _words_used()
    exports = used["export"] | used["export_list"] | used["record_export"]
    verbs = set().union(*(used[name] for name in ("count_refusal", "record", "refuse", "begin", "_record")))
    kinds = used["about"] | used["Subject"] | {action.object_kind for action in ACTIONS}

    assert len(exports) > 20
    assert {f"{name.rstrip('-')}.export" for name in exports} <= VERB_TITLES.keys()
    assert {"account.openid", "sign-in.limited"} <= verbs <= VERB_TITLES.keys()
    assert "notification address" in kinds
    assert kinds | set(KIND_OF_ROW.values()) <= KIND_TITLES.keys()


def test_each_column_that_changes_has_a_label() -> None:
    """The others are not shown."""
    unsaid = """
        added announced arc_id attempt byte_offset changed chosen continued_by created date_added
        datestamp declared_type digest disappeared_count domain_id evidence export_id failure_code
        failure_facts fault_key filter_digest filtered_count first_seen guarded harvest_id
        history_id host_id http_status id identifier_key key last_due last_history last_run
        last_seen left_out length made_by mime_id mime_major_id moved mute_id name_given
        namespace
        normalize_digest offset
        pace packed_length pages_before plain_prefix postponed_count process_id quarantine_id
        queued raw_path raw_size recognised_type record_type registry_prefix repeated_count
        renamed replay_of requests revision rule_id run_started schedule_id seen_history state_failure
        stuck_since summarised takedown_id title_id tld_id token_id tombstone_count unchanged_count unlisted
        unsettled url_key usual_seconds waiting walk walked_key walked_prefix warning_failures
        warnings worker_id
    """
    columns = {
        column.name
        for table in TABLES.values()
        for column in Base.metadata.tables[table.name].c
        if column.name not in table.secret
    }

    assert columns - LABELS.keys() == set(unsaid.split())


def _words_used() -> dict[str, set[str]]:
    """The words that are given to each function, as its second argument or as the kind of a subject."""
    found = defaultdict[str, set[str]](set)
    for package in ("web", "oai"):
        for file in (ROOT / package).rglob("*.py"):
            for call in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(call, ast.Call):
                    name = ast.unparse(call.func)
                    for one in call.keywords:
                        found[name] |= _texts(one.value) if one.arg == "kind" else set()
                    if len(call.args) > 1:
                        # The database's executor calls its first argument.
                        called = ast.unparse(call.args[0]) if name.endswith(".run") else name
                        found[called] |= _texts(call.args[1])
    return found


def _texts(argument: ast.expr) -> set[str]:
    """What an expression says: a constant, one of a table's, or what an f-string begins with."""
    match argument:
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return {text}
        case ast.Call(func=ast.Attribute(value=ast.Dict(values=values)), args=[_, other]):
            return set[str]().union(*map(_texts, (*values, other)))
    return set()


async def test_an_export_is_recorded(server: Server, administrator: Browser) -> None:
    assert (await administrator.get("/schedules.csv"))[0] == 200

    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "schedules.export")).one()
    assert (entry.user_name, entry.object_kind, entry.object_id) == ("Alena", "export", "csv")


def test_a_change_that_is_killed_leaves_an_entry_about_its_beginning(database: Database) -> None:
    who = Actor(name="Alena", via="command")
    with database.session() as session:
        begin(session, "schedule.pause", who, Subject(kind="schedule", number="7"))

    with database.session() as session:
        entry = session.scalars(select(AuditEntry)).one()
    assert (entry.status, entry.object_id) == (BEGUN, "7")


def test_failed_and_refused_changes_are_kept_and_those_with_invalid_input_are_not(database: Database) -> None:
    who, subject = Actor(name="Alena", via="command"), Subject(kind="schedule", number="7")
    with database.session() as session:
        for status in (500, 422, 403):
            begun = begin(session, "schedule.pause", who, subject)
            settle(session, begun, who, subject, status=status, audit_days=0)

        assert sorted(session.scalars(select(AuditEntry.status))) == [403, 500]


def test_secrets_are_not_logged_and_long_values_are_cut(database: Database) -> None:
    who = Actor(name="Alena", via="command")
    with database.session() as session:
        user = add_user(session, "Adam")
        user.password_hash = "argon2"
        organisation = add_organisation(session, short_name="mzk", name="M" * 200)
        session.commit()
        for kind, number in (("user", "Adam"), ("organisation", str(organisation.organisation_id))):
            begun = begin(session, f"{kind}.add", who, Subject(kind=kind))
            settle(session, begun, who, Subject(kind=kind, number=number), status=200, audit_days=0)
        session.execute(update(Organisation).values(name="M" * 5000))
        begun = begin(session, "organisation.edit", who, Subject(kind="organisation", number="mzk"))
        session.execute(update(Organisation).values(name="N" * 5000))
        session.commit()
        settle(session, begun, who, Subject(kind="organisation", number="mzk"), status=200, audit_days=0)

        made, _organisation, changed = session.scalars(select(AuditEntry).order_by(AuditEntry.audit_id))
        assert made.after is not None
        assert made.object_id == str(user.user_id)
        assert made.after["name"] == "Adam"
        assert "password_hash" not in made.after
        assert changed.before == {"name": "M" * 1000 + "…"}
        assert changed.after == {"name": "N" * 1000 + "…"}


def test_credentials_in_urls_are_not_logged(database: Database) -> None:
    who = Actor(name="Alena", via="command")
    old, new = "https://me:0ld@a.example/oai", "https://me:n3w@a.example/oai"
    with database.session() as session:
        number = str(add_repository(session, base_url=old, base_dir="a").repository_id)
        session.commit()
        subject = Subject(kind="repository", number=number, name=old, details={"targets": [old]})
        begun = begin(session, "repository.edit", who, subject)
        session.execute(update(Repository).values(base_url=new))
        session.commit()
        settle(session, begun, who, subject, status=200, audit_days=0)
        begin(session, "repository.refresh", who, Subject(kind="repository", number=new))
        record(
            session, "alert.test", who, Subject(kind="notification rule", name=new), status=200, audit_days=0
        )

        changed, killed, recorded = session.scalars(select(AuditEntry).order_by(AuditEntry.audit_id))
        url = "https://a.example/oai"
        assert changed.object_name == url
        # That the base URL was changed is shown; a password is neither shown nor compared with another.
        assert changed.before == {"base_url": url}
        assert changed.after == {"base_url": url, "targets": [url]}
        assert (killed.object_id, recorded.object_name) == (url, url)


def test_entries_of_earlier_versions_are_found_by_the_verb(database: Database) -> None:
    with database.session() as session:
        for action in ("schedules.pause", "api.v1.schedules.pause", "schedule.pause", "schedules.resume"):
            session.add(AuditEntry(action=action))
        session.flush()

        found = list_entries(session, Filter(action="schedule.pause"))

    assert {entry.action for entry in found} == {
        "schedules.pause",
        "api.v1.schedules.pause",
        "schedule.pause",
    }


async def test_a_sign_in_names_its_user(server: Server, stranger: Browser) -> None:
    await stranger.sign_in(server.link("Viktor"))

    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry)).one()

    assert (entry.action, entry.user_name, entry.object_name) == ("sign-in", "Viktor", "Viktor")
    assert (entry.before, entry.after) == (None, None), "nothing of the user has changed"


async def test_the_page_filters_entries_lists_them_by_pages_and_exports_csv(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        for number in range(120):
            action = "schedules.run" if number % 2 else "jobs.pause"
            subject = Subject(kind="schedule", number=str(number))
            record(session, action, Actor(name="=Eva", via="link"), subject, status=303, audit_days=0)
        session.commit()

    _, page = await administrator.get("/admin/audit?action=schedules.run")
    assert page.count('id="entry-') == 50
    older = page.partition('class="pager"')[2].partition('href="')[2].partition('"')[0].replace("&amp;", "&")
    _, rest = await administrator.get(older)
    assert rest.count('id="entry-') == 10
    assert 'value="schedules.run">Run schedule now</data>' in rest, "an earlier version's verb"
    assert 'value="jobs.pause">Pause' not in page + rest
    status, text = await administrator.get("/admin/audit.csv?user=%3DEva")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert status == 200
    assert len(rows) == 120
    assert rows[0]["user_name"] == "'=Eva", "no formula for a spreadsheet"
    for odd in ("before=x", "user=%00", "number=%ff"):
        assert (await administrator.get(f"/admin/audit?{odd}"))[0] == 200, odd


def test_entries_are_kept_for_the_configured_number_of_days(database: Database) -> None:
    who = Actor(via="command")
    with database.session() as session:
        for action in ("first", "second"):
            record(session, action, who, None, status=200, audit_days=365)
            session.flush()
        session.execute(update(AuditEntry).values(at=func.now() - timedelta(days=366)))

        record(session, "third", who, None, status=200, audit_days=0)
        session.flush()
        assert len(list_entries(session, Filter())) == 3
        record(session, "fourth", who, None, status=200, audit_days=365)
        session.flush()

        assert [entry.action for entry in list_entries(session, Filter())] == ["fourth", "third"]


async def test_the_filters_offer_values_that_occur_and_keep_the_chosen_ones(
    server: Server, administrator: Browser
) -> None:
    await administrator.sign_in(server.link("Alena"))
    await administrator.post(f"/schedules/{_a_schedule(server)}/pause")

    _, page = await administrator.get("/admin/audit?user=Somebody&action=schedule.pause")

    for option in ('value="Alena">', 'value="Somebody" selected', 'value="schedule.pause" selected',
                   'value="sign-in">', 'value="schedule">'):  # fmt: skip
        assert option in page, option
    assert 'value="job">' not in page


def test_many_old_entries_are_deleted_in_batches(database: Database) -> None:
    who = Actor(name="eva", via="session")
    with database.session() as session:
        at = func.now() - timedelta(days=366)
        session.execute(insert(AuditEntry).values(at=at, action="old"), [{"via": "link"}] * 1500)
        counts = []
        for _change in range(2):
            record(session, "new", who, None, status=200, audit_days=365)
            session.commit()
            counts.append(session.scalar(select(func.count()).where(AuditEntry.action == "old")))
    assert counts == [500, 0]
