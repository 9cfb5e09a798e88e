"""The steps of notices in the outbox."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import text

from manager.notices import outbox
from manager.notices.models import Channel, Kind, Language, NoticeState
from manager.notices.rules import MOST_ADDRESSES, RuleColumns, add_rule, change_rule, put_trial_into_outbox
from oai.database import Database
from oai.errors import UsageError
from oai.outgoing import WebhookSettings
from tests.manager.notices.conftest import Announcer


def test_a_notice_that_another_sender_is_claiming_is_passed_over(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.after("failed")
    with database.session() as other, database.session() as session:
        other.execute(text("SELECT FROM notice FOR UPDATE"))
        session.execute(text("SET LOCAL lock_timeout = '1s'"))
        assert outbox.claim(session, Channel.MAIL, most=5, lease=60) == []


def test_a_notice_has_the_time_zone_of_the_schedule_that_it_is_about(
    database: Database, announcer: Announcer
) -> None:
    rule, tables = announcer.rule(), announcer.tables
    tables.add("oai_recurring_job", repository_id=announcer.repository, time_zone="Europe/Prague")
    audits = {None: "Asia/Tokyo", announcer.repository: "Europe/Bratislava"}
    for repository, zone in audits.items():
        tables.add("oai_store_audit_schedule", repository_id=repository, frequency="weekly", time_zone=zone)
    schedule = tables.one("SELECT id FROM oai_recurring_job")
    for occasion, facts in (("store audit", "{}"), ("stuck", f'{{"recurring_id": {schedule}}}')):
        announcer.tables.add(
            "notice", rule_id=rule, occasion=occasion, channel="mail", target="a@b.example", facts=facts,
            repository_id=announcer.repository if occasion == "store audit" else None,
        )  # fmt: skip

    with database.session() as session:
        found = outbox.claim(session, Channel.MAIL, most=5, lease=60)

    zones = {one.occasion: one.zone for one in found}
    assert zones == {"store audit": "Europe/Bratislava", "stuck": "Europe/Prague"}


def test_the_pause_between_attempts_doubles_up_to_half_a_day(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.after("failed")
    pauses = []
    for tries in (1, 2, 10, 11, 13):
        announcer.tables("UPDATE notice SET state = 'waiting', due = now(), tries = :n", n=tries - 1)
        with database.session() as session, session.begin():
            (claimed,) = outbox.claim(session, Channel.MAIL, most=5, lease=60)
        with database.session() as session, session.begin():
            outbox.not_sent(session, claimed, "no answer", again=True)
            pauses.append(session.scalar(text("SELECT extract(epoch FROM due - now()) / 60 FROM notice")))
    assert pauses == [1, 2, 512, 720, 720]


@pytest.mark.parametrize(("channel", "state"), [("mail", "unsure"), ("webhook", "waiting")])
def test_a_message_whose_sender_died_is_sent_again_unless_it_may_have_arrived(
    database: Database, announcer: Announcer, channel: str, state: str
) -> None:
    announcer.rule()
    announcer.after("failed")
    announcer.tables(
        "UPDATE notice SET state = 'handed over', expires = now() - interval '1 second', channel = :channel",
        channel=channel,
    )
    with database.session() as session, session.begin():
        assert outbox.take_up_abandoned(session) == 1
    assert announcer.states() == [state]


def test_notices_are_listed_by_rule_state_and_page(database: Database, announcer: Announcer) -> None:
    announcer.rule()
    announcer.rule(target="jan@library.example")
    announcer.after("failed")
    announcer.tables("UPDATE notice SET state = 'sent' WHERE notice_id = 1")
    with database.session() as session:
        assert [one.notice_id for one in outbox.list_notices(session)] == [2, 1]
        assert [one.notice_id for one in outbox.list_notices(session, before=2)] == [1]
        assert [one.notice_id for one in outbox.list_notices(session, rule_id=2)] == [2]
        sent = outbox.list_notices(session, state=NoticeState.SENT)
        assert [one.notice_id for one in sent] == [1]


def test_a_rule_is_tried_again_after_a_minute(database: Database, announcer: Announcer) -> None:
    rule = announcer.rule()
    with database.session() as session, session.begin():
        assert put_trial_into_outbox(session, rule) == 1
        with pytest.raises(UsageError, match="less than a minute ago"):
            put_trial_into_outbox(session, rule)
    announcer.tables("UPDATE notice SET created = now() - interval '61 seconds'")
    with database.session() as session, session.begin():
        assert put_trial_into_outbox(session, rule) == 1


def test_a_rule_becomes_what_it_is_changed_to(database: Database, announcer: Announcer) -> None:
    rule = announcer.rule()
    wanted = RuleColumns(kind=Kind.ALWAYS, language=Language.CZECH, mail=["jan@library.example"])
    with database.session() as session, session.begin():
        change_rule(session, rule, wanted, WebhookSettings())
    (row,) = announcer.tables("SELECT kind, target, language FROM notice_rule")
    assert tuple(row) == ("always", "jan@library.example", "cs")


def test_a_notice_waits_for_earlier_ones_of_its_own_rule_only(
    database: Database, announcer: Announcer
) -> None:
    for _ in range(3):
        announcer.rule()
    announcer.after("failed")
    announcer.tables("UPDATE notice SET rule_id = 4 - rule_id")
    announcer.tables("UPDATE notice SET due = now() + interval '1 hour' WHERE rule_id <> 2")
    announcer.after("completed")
    with database.session() as session, session.begin():
        claimed = outbox.claim(session, Channel.MAIL, most=9, lease=60)
    assert [(one.notice_id, one.occasion) for one in claimed] == [(2, "failing")]
    with database.session() as session, session.begin():
        outbox.sent(session, claimed[0])
        further = outbox.claim(session, Channel.MAIL, most=9, lease=60)
    assert [(one.notice_id, one.occasion) for one in further] == [(5, "works again")]


@pytest.mark.parametrize("number", [MOST_ADDRESSES + 1, MOST_ADDRESSES + 2])
def test_a_rule_has_a_limited_number_of_addresses(database: Database, number: int) -> None:
    mail = [f"reader{one}@library.example" for one in range(number)]
    wanted = RuleColumns(kind=Kind.ERROR, language=Language.ENGLISH, mail=mail)
    with database.session() as session, pytest.raises(UsageError, match="addresses are too many"):
        add_rule(session, wanted, WebhookSettings())
    with database.session() as session:
        rule = add_rule(session, replace(wanted, mail=mail[:MOST_ADDRESSES]), WebhookSettings())
        assert rule.rule_id


def test_the_same_rule_is_not_added_twice(database: Database) -> None:
    wanted = RuleColumns(kind=Kind.ERROR, language=Language.ENGLISH, mail=["reader@library.example"])
    with database.session() as session:
        rule = add_rule(session, wanted, WebhookSettings())
        with pytest.raises(UsageError, match=f"rule {rule.rule_id} says the same"):
            add_rule(session, wanted, WebhookSettings())
        other = add_rule(session, replace(wanted, language=Language.CZECH), WebhookSettings())
        assert other.rule_id != rule.rule_id


@pytest.fixture
def fail(announcer: Announcer) -> Callable[..., None]:
    """Write notices of that many further repositories whose harvests have failed for that reason."""
    rule = announcer.rule()

    def add(count: int, code: str = "host_unknown", **columns: str) -> None:
        for _ in range(count):
            known = announcer.tables.one("SELECT count(*) FROM oai_repository")
            number = announcer.tables.repository(f"https://{known}.example/oai")
            facts = json.dumps({"repository_name": f"Library {number}", "failure": {"code": code}})
            given = {"occasion": "failing", "channel": "mail", "target": "a@b.example", **columns}
            announcer.tables.add("notice", rule_id=rule, repository_id=number, facts=facts, **given)

    return add


def _send(database: Database, channel: Channel = Channel.MAIL) -> list[int]:
    """Send what is due, and return how many notices each message has."""
    found = []
    with database.session() as session:
        while claimed := outbox.claim(session, channel, most=4, lease=60):
            for one in claimed:
                outbox.sent(session, one)
                found.append(1 + len(one.joined))
                assert len(one.facts.get("others", ())) == len(one.joined)
        session.commit()
    return found


def test_many_notices_of_one_cause_are_one_mail_and_later_ones_wait(
    database: Database, announcer: Announcer, fail: Callable[..., None]
) -> None:
    fail(30)
    fail(1, "timeout")
    assert _send(database) == [30, 1]
    assert announcer.states() == ["sent"] * 31
    fail(20)
    fail(2, "timeout")
    assert _send(database) == [1, 1], "only those of another cause"
    announcer.tables("UPDATE notice SET ended = ended - interval '16 minutes'")
    assert _send(database) == [20]


def test_the_notices_of_one_repository_stay_in_order(
    database: Database, announcer: Announcer, fail: Callable[..., None]
) -> None:
    fail(14)
    announcer.tables("UPDATE notice SET repository_id = 2 WHERE notice_id > 2")
    announcer.tables("UPDATE notice SET occasion = 'works again' WHERE notice_id = 7")
    assert _send(database) == [6, 1]
    announcer.tables("UPDATE notice SET ended = ended - interval '16 minutes'")
    assert _send(database) == [7]


def test_few_notices_of_one_cause_are_a_mail_each(
    database: Database, announcer: Announcer, fail: Callable[..., None]
) -> None:
    fail(5)
    assert _send(database) == [1] * 5
    fail(1)
    assert _send(database) == []
    announcer.tables("UPDATE notice SET ended = ended - interval '16 minutes' WHERE notice_id = 1")
    assert _send(database) == [1]


def test_a_mail_of_many_that_is_not_sent_leaves_each_to_be_tried_again(
    database: Database, announcer: Announcer, fail: Callable[..., None]
) -> None:
    fail(30)
    with database.session() as session:
        (claimed,) = outbox.claim(session, Channel.MAIL, most=4, lease=60)
        outbox.not_sent(session, claimed, "no answer")
        session.commit()
    assert announcer.states() == ["waiting"] * 30
    announcer.tables("UPDATE notice SET due = now()")
    assert _send(database) == [30]


def test_programs_and_other_occasions_get_each_notice_by_itself(
    database: Database, fail: Callable[..., None]
) -> None:
    fail(8, channel="webhook", target="http://a.example/")
    fail(7, occasion="stuck")
    assert _send(database, Channel.WEBHOOK) == [1] * 8
    assert _send(database) == [1] * 7
