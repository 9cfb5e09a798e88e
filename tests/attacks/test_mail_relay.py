"""Attacks through the institution's mail server: mail to strangers, many mails, forged subjects."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from manager.notices.addresses import MOST_OPEN
from manager.notices.letters import compose, render
from manager.notices.models import Language, Occasion
from tests.manager.notices.conftest import notice_sender, outgoing
from tests.manager.notices.mail_server import MailServer, mail_server
from tests.manager.notices.receiver import SECRET, receiver
from tests.manager.notices.test_rendering import RUN
from tests.web.api.conftest import Using, using
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository
from web.auth.organisations import find_organisation, give_repository

__all__ = ["using"]

SITE = "https://zatva.example"
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)


class Outbox:
    """The mails that the manager sends for the dashboard of the test."""

    def __init__(self, server: Server, mails: MailServer) -> None:
        self.server = server
        self.mails = mails
        sending = outgoing(server.settings, mail_port=mails.port)
        self.settings = sending.model_copy(update={"web": sending.web.model_copy(update={"base_url": SITE})})

    def limit(self, per_hour: int) -> None:
        mail = self.settings.mail.model_copy(update={"per_hour": per_hour})
        self.settings = self.settings.model_copy(update={"mail": mail})

    async def send(self) -> list[tuple[str, str]]:
        """Send all due mails; return recipient and subject of each, ordered by recipient."""
        before = len(self.mails.mails)
        async with notice_sender(self.settings, self.server.database) as tick:
            quiet = 0
            # A tick that sends nothing may still have stored mails for the next one.
            while quiet < 2:
                sent = self._sent()
                await tick()
                quiet = quiet + 1 if self._sent() == sent else 0
        return sorted((mail.to[0], str(mail.message["Subject"])) for mail in self.mails.mails[before:])

    def _sent(self) -> tuple[int, int]:
        """Return how many mails have arrived, and how many notices have ended."""
        (ended,) = self.rows("SELECT count(*) AS number FROM notice WHERE ended IS NOT NULL")
        return len(self.mails.mails), ended.number

    def rows(self, statement: str, **values: Any) -> list[Any]:
        with self.server.database.session() as session:
            found = session.execute(text(statement), values)
            rows = list(found) if statement.startswith("SELECT") else []
            session.commit()
            return rows

    def repository(self, name: str = "Library") -> int:
        with self.server.database.session() as session:
            repository = a_repository(session, name=name)
            organisation = find_organisation(session, "mzk")
            assert organisation is not None
            give_repository(session, repository.repository_id, organisation.organisation_id)
            session.commit()
            return repository.repository_id


@pytest.fixture
async def outbox(server: Server) -> AsyncIterator[Outbox]:
    async with mail_server() as mails:
        yield Outbox(server, mails)


async def added(browser: Browser, repository: int, *addresses: str, language: str = "en") -> tuple[int, str]:
    form = {"kind": "always", "channel": "mail", "target": ", ".join(addresses), "language": language}
    status, page, _ = await browser.post(f"/alerts/rules/new?repository={repository}", form)
    return status, page


async def test_strangers_get_only_one_confirmation_link_from_a_partner(
    outbox: Outbox, owner: Browser
) -> None:
    repository = outbox.repository("WIN A PRIZE at evil.example")
    strangers = [f"stranger{number}@x.example" for number in range(MOST_OPEN)]
    assert (await added(owner, repository, *strangers))[0] == 303
    assert (await owner.post("/alerts/rules/1/test"))[0] == 303

    sent = await outbox.send()

    assert [to for to, _ in sent] == sorted(strangers)
    assert {subject for _, subject in sent} == {"[Zatva] Do you want to receive messages about harvests?"}
    assert not any("PRIZE" in mail.text for mail in outbox.mails.mails)
    errors = outbox.rows("SELECT DISTINCT state, last_error FROM notice WHERE occasion = 'test'")
    assert [tuple(row) for row in errors] == [("waiting", "the recipient has not confirmed the address yet")]

    # Neither more addresses, nor the same ones in other rules or after a removal, lead to further mail.
    status, page = await added(owner, repository, "another@x.example")
    assert (status, "addresses of your organisation are not confirmed yet" in page) == (422, True)
    assert (await owner.post("/alerts/rules/1/remove"))[0] == 303
    assert (await added(owner, repository, *map(str.upper, strangers)))[0] == 303
    status, page, _ = await owner.post("/alerts/rules/3/confirmations")
    assert (status, "less than a day ago" in page) == (400, True)
    assert await outbox.send() == []


async def test_waiting_messages_are_sent_once_the_address_is_confirmed(
    outbox: Outbox, owner: Browser, stranger: Browser
) -> None:
    await added(owner, outbox.repository(), "jana@mzk.example")
    await owner.post("/alerts/rules/1/test")
    await outbox.send()
    (link,) = re.findall(rf"{SITE}(\S+)", outbox.mails.mails[0].text)
    assert "Not confirmed" in (await owner.get("/alerts"))[1]
    # A program that scans mail opens the link, which does not confirm the address.
    status, page = await stranger.get(link)
    assert (status, "jana@mzk.example" in page) == (200, True)
    assert await outbox.send() == []

    address, code = re.findall(r"=(\w+)", link)
    form = {"address": address, "code": code}
    assert (await stranger.post("/alerts/confirm", form, token=await stranger.token(link)))[0] == 303

    assert await outbox.send() == [("jana@mzk.example", "[Zatva] Test message from Zatva")]
    assert "Not confirmed" not in (await owner.get("/alerts"))[1]
    (entry,) = outbox.rows("SELECT * FROM web_audit WHERE action = 'notification.confirm'")
    assert entry.object_name == "jana@mzk.example"


async def test_a_wrong_or_expired_link_does_not_confirm_an_address(
    outbox: Outbox, owner: Browser, stranger: Browser
) -> None:
    await added(owner, outbox.repository(), "jana@mzk.example", "petr@mzk.example")
    await outbox.send()
    link = re.findall(rf"{SITE}(\S+)", outbox.mails.mails[0].text)[0]
    address, code = re.findall(r"=(\w+)", link)
    right = {"address": address, "code": code}
    token = await stranger.token(link)

    for wrong in ({"code": "0" * 64}, {"address": {"1": "2", "2": "1"}[address]}, {}):
        if not wrong:
            outbox.rows("UPDATE notice_address SET asked = asked - interval '8 days'")
        status, page, _ = await stranger.post("/alerts/confirm", right | wrong, token=token)
        assert (status, "no longer valid" in page) == (410, True), wrong
    assert outbox.rows("SELECT 1 FROM notice_address WHERE confirmed IS NOT NULL") == []


async def test_a_confirmation_link_can_be_sent_again_and_replaces_the_first_one(
    outbox: Outbox, owner: Browser, stranger: Browser, using: Using
) -> None:
    await added(owner, outbox.repository(), "jana@mzk.example")
    await outbox.send()
    outbox.rows("UPDATE notice_address SET asked = asked - interval '25 hours'")
    async with using("Olga") as program:
        (rule,) = (await program.get("/alert-rules")).body["items"]
        assert rule["unconfirmed"] == ["jana@mzk.example"]
        assert (await program.ask("POST", "/alert-rules/1/confirmations", None)).body == {"links": 1}
    await outbox.send()

    first, second = (re.findall(rf"{SITE}(\S+)", mail.text)[0] for mail in outbox.mails.mails)
    assert (await stranger.get(first))[0] == 410
    assert (await stranger.get(second))[0] == 200
    # A stranger who does not answer gets three links in all.
    for expected in (303, 400):
        outbox.rows("UPDATE notice_address SET asked = asked - interval '25 hours'")
        assert (await owner.post("/alerts/rules/1/confirmations"))[0] == expected


async def test_administrators_addresses_and_allowed_domains_need_no_confirmation(
    outbox: Outbox, owner: Browser, administrator: Browser
) -> None:
    repository = outbox.repository()
    assert (await added(administrator, repository, "boss@x.example"))[0] == 303
    settings = outbox.server.settings.mail
    object.__setattr__(settings, "allowed_domains", ("mzk.example",))
    assert (await added(owner, repository, "jana@mzk.example", "jana@evil.mzk.example"))[0] == 303
    for number in (1, 2):
        await owner.post(f"/alerts/rules/{number}/test")

    sent = await outbox.send()

    assert [(to, "Test" in subject) for to, subject in sent] == [
        ("boss@x.example", True),
        ("jana@evil.mzk.example", False),
        ("jana@mzk.example", True),
    ]


async def test_mails_above_the_limit_are_postponed_to_the_next_hour(
    outbox: Outbox, owner: Browser, administrator: Browser
) -> None:
    outbox.limit(3)
    ours = [f"reader{number}@mzk.example" for number in range(8)]
    await added(administrator, outbox.repository(), *ours)
    await owner.post("/alerts/rules/1/test")

    assert len(await outbox.send()) == 3

    waiting = outbox.rows("SELECT tries, last_error, due > now() AS later FROM notice WHERE ended IS NULL")
    assert [(row.tries, row.later) for row in waiting] == [(0, True)] * 5
    assert waiting[0].last_error == "postponed: 3 mails per hour for an organisation (mail.per_hour)"
    assert "mail.per_hour" in (await owner.get("/alerts/deliveries"))[1]
    # Removing the rule and adding it again does not reset the count.
    await owner.post("/alerts/rules/1/remove")
    await added(administrator, 1, *ours)
    await owner.post("/alerts/rules/2/test")
    assert await outbox.send() == []
    for count in (3, 3, 2):
        outbox.rows("UPDATE notice_mail_count SET hour = hour - interval '1 hour'")
        outbox.rows("UPDATE notice SET due = now() WHERE ended IS NULL")
        assert len(await outbox.send()) == count


async def test_the_institutions_own_mails_are_not_limited(outbox: Outbox, administrator: Browser) -> None:
    outbox.limit(1)
    await added(administrator, outbox.repository(), "a@mzk.example")
    form = {"kind": "error", "channel": "mail", "target": "b@x.example, c@x.example", "language": "en"}
    assert (await administrator.post("/alerts/rules/new?repository=all", form))[0] == 303
    for number in (1, 2):
        await administrator.post(f"/alerts/rules/{number}/test")

    assert len(await outbox.send()) == 3


@pytest.mark.parametrize("language", Language)
def test_names_in_subjects_are_quoted_truncated_and_cannot_inject_headers(language: Language) -> None:
    evil = 'Your account" expires\r\nBcc: victim@x.example\r\n\r\n' + "x" * 500
    facts = {**RUN, "repository_name": evil, "set_spec": ""}
    letter = render(Occasion.WORKS_AGAIN, language, facts, dashboard=None, mail=True)
    message = compose(
        letter, sender="z@x.example", to="a@x.example", number="1", date=_WHEN, prefix="[Zatva]"
    )

    subject = str(message["Subject"])
    assert subject.startswith("[Zatva] ")
    begin, end = '""' if language is Language.ENGLISH else "„“"
    name = rf"{begin}Your account' expires Bcc: victim@x\.example x+ …{end}"
    assert re.search(f": {name}, {begin}oai_dc{end}$", subject)
    assert len(subject) < 130
    assert "Bcc" not in message
    assert b"\r\nBcc" not in message.as_bytes()


async def test_each_new_webhook_has_its_own_key_and_old_ones_keep_the_common_key(
    outbox: Outbox, owner: Browser
) -> None:
    repository = outbox.repository()
    async with receiver() as old, receiver() as new:
        outbox.rows(
            "INSERT INTO notice_rule (repository_id, channel, target) VALUES (:r, 'webhook', :u)",
            r=repository,
            u=old.url,
        )
        object.__setattr__(outbox.server.settings.webhooks, "private_networks", True)
        form = {"kind": "error", "channel": "webhook", "target": new.url, "language": "en"}
        status, page, _ = await owner.post(f"/alerts/rules/new?repository={repository}", form)
        assert status == 200
        (key,) = re.findall(r'<code class="mono">(\S+)</code>', page)
        new.keys[:] = [key]
        await outbox.send()
        for number in (1, 2):
            await owner.post(f"/alerts/rules/{number}/test")
        await outbox.send()

        assert [one.signed for one in (old, new)] == [
            [{"Zatva-Signature": SECRET, "Zatva-Signature-Next": None}],
            [{"Zatva-Signature": key, "Zatva-Signature-Next": None}],
        ]
        # An old webhook with a new address is no longer signed with the common key, which others trust.
        form["target"] = new.url.replace("/here", "/there")
        status, page, _ = await owner.post("/alerts/rules/1", form)
        assert (status, "signing key" in page) == (200, True)
    pages = [(await owner.get(path))[1] for path in ("/alerts", "/alerts/rules/2", "/alerts/rules.json")]
    assert not any(key in page for page in pages)
    (entry,) = outbox.rows("SELECT web_audit::text AS text FROM web_audit WHERE action = 'notification.add'")
    assert key not in entry.text


async def test_a_key_is_replaced_with_an_overlap(outbox: Outbox, owner: Browser, using: Using) -> None:
    repository = outbox.repository()
    async with receiver() as there:
        outbox.rows(
            "INSERT INTO notice_rule (repository_id, channel, target) VALUES (:r, 'webhook', :u)",
            r=repository,
            u=there.url,
        )
        async with using("Olga") as program:
            answer = (await program.ask("POST", "/alert-rules/1/key", None)).body
        there.keys.append(answer["signing_key"])
        await owner.post("/alerts/rules/1/test")
        await outbox.send()
        outbox.rows("UPDATE notice_rule SET next_key_from = now()")
        outbox.rows("DELETE FROM notice")
        await owner.post("/alerts/rules/1/test")
        await outbox.send()
        status, page, _ = await owner.post("/alerts/rules/1/key")
        assert status == 200
        (third,) = re.findall(r'<code class="mono">(\S+)</code>', page)
        there.keys.append(third)
        outbox.rows("DELETE FROM notice")
        await owner.post("/alerts/rules/1/test")
        await outbox.send()

    key = answer["signing_key"]
    assert [tuple(one.values()) for one in there.signed] == [(SECRET, key), (key, None), (key, third)]


async def test_another_organisation_cannot_replace_keys_or_send_links(
    outbox: Outbox, owner: Browser, colleague: Browser
) -> None:
    await added(owner, outbox.repository(), "jana@mzk.example")

    for path in ("key", "confirmations"):
        assert (await colleague.post(f"/alerts/rules/1/{path}"))[0] == 404
