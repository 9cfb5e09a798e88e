"""Helpers of the tests of notices: ended runs, rules, and a notice sender that is ticked by hand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.orm import Session

from manager.leader.lock import Fenced
from manager.notices.announcements import announce
from manager.notices.delivery import NoticeSender
from oai.database import Database
from oai.executor import DatabaseExecutor
from oai.outgoing import HookSettings, MailSettings, WebhookSettings
from oai.settings import Settings
from tests.manager.conftest import Tables
from tests.manager.notices.receiver import SECRET

MAILBOX = "alena@library.example"


def take_over(session: Session) -> int:
    """Make another manager the leader, and return its number."""
    session.execute(
        text(
            "INSERT INTO oai_leader (number, host, process_id) VALUES (1, 'here', 1)"
            ' ON CONFLICT ("only") DO UPDATE SET number = oai_leader.number + 1'
        )
    )
    number: int = session.execute(text("SELECT number FROM oai_leader")).scalar_one()
    return number


class Announcer:
    """Runs and rules added by plain SQL, and the notices created from them."""

    def __init__(self, database: Database, tables: Tables) -> None:
        self.tables = tables
        self._database = database
        self.repository = tables.repository("https://library.example/oai")
        tables(
            "UPDATE oai_repository SET repository_name = 'City Library',"
            " admin_email = 'keeper@library.example'"
        )

    def rule(self, **columns: Any) -> int:
        given = {"channel": "mail", "target": MAILBOX, **columns}
        self.tables.add("notice_rule", **given)
        number: int = self.tables.one("SELECT max(rule_id) FROM notice_rule")
        return number

    def run(self, status: str = "completed", **columns: Any) -> int:
        given = {
            "repository_id": self.repository,
            "status": status,
            "metadata_prefix": "oai_dc",
            "harvest_start_time": "now",
            **columns,
        }
        self.tables.add("oai_history", **given)
        number: int = self.tables.one("SELECT max(history_id) FROM oai_history")
        return number

    def hold(self) -> int:
        """A held run of the harvest of `oai_dc`, which waits for approval."""
        self.tables(
            "INSERT INTO oai_harvest (repository_id, metadata_prefix) VALUES (:repository, 'oai_dc')"
            " ON CONFLICT DO NOTHING",
            repository=self.repository,
        )
        number = self.run("held", harvest_id=1, failure_code="held")
        self.tables.add(
            "oai_hold",
            history_id=number, harvest_id=1, run_started="now", kind="deletions", active=40, allowed=20,
        )  # fmt: skip
        return number

    def announce(self, *hooks: HookSettings, **options: int) -> list[str]:
        """Announce ended runs, and return the occasions of the notices that this creates."""
        before = self.tables.one("SELECT coalesce(max(notice_id), 0) FROM notice")
        with self._database.session() as session:
            announce(session, hooks, **options)
            session.commit()
        rows = self.tables("SELECT occasion FROM notice WHERE notice_id > :n ORDER BY notice_id", n=before)
        return [row.occasion for row in rows]

    def after(self, status: str, **columns: Any) -> list[str]:
        """Add a run of that status, announce it, and return the occasions of its notices."""
        self.run(status, **columns)
        return self.announce()

    def states(self) -> list[str]:
        return [row.state for row in self.tables("SELECT state FROM notice ORDER BY notice_id")]


@pytest.fixture
def announcer(database: Database, tables: Tables) -> Announcer:
    return Announcer(database, tables)


def outgoing(settings: Settings, *, mail_port: int = 1, hooks: tuple[HookSettings, ...] = ()) -> Settings:
    """Settings that send to the servers of a test."""
    return settings.model_copy(
        update={
            "mail": MailSettings(host="127.0.0.1", port=mail_port, security="none", timeout=10),
            "webhooks": WebhookSettings(secret=SecretStr(SECRET), private_networks=True, timeout=10),
            "manager": settings.manager.model_copy(update={"hooks": hooks}),
        }
    )


@contextlib.asynccontextmanager
async def notice_sender(
    settings: Settings, database: Database, *, leader: int | None = None
) -> AsyncIterator[Callable[[], Any]]:
    """Yield a function that ticks a notice sender once and waits until all that it began has ended.

    The sender belongs to the leader with this number, by default to a new leader.
    """
    with DatabaseExecutor(database, threads=2, name="manager-database") as transactions:
        number = await transactions.run(take_over) if leader is None else leader
        one = NoticeSender(settings, transactions, Fenced(transactions, number))

        async def tick() -> None:
            try:
                await one.tick()
            finally:
                while one.under_way:
                    await asyncio.wait(one.under_way)
                    await asyncio.sleep(0)

        yield tick
        await one.end()
