"""Notification rules that are added, changed, tried and removed, and the state of each message."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from harvester.models import Repository
from manager.notices.models import Notice, NoticeDigest, NoticeRule
from manager.notices.rules import put_trial_into_outbox
from oai.audit import AuditEntry
from oai.languages import SOURCE
from oai.owners import owner_of
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run, a_schedule
from web.alerts.forms import reason_of
from web.auth.organisations import find_organisation, give_repository, remove_organisation
from web.models import ReportCard, User
from web.repositories.report_card import make_card
from web.site.i18n import use_language
from web.site.keys import SETTINGS

FORM = {"kind": "change", "channel": "mail", "target": "jana@mzk.example, petr@mzk.example", "language": "cs"}


def _repository(server: Server, owner: str | None = None, name: str = "Library of Telč") -> int:
    with server.database.session() as session:
        repository = a_repository(session, name=name, folder=name.lower().replace(" ", "-"))
        if owner is not None:
            organisation = find_organisation(session, owner)
            assert organisation is not None
            give_repository(session, repository.repository_id, organisation.organisation_id)
        session.commit()
        return repository.repository_id


def _rule(server: Server, **columns: Any) -> int:
    with server.database.session() as session:
        rule = NoticeRule(**{"channel": "mail", "target": "admin@zatva.example", **columns})
        session.add(rule)
        session.commit()
        return rule.rule_id


def _rules(server: Server) -> list[NoticeRule]:
    with server.database.session() as session:
        return list(session.scalars(select(NoticeRule).order_by(NoticeRule.rule_id)))


async def test_a_rule_is_added_shown_changed_and_removed(server: Server, owner: Browser) -> None:
    number = _repository(server, "mzk")
    status, text, target = await owner.post(f"/alerts/rules/new?repository={number}", FORM)
    assert status == 303, text
    (rule,) = _rules(server)
    assert (rule.repository_id, rule.kind, rule.channel, rule.language) == (number, "change", "mail", "cs")
    _, page = await owner.get(target)
    assert "jana@mzk.example, petr@mzk.example" in page
    assert "Library of Telč" in page

    changed = {**FORM, "channel": "webhook", "target": "https://hook.mzk.example/zatva", "kind": "weekly"}
    status, text, _ = await owner.post("/alerts/rules/1", changed)
    (rule,) = _rules(server)
    assert status == 200
    assert rule.signing_key is not None
    assert rule.signing_key in text
    assert rule.signing_key not in (await owner.get("/alerts/rules/1"))[1]
    assert (rule.channel, rule.target, rule.kind) == ("webhook", changed["target"], "weekly")

    assert (await owner.post("/alerts/rules/1/remove"))[0] == 303
    assert _rules(server) == []


_FAULTY = (
    ({"target": "nobody"}, "not a mail address"),
    ({"target": ""}, "Fill in this field."),
    ({"channel": "hook"}, "Choose one of the options."),
    ({"channel": "webhook", "target": "ftp://x.example"}, "not a web address"),
    ({"channel": "webhook", "target": "http://127.0.0.1:5432/"}, "not on the public internet"),
    ({"recurring_id": "77"}, "repository 1 has no schedule 77; choose one of its schedules"),
)


async def test_a_form_with_errors_is_shown_again_with_the_errors(server: Server, owner: Browser) -> None:
    number = _repository(server, "mzk")
    for given, expected in _FAULTY:
        status, page, _ = await owner.post(f"/alerts/rules/new?repository={number}", {**FORM, **given})
        assert status == 422, given
        assert expected in page
        assert _rules(server) == [], given


async def test_a_schedule_of_another_organisation_is_refused_like_an_unknown_one(
    server: Server, owner: Browser
) -> None:
    number, other = _repository(server, "mzk"), _repository(server, "nk", "Other")
    rule = _rule(server, repository_id=number)
    with server.database.session() as session:
        schedule = a_schedule(session, session.get_one(Repository, other)).id
        session.commit()
    headers, api = {"X-CSRF-Token": await owner.token()}, f"{server.base_url}/api/v1/alert-rules"
    answers = set()
    for one in (schedule, 77):
        given = {**FORM, "recurring_id": str(one)}
        for path in (f"/alerts/rules/new?repository={number}", f"/alerts/rules/{rule}"):
            status, page, _ = await owner.post(path, given)
            assert (status, f"has no schedule {one};" in page) == (422, True), path
        for method, place, more in (
            ("POST", "", {"repository_id": number}),
            ("PUT", f"/{rule}", {}),
        ):
            body = {**given, "recurring_id": one, **more}
            async with owner.http.request(method, api + place, json=body, headers=headers) as answer:
                detail = (await answer.json())["detail"]
                answers.add((answer.status, detail.replace(f"schedule {one};", "schedule N;")))
    assert answers == {(422, f"repository {number} has no schedule N; choose one of its schedules")}
    assert [one.recurring_id for one in _rules(server)] == [None]


async def test_a_test_message_is_sent_at_most_once_a_minute_and_its_state_is_shown(
    server: Server, administrator: Browser
) -> None:
    _rule(server)
    assert (await administrator.post("/alerts/rules/1/test"))[2] == "/alerts?done=alert-tried"
    status, page, _ = await administrator.post("/alerts/rules/1/test")
    assert status >= 400
    assert "less than a minute ago" in page
    with server.database.session() as session:
        session.execute(update(Notice).values(state="given up", last_error="no such mailbox"))
        session.commit()
    _, page = await administrator.get("/alerts")
    for words in ("test message", "given up", "no such mailbox", "not running"):
        assert words in page


@pytest.mark.parametrize(("has_address", "has_mail"), [(True, True), (True, False), (False, True)])
async def test_a_partner_is_shown_the_next_step_while_the_address_is_not_confirmed(
    server: Server, owner: Browser, *, has_address: bool, has_mail: bool
) -> None:
    old = server.app[SETTINGS]
    changed = {
        "web": old.web.model_copy(update={"base_url": server.base_url if has_address else None}),
        "mail": old.mail.model_copy(update={"host": "mail.example" if has_mail else None}),
    }
    server.app._state[SETTINGS] = old.model_copy(update=changed)  # noqa: SLF001 read once
    number = _repository(server, "mzk")
    linked, unlinked = "gets a link by mail", "ask an administrator to set web.base_url and mail.host"
    saved = linked if has_address and has_mail else unlinked
    for path, form, expected in (
        (f"/alerts/rules/new?repository={number}", FORM, saved),
        ("/alerts/rules/1", {**FORM, "kind": "always"}, saved),
        ("/alerts/rules/1/test", {}, "get the test message once their recipients have confirmed them"),
    ):
        target = (await owner.post(path, form))[2]
        assert expected in (await owner.get(target))[1], path


@pytest.mark.parametrize(
    ("state", "stored", "expected"),
    [
        ("waiting", "the recipient has not confirmed the address yet", "příjemce zatím nepotvrdil"),
        ("waiting", "waits for message 12", "čeká na zprávu 12"),
        ("waiting", "https://a.example/1: no answer in 0.5 seconds", "bez odpovědi do 0.5 s"),
        ("waiting", "https://a.example/1: HTTP status 500", "stav HTTP 500"),
        ("muted", "maintenance: until 12 o'clock", "údržba: until 12 o'clock"),
        ("muted", "acknowledged", "vzato na vědomí"),
        (
            "collected",
            "collected for a report at 2026-01-01 10:30 UTC",
            "čeká na souhrn v čase 1. 1. 2026 10:30",
        ),
        ("given up", "554 100% spam", None),
        ("collected", None, None),
    ],
)
def test_reasons_of_messages_are_in_the_readers_language(
    state: str, stored: str | None, expected: str | None
) -> None:
    due = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)
    use_language("cs")
    try:
        found = reason_of(Notice(state=state, last_error=stored, target="https://a.example/1", due=due))
    finally:
        use_language(SOURCE)
    assert expected is None if found is None else found.startswith(expected or "?")


async def test_partners_see_neither_the_institutions_rules_nor_their_messages(
    server: Server, owner: Browser, colleague: Browser, administrator: Browser
) -> None:
    mine = _repository(server, "mzk")
    _rule(server)
    _rule(server, repository_id=mine, target="jana@mzk.example")
    with server.database.session() as session:
        for number in (1, 2):
            put_trial_into_outbox(session, number)
            session.execute(update(Notice).values(repository_id=mine))
        session.commit()
    addresses = ("/alerts", "/alerts/deliveries", "/alerts/deliveries.json", "/api/v1/alert-rules")
    for address in (*addresses, "/api/v1/alert-deliveries"):
        _, page = await owner.get(address)
        assert ("jana@" in page, "admin@" in page) == (True, False), address
        _, page = await colleague.get(address)
        assert ("jana@" in page, "admin@" in page) == (False, False), address
        _, page = await administrator.get(address)
        assert ("jana@" in page, "admin@" in page) == (True, True), address
    assert (await owner.get("/alerts/rules/1"))[0] == 404


def _shared(server: Server, owner: str | None) -> int:
    """Add a repository of that owner with rules, open messages, a report card and a digest."""
    number = _repository(server, owner)
    everywhere = _rule(server)
    _rule(server, repository_id=number, channel="service", target="chat")
    rules = [_rule(server, repository_id=number), everywhere]
    with server.database.session() as session:
        for rule in rules:
            put_trial_into_outbox(session, rule)
        make_card(session, number)
        session.add(
            NoticeDigest(repository_id=number, address="a@t.example", language="en", token="t", card="c")
        )
        session.add(
            Notice(repository_id=number, occasion="digest", channel="mail", target="a@t.example", facts={})
        )
        session.commit()
    return number


def _left(server: Server) -> tuple[list[str], list[str], int]:
    with server.database.session() as session:
        notices = session.scalars(select(Notice.occasion).order_by(Notice.notice_id)).all()
        cards = len(session.scalars(select(ReportCard)).all()) + len(
            session.scalars(select(NoticeDigest)).all()
        )
    return [f"{rule.channel} {rule.repository_id or '-'}" for rule in _rules(server)], list(notices), cards


@pytest.mark.parametrize("to", [2, None])
def test_rules_messages_and_card_end_when_their_repository_leaves_the_organisation(
    server: Server, to: int | None
) -> None:
    number = _shared(server, "mzk")
    with server.database.session() as session:
        assert give_repository(session, number, 1) == {}, "it stays where it is"
        ended = give_repository(session, number, to)
        session.commit()
    assert ended == {"former_organisation": "mzk", "removed_rules": 1, "revoked_cards": 1}
    assert _left(server) == (["mail -", f"service {number}"], ["test"], 0)


def test_rules_messages_and_card_end_with_their_organisation(server: Server) -> None:
    number = _shared(server, "mzk")
    with server.database.session() as session:
        session.execute(delete(User).where(User.organisation_id == 1))
        remove_organisation(session, 1)
        session.commit()
    assert _left(server) == (["mail -", f"service {number}"], ["test"], 0)


def test_the_administrators_rules_and_card_stay_when_their_repository_gets_an_owner(server: Server) -> None:
    number = _shared(server, None)
    with server.database.session() as session:
        assert give_repository(session, number, 1) == {}
        session.commit()
    rules, notices, cards = _left(server)
    assert rules == ["mail -", f"service {number}", f"mail {number}"]
    assert (notices, cards) == (["test", "test", "digest"], 2)


async def test_the_audit_log_records_what_ended_with_the_move_of_a_repository(
    server: Server, administrator: Browser
) -> None:
    number = _shared(server, "mzk")
    form = {"repository": str(number), "sure": f"{number}:1"}
    assert (await administrator.post("/admin/organisations/2/repositories", form))[0] == 303
    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.audit_id.desc())).first()
    assert entry is not None
    counts = {"removed_rules": 1, "revoked_cards": 1}
    assert entry.after == {"organisation": "nk", "former_organisation": "mzk", **counts}
    assert "Notification rules removed" in (await administrator.get("/admin/audit"))[1]


async def test_a_repository_that_moved_after_the_confirmation_page_keeps_its_new_owner(
    server: Server, administrator: Browser
) -> None:
    number = _shared(server, "mzk")
    path, asked = "/admin/organisations/1/repositories", {"repository": str(number), "back": "yes"}
    question = (await administrator.post(path, asked))[1]
    assert f'name="sure" value="{number}:1"' in question
    with server.database.session() as session:
        give_repository(session, number, 2)
        session.commit()
    before = _left(server)
    status, question, _ = await administrator.post(path, {**asked, "sure": f"{number}:1"})
    assert (status, "The owner was changed in the meantime" in question) == (409, True)
    assert f'name="sure" value="{number}:2"' in question
    assert _left(server) == before
    with server.database.session() as session:
        owner = owner_of(session, number)
    assert owner is not None
    assert owner.short_name == "nk"


async def test_only_users_who_see_all_repositories_add_rules_about_all(
    server: Server, owner: Browser, administrator: Browser
) -> None:
    assert (await owner.post("/alerts/rules/new?repository=all", FORM))[0] == 404
    assert (await owner.get("/alerts/rules/new?repository=all"))[0] == 404
    assert (await administrator.post("/alerts/rules/new?repository=all", FORM))[0] == 303
    assert [rule.repository_id for rule in _rules(server)] == [None]


async def test_viewers_see_what_needs_attention_but_no_addresses(server: Server, viewer: Browser) -> None:
    _rule(server)
    with server.database.session() as session:
        now = datetime.now(UTC)
        a_run(
            session,
            a_repository(session),
            status="failed",
            failure_reason="HTTP status 500",
            harvest_start_time=now,
            harvest_end_time=now,
        )
        session.commit()
    _, page = await viewer.get("/alerts")
    assert "HTTP status 500" in page
    assert "admin@zatva.example" not in page
    assert (await viewer.get("/alerts/deliveries"))[0] == 403


async def test_messages_are_filtered_by_state_and_listed_page_by_page(
    server: Server, administrator: Browser
) -> None:
    _rule(server)
    with server.database.session() as session:
        for number in range(60):
            state = "sent" if number % 2 else "waiting"
            session.add(
                Notice(
                    rule_id=1,
                    occasion="test",
                    channel="mail",
                    target=f"n{number}@x.example",
                    facts={},
                    state=state,
                )
            )
        session.commit()
    _, page = await administrator.get("/alerts/deliveries")
    assert ("n59@" in page, "n10@" in page, "n9@" in page) == (True, True, False)
    _, page = await administrator.get("/alerts/deliveries?before=11")
    assert ("n9@" in page, "n10@" in page) == (True, False)
    _, page = await administrator.get("/alerts/deliveries?state=sent")
    assert ("n59@" in page, "n58@" in page) == (True, False)
    _, page = await administrator.get("/alerts/deliveries.csv?state=waiting")
    assert ("n58@" in page, "n59@" in page) == (True, False)


async def test_messages_of_a_report_link_to_it_and_show_its_state(
    server: Server, administrator: Browser
) -> None:
    _rule(server)
    with server.database.session() as session:
        same = {"rule_id": 1, "channel": "mail"}
        session.add(
            Notice(occasion="report", target="report@x.example", facts={"count": 2}, state="given up", **same)
        )
        session.flush()
        for number in (1, 2):
            session.add(
                Notice(
                    occasion="failing", target=f"n{number}@x.example", facts={}, state="collected",
                    report_id=1, **same,
                )
            )  # fmt: skip
        session.add(Notice(occasion="failing", target="later@x.example", facts={}, state="collected", **same))
        session.commit()
    _, page = await administrator.get("/alerts/deliveries")
    assert '<a href="/alerts/deliveries?report=1">2 notifications</a>' in page
    assert '<a href="/alerts/deliveries?report=1">report 1</a> (given up)' in page
    _, page = await administrator.get("/alerts/deliveries?report=1&state=collected")
    assert ("n1@" in page, "n2@" in page, "later@" in page, "report@" in page) == (True, True, False, False)
    assert 'href="/alerts/deliveries.csv?state=collected&amp;report=1"' in page
    _, listed = await administrator.get("/alerts/deliveries.json?report=1")
    assert [(row["report_id"], row["report_state"]) for row in json.loads(listed)] == [(1, "given up")] * 2
    _, listed = await administrator.get("/api/v1/alert-deliveries?report=1")
    assert [row["report_state"] for row in json.loads(listed)["items"]] == ["given up"] * 2
