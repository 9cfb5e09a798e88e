"""The steps of notices in the outbox."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from manager.notices import outbox
from manager.notices.models import Channel, Kind, Language, NoticeState
from manager.notices.rules import MOST_ADDRESSES, RuleColumns, add_rule, change_rule, put_trial_into_outbox
from manager.notices.waiting import mark_waiting
from oai.database import Database
from oai.errors import UsageError
from oai.outgoing import WebhookSettings
from tests.manager.notices.conftest import Announcer


def test_a_notice_that_another_sender_is_claiming_is_skipped(
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


def test_at_most_two_webhooks_of_a_host_are_sent_at_a_time(database: Database, announcer: Announcer) -> None:
    for path in ("a", "b", "c"):
        announcer.rule(channel="webhook", target=f"https://Hangs.example/{path}")
    announcer.rule(channel="webhook", target="https://hangs.example?d")
    for name in ("well", "fine"):
        announcer.rule(channel="webhook", target=f"https://{name}.example/a")
    announcer.after("failed")

    def claim(most: int) -> list[str]:
        with database.session() as session, session.begin():
            claimed = outbox.claim(session, Channel.WEBHOOK, most=most, lease=60)
        return [one.target.partition("//")[2] for one in claimed]

    assert claim(3) == ["Hangs.example/a", "Hangs.example/b", "well.example/a"]
    assert claim(5) == ["fine.example/a"]
    announcer.tables("UPDATE notice SET state = 'sent', ended = now() WHERE notice_id = 1")
    assert claim(5) == ["Hangs.example/c"]


def test_notices_older_than_three_days_are_given_up_after_an_earlier_one_was_given_up(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule(channel="webhook", target="https://chat.example/", kind="always")
    for _ in range(3):
        announcer.after("completed")
    announcer.tables(
        "UPDATE notice SET created = now() - make_interval(days => 3, hours => 2 - notice_id::integer)"
    )

    def fail(tries: int) -> list[tuple[str, str | None]]:
        announcer.tables("UPDATE notice SET due = now() - interval '1 hour' WHERE state = 'waiting'")
        with database.session() as session, session.begin():
            (claimed,) = outbox.claim(session, Channel.WEBHOOK, most=5, lease=60)
        with database.session() as session, session.begin():
            outbox.not_sent(session, claimed, "no answer", tries=tries)
        with database.session() as session, session.begin():
            mark_waiting(session)
        rows = announcer.tables("SELECT state, last_error FROM notice ORDER BY notice_id")
        return [(row.state, row.last_error) for row in rows]

    # Older than three days, but no other message to that recipient was given up.
    waits = ("waiting", "waits for message 1")
    assert fail(14) == [("waiting", "no answer"), waits, waits]
    given_up = ("given up", "no answer")
    assert fail(2)[:2] == [given_up, waits]
    # 2 is three days old, 3 an hour less.
    assert fail(14)[:2] == [given_up, given_up]
    assert fail(14) == [given_up, given_up, ("waiting", "no answer")]


@pytest.mark.parametrize("channel", [Channel.HOOK, Channel.WEBHOOK])
def test_a_given_up_message_does_not_reduce_the_tries_for_another_repository(
    database: Database, announcer: Announcer, channel: Channel
) -> None:
    if channel is Channel.WEBHOOK:
        announcer.rule(target="index", channel="webhook")
    announcer.tables(
        "INSERT INTO notice (rule_id, occasion, channel, target, facts, created, state, ended) "
        "SELECT rule_id, 'ended', :channel, 'index', '{}', now() - interval '4 days', state, ended "
        "FROM (VALUES "
        "('given up', now()), ('waiting', NULL)) AS one (state, ended) LEFT JOIN notice_rule ON true",
        channel=channel,
    )
    if channel is Channel.WEBHOOK:
        announcer.tables("UPDATE notice SET repository_id = 1 WHERE state = 'waiting'")
    with database.session() as session, session.begin():
        (claimed,) = outbox.claim(session, channel, most=5, lease=60)
        outbox.not_sent(session, claimed, "no answer", tries=50)
    assert announcer.states() == ["given up", "waiting"]


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


def test_a_changed_rule_has_its_new_columns(database: Database, announcer: Announcer) -> None:
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
