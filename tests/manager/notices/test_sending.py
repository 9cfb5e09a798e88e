"""Sending notices: to a real mail server and a real receiver, retried, never sent twice."""

import asyncio
import contextlib
import socket
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from manager.leader.lock import Fenced, NotLeadingError
from manager.notices import outbox
from manager.notices.delivery import deliver_notices
from manager.notices.models import Channel
from manager.notices.rules import put_trial_into_outbox
from oai.database import Database
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from tests.manager.conftest import until
from tests.manager.notices.conftest import MAILBOX, Announcer, notice_sender, outgoing, take_over
from tests.manager.notices.mail_server import mail_server
from tests.manager.notices.receiver import receiver


def replace_leader(database: Database, answer: str) -> str:
    """Make another manager the leader, and return the answer."""
    with database.session() as session, session.begin():
        take_over(session)
    return answer


def may_be_replaced() -> AbstractContextManager[None]:
    """Accept that a tick notices the new leader itself, when it looks for further notices."""
    return contextlib.suppress(NotLeadingError)


def due_now(announcer: Announcer) -> None:
    announcer.tables("UPDATE notice SET due = now() WHERE state = 'waiting'")


async def test_a_failure_is_mailed_with_the_request_and_advice(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    rule = announcer.rule()
    announcer.tables.add(
        "web_audit",
        action="notification.add", object_kind="notification rule", object_id=str(rule), user_name="Alena",
    )  # fmt: skip
    announcer.tables.add("oai_recurring_job", repository_id=announcer.repository, time_zone="Europe/Prague")
    announcer.run(
        "failed",
        recurring_id=announcer.tables.one("SELECT id FROM oai_recurring_job"),
        failure_reason="https://library.example/oai?verb=Identify: HTTP status 404",
        failure_code="http_gone",
        failure_facts='{"url": "https://library.example/oai?verb=Identify"}',
        record_count=7,
    )
    async with mail_server() as server:
        web = settings.web.model_copy(update={"base_url": "https://zatva.example"})
        sending = outgoing(settings, mail_port=server.port).model_copy(update={"web": web})
        async with notice_sender(sending, database) as tick:
            await tick()
            await tick()
    (mail,) = server.mails
    assert (mail.sender, mail.to) == ("zatva@localhost.localdomain", [MAILBOX])
    assert mail.message["Subject"] == '[Zatva] Harvest failed: "City Library", "oai_dc"'
    for words in (
        "Request: https://library.example/oai?verb=Identify",
        "Ask for the new base URL",
        "Records processed: 7",
        "keeper@library.example",
        "More: https://zatva.example/runs/1",
        "added by Alena.",
        f"To stop it, change or remove the rule: https://zatva.example/alerts/rules/{rule}",
        "Times are in the time zone Europe/Prague.",
    ):
        assert words in mail.text
    assert announcer.states() == ["sent"]


async def test_a_temporarily_refused_mail_is_sent_later_with_the_number_of_its_notice(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    async with mail_server() as server:
        server.refuse("RCPT", "451 greylisted")
        async with notice_sender(outgoing(settings, mail_port=server.port), database) as tick:
            await tick()
            (row,) = announcer.tables("SELECT state, last_error, due > now() AS later FROM notice")
            assert (row.state, row.later) == ("waiting", True)
            assert "451 greylisted" in row.last_error
            await tick()
            assert server.mails == []
            due_now(announcer)
            await tick()
    assert len(server.mails) == 1
    assert server.mails[0].message["Message-ID"].startswith("<1.")
    assert "Times are in the time zone UTC." in server.mails[0].text
    assert announcer.tables.one("SELECT tries FROM notice") == 2


async def test_many_mails_are_sent_within_one_tick_and_a_test_message_among_the_first(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    rule = announcer.rule()
    for number in range(12):
        announcer.run("failed", set_spec=str(number))
    announcer.announce()
    with database.session() as session, session.begin():
        put_trial_into_outbox(session, rule)
    async with mail_server() as server:
        sending = outgoing(settings, mail_port=server.port)
        slow = sending.model_copy(
            update={"manager": sending.manager.model_copy(update={"tick_seconds": 3600.0})}
        )
        with DatabaseExecutor(database, threads=2, name="manager-database") as transactions:
            leader = Fenced(transactions, await transactions.run(take_over))
            async with deliver_notices(slow, transactions, leader):
                await until(lambda: set(announcer.states()) == {"sent"})
    assert len(server.mails) == 13
    first = announcer.tables("SELECT occasion FROM notice ORDER BY ended LIMIT 4")
    assert "test" in [row.occasion for row in first]


async def test_a_permanently_refused_mail_is_given_up(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule(target="gone@library.example, here@library.example")
    announcer.run("failed")
    async with mail_server() as server:
        server.refuse("RCPT", "550 no such mailbox")
        async with notice_sender(outgoing(settings, mail_port=server.port), database) as tick:
            await tick()
    assert sorted(announcer.states()) == ["given up", "sent"]
    assert len(server.mails) == 1


async def test_a_mail_without_confirmation_of_its_delivery_is_not_sent_again(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    async with mail_server() as server:
        server.refuse(".", None)
        async with notice_sender(outgoing(settings, mail_port=server.port), database) as tick:
            await tick()
            due_now(announcer)
            await tick()
    assert announcer.states() == ["unsure"]
    assert server.mails == []


async def test_a_mail_counts_as_sent_although_the_server_refuses_the_quit_command(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    async with mail_server() as server:
        server.refuse("QUIT", "500 what")
        async with notice_sender(outgoing(settings, mail_port=server.port), database) as tick:
            await tick()
    assert announcer.states() == ["sent"]


async def test_a_notice_waits_with_the_reason_if_no_mail_server_is_set(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    async with notice_sender(settings, database) as tick:
        await tick()
    assert announcer.tables.one("SELECT last_error FROM notice") == "no mail server is set; set mail.host"
    assert announcer.states() == ["waiting"]


async def test_a_notice_is_given_up_after_many_tries(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    announcer.announce()
    announcer.tables("UPDATE notice SET tries = :tries", tries=outbox.TRIES - 1)
    async with notice_sender(outgoing(settings, mail_port=closed_port()), database) as tick:
        await tick()
    assert announcer.states() == ["given up"]


async def test_a_webhook_gets_signed_json_and_a_failure_is_retried(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    async with receiver(503, 302) as there:
        announcer.rule(channel="webhook", target=there.url, kind="always")
        announcer.run("completed", new_count=3)
        async with notice_sender(outgoing(settings), database) as tick:
            for _ in range(4):
                await tick()
                due_now(announcer)
    assert [post["occasion"] for post in there.posts] == ["ended"] * 3
    assert there.posts[0]["facts"]["new"] == 3
    assert len({headers["Zatva-Notice"] for headers in there.headers}) == 1
    assert announcer.states() == ["sent"]


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 10",
        b"Content-Encoding: gzip\r\nContent-Length: 1",
        pytest.param(b"Policy: " + b"x" * 20_000, id="long"),
    ],
)
async def test_a_notice_counts_as_sent_if_its_webhook_accepts_it_with_a_malformed_answer(
    settings: Settings, database: Database, announcer: Announcer, headers: bytes
) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\n?")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        announcer.rule(channel="webhook", target=f"http://127.0.0.1:{port}/")
        announcer.run("failed")
        async with notice_sender(outgoing(settings), database) as tick:
            await tick()
    assert announcer.states() == ["sent"]


async def test_a_webhook_that_answers_with_status_410_is_given_up(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    async with receiver(410) as there:
        announcer.rule(channel="webhook", target=there.url)
        announcer.run("failed")
        async with notice_sender(outgoing(settings), database) as tick:
            await tick()
    assert announcer.states() == ["given up"]


async def test_no_webhook_is_posted_without_a_signing_key(
    settings: Settings, database: Database, announcer: Announcer, tmp_path: Path
) -> None:
    sending = outgoing(settings)
    unsigned = sending.webhooks.model_copy(update={"secret": None, "secret_file": tmp_path / "none"})
    async with receiver() as there:
        announcer.rule(channel="webhook", target=there.url)
        announcer.run("failed")
        async with notice_sender(sending.model_copy(update={"webhooks": unsigned}), database) as tick:
            await tick()
    assert there.posts == []
    assert "webhooks.secret_file" in announcer.tables.one("SELECT last_error FROM notice")


async def test_private_networks_are_refused_by_address_and_by_host_name(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    sending = outgoing(settings)
    closed = sending.webhooks.model_copy(update={"private_networks": False})
    async with receiver() as there:
        port = there.url.split(":")[2].split("/")[0]
        announcer.rule(channel="webhook", target=f"http://localhost:{port}/here")
        announcer.rule(channel="webhook", target=there.url)
        announcer.run("failed")
        async with notice_sender(sending.model_copy(update={"webhooks": closed}), database) as tick:
            await tick()
    assert there.posts == []
    errors = [row.last_error for row in announcer.tables("SELECT last_error FROM notice")]
    assert all("not on the public internet" in error for error in errors)
    assert not any("[" in error or "::1" in error for error in errors)


async def test_two_concurrent_senders_send_each_notice_once(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule(kind="always")
    for number in range(12):
        announcer.run("completed", set_spec=str(number))
    async with mail_server() as server:
        sending = outgoing(settings, mail_port=server.port)
        async with (
            notice_sender(sending, database) as one,
            notice_sender(sending, database, leader=1) as other,
        ):
            for _ in range(16):
                await asyncio.gather(one(), other())
    assert sorted(mail.message["Message-ID"] for mail in server.mails) == sorted(
        {mail.message["Message-ID"] for mail in server.mails}
    )
    assert len(server.mails) == 12


async def test_notices_of_a_dead_manager_are_sent_unless_they_may_have_been_delivered(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    for name in ("a", "b"):
        announcer.rule(target=f"{name}@x.example")
    announcer.run("failed")
    announcer.announce()
    with database.session() as session:
        claimed = outbox.claim(session, Channel.MAIL, most=4, lease=-1)
        assert outbox.hand_over(session, claimed[1])
        session.commit()
    async with (
        mail_server() as server,
        notice_sender(outgoing(settings, mail_port=server.port), database) as tick,
    ):
        await tick()
        await tick()
    assert [mail.to for mail in server.mails] == [["a@x.example"]]
    assert announcer.states() == ["sent", "unsure"]


async def test_a_suspended_manager_does_not_send_what_another_has_claimed_meanwhile(
    database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    announcer.announce()
    with database.session() as session:
        (asleep,) = outbox.claim(session, Channel.MAIL, most=4, lease=-1)
        assert outbox.take_up_abandoned(session) == 1
        (awake,) = outbox.claim(session, Channel.MAIL, most=4, lease=60)
        assert not outbox.hand_over(session, asleep)
        assert outbox.hand_over(session, awake)
        outbox.not_sent(session, asleep, "late word")
        session.commit()
    assert announcer.states() == ["handed over"]


async def test_a_manager_that_lost_the_lead_writes_and_claims_no_notice(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    async with notice_sender(settings, database) as former, notice_sender(settings, database) as present:
        with pytest.raises(NotLeadingError):
            await former()
        assert announcer.states() == []
        await present()
    assert announcer.states() == ["waiting"]


async def test_a_manager_that_loses_the_lead_while_it_connects_does_not_send_its_notice(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    async with mail_server() as server:
        sending = outgoing(settings, mail_port=server.port)
        server.answers["RCPT"] = lambda: replace_leader(database, "250 ok")
        async with notice_sender(sending, database) as tick:
            with may_be_replaced():
                await tick()
        assert server.mails == []
        assert announcer.states() == ["waiting"]
        server.answers.clear()
        async with notice_sender(sending, database) as tick:
            await tick()
    assert len(server.mails) == 1
    assert announcer.states() == ["sent"]


async def test_a_notice_that_a_former_leader_sent_in_time_is_recorded_as_sent(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    async with mail_server() as server:
        server.answers["."] = lambda: replace_leader(database, "250 taken")
        async with notice_sender(outgoing(settings, mail_port=server.port), database) as tick:
            with may_be_replaced():
                await tick()
    assert len(server.mails) == 1
    assert announcer.states() == ["sent"]


async def test_notices_about_a_repository_are_sent_to_each_recipient_in_order(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    announcer.run("completed")
    async with mail_server() as server:
        server.refuse("MAIL", "451 later")
        async with notice_sender(outgoing(settings, mail_port=server.port), database) as tick:
            await tick()
            await tick()
            assert announcer.states() == ["waiting", "waiting"]
            due_now(announcer)
            for _ in range(2):
                await tick()
    subjects = [mail.message["Subject"].split(":")[0] for mail in server.mails]
    assert subjects == ["[Zatva] Harvest failed", "[Zatva] Works again"]


@pytest.mark.parametrize("age", ["91 days", "89 days"])
async def test_old_notices_are_deleted(
    settings: Settings, database: Database, announcer: Announcer, age: str
) -> None:
    announcer.rule()
    announcer.run("failed")
    announcer.announce()
    announcer.tables("UPDATE notice SET state = 'sent', ended = now() - CAST(:age AS interval)", age=age)
    async with notice_sender(settings, database) as tick:
        await tick()
    assert len(announcer.states()) == (0 if age == "91 days" else 1)


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


async def test_an_internal_error_is_listed_without_the_values_in_its_text(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.rule()
    announcer.run("failed")
    announcer.announce()
    announcer.tables("UPDATE notice SET facts = '{}'")
    async with notice_sender(settings, database) as tick:
        await tick()
    reason = "internal error: UndefinedError; the manager's log has the details"
    assert announcer.tables.one("SELECT last_error FROM notice") == reason
