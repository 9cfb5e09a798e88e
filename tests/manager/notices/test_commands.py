"""`zatva notify`, as a user runs it."""

import asyncio
from typing import Any

from tests.commands import results
from tests.commands import zatva as run_zatva
from tests.manager.conftest import Tables
from tests.manager.notices.mail_server import mail_server
from tests.manager.notices.receiver import SECRET, receiver


async def zatva(environment: dict[str, str], *words: str, expect: int = 0) -> list[dict[str, Any]]:
    return await asyncio.to_thread(results, environment, *words, expect=expect)


async def test_a_rule_is_added_listed_tried_and_removed(environment: dict[str, str], tables: Tables) -> None:
    tables.repository()
    async with mail_server() as server:
        environment |= {
            "ZATVA_MAIL__HOST": "127.0.0.1",
            "ZATVA_MAIL__PORT": str(server.port),
            "ZATVA_MAIL__SECURITY": "none",
        }
        (added,) = await zatva(
            environment, "notify", "add", "--mail", "a@x.example", "--mail", "b@x.example",
            "--repository", "1",
            "--on", "change", "--language", "cs",
        )  # fmt: skip
        assert (added["kind"], added["target"], added["language"]) == (
            "change",
            "a@x.example, b@x.example",
            "cs",
        )
        (listed,) = await zatva(environment, "notify", "list")
        assert listed["repository_name"] == "https://example.org/oai"
        tried = await zatva(environment, "notify", "test", "1")
        assert [one["sent"] for one in tried] == [True, True]
        server.refuse("MAIL", "451 later")
        (refused, _) = await zatva(environment, "notify", "test", "1", expect=4)
        assert "451 later" in refused["reason"]
        server.refuse(".", None)
        done = await asyncio.to_thread(run_zatva, environment, "notify", "test", "1")
        assert "a@x.example: unsure: " in done.stdout
    assert [mail.message["Subject"] for mail in server.mails[:2]] == ["[Zatva] Zkušební zpráva ze Zatvy"] * 2
    await zatva(environment, "notify", "remove", "1")
    assert await zatva(environment, "notify", "list") == []
    await zatva(environment, "notify", "remove", "1", expect=2)


async def test_a_rule_that_is_tried_without_a_mail_server_reports_the_missing_setting(
    environment: dict[str, str], tables: Tables
) -> None:
    del tables
    await zatva(environment, "notify", "add", "--mail", "a@x.example")
    (refused,) = await zatva(environment, "notify", "test", "1", expect=6)
    assert refused["reason"] == "no mail server is set; set mail.host"


async def test_a_webhook_rule_is_tried(environment: dict[str, str], tables: Tables) -> None:
    del tables
    environment["ZATVA_WEBHOOKS__SECRET"] = SECRET
    async with receiver() as there:
        await zatva(environment, "notify", "add", "--webhook", there.url, expect=2)
        environment["ZATVA_WEBHOOKS__PRIVATE_NETWORKS"] = "true"
        (added,) = await zatva(environment, "notify", "add", "--webhook", there.url)
        there.keys.append(added["signing_key"])
        await zatva(environment, "notify", "test", "1")
        (listed,) = await zatva(environment, "notify", "list")
        (replaced,) = await zatva(environment, "notify", "replace-key", "1")
        there.keys.append(replaced["signing_key"])
        await zatva(environment, "notify", "test", "1")
    assert not {"signing_key", "next_key"} & listed.keys()
    assert there.next_keys() == [None, replaced["signing_key"]]
    assert [post["occasion"] for post in there.posts] == ["test", "test"]


async def test_invalid_rules_are_refused(environment: dict[str, str], tables: Tables) -> None:
    del tables
    for words in (
        ("--mail", "nobody"),
        ("--mail", "a@b.example", "--webhook", "https://example.org/"),
        (),
        ("--mail", "a@b.example", "--repository", "9"),
        ("--mail", "a@b.example", "--schedule", "9"),
    ):
        await zatva(environment, "notify", "add", *words, expect=2)


async def test_notices_are_listed_with_state_and_target(environment: dict[str, str], tables: Tables) -> None:
    tables.add("notice", occasion="failing", channel="mail", target="a@b.example", facts="{}")
    (listed,) = await zatva(environment, "notify", "sent")
    assert (listed["state"], listed["target"]) == ("waiting", "a@b.example")


async def test_notices_of_a_report_are_listed(environment: dict[str, str], tables: Tables) -> None:
    row = {"channel": "mail", "target": "a@b.example", "facts": "{}"}
    tables.add("notice", occasion="report", state="sent", **row)
    tables.add("notice", occasion="failing", state="collected", report_id=1, **row)
    tables.add("notice", occasion="failing", state="collected", **row)
    (listed,) = await zatva(environment, "notify", "sent", "--report", "1")
    assert (listed["notice_id"], listed["state"], listed["report_state"]) == (2, "collected", "sent")
    printed = await asyncio.to_thread(run_zatva, environment, "notify", "sent")
    assert "in report 1 (sent)" in printed.stdout
    assert "in a report" in printed.stdout
    tables(
        "INSERT INTO notice (occasion, state, channel, target, facts, report_id)"
        " SELECT 'failing', 'collected', 'mail', 'a@b.example', '{}', 1 FROM generate_series(1, 60)"
    )
    assert len(await zatva(environment, "notify", "sent", "--report", "1")) == 61
    assert len(await zatva(environment, "notify", "sent", "--report", "1", "--limit", "2")) == 2
    assert len(await zatva(environment, "notify", "sent")) == 50
