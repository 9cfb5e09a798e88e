"""Checks of our own provider, made in the background; what was found is kept."""

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from aiohttp import web
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from oai.errors import UsageError, ZatvaError
from provider.checking.checks import CHECKS
from provider.checking.client import Client
from provider.checking.findings import Finding, run_checks
from provider.checking.survey import Survey
from provider.checking.transport import http_transport
from web.models import SelfTest
from web.threads import DatabaseThreads
from web.words import _, mark

CHECK_COUNT: Final = len(CHECKS)
_TIMEOUT: Final = 60.0
_MOST_REQUESTS: Final = 300
_STARTING: Final = 0x7A_73_74  # "zst": one is started at a time
_TOLD_EVERY: Final = 10
_GIVEN_UP: Final = timedelta(hours=1)

_log = logging.getLogger(__name__)


class SelfTests:
    """Makes the checks in tasks of its own, one self-test at a time."""

    def __init__(self, database: DatabaseThreads) -> None:
        self._database = database
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, base_url: str, *, asked_by: str | None) -> SelfTest:
        """Begin to check the provider at that address, and give the self-test's row.

        Raises UsageError while another one is under way.
        """
        row = await self._database.run(_begin, base_url, asked_by)
        task = asyncio.create_task(self._run(row.self_test_id, base_url))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return row

    async def close(self) -> None:
        """Leave what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, number: int, base_url: str) -> None:
        failure: str | None = None
        findings: list[Finding] = []
        try:
            checks = run_checks(Survey(_client(base_url)), CHECKS)
            while (finding := await asyncio.to_thread(next, checks, None)) is not None:
                findings.append(finding)
                if len(findings) % _TOLD_EVERY == 0:
                    await self._database.run(_note, number, findings)
        except ZatvaError as error:
            failure = str(error)
        except Exception:  # noqa: BLE001 a task's last resort: logged in full
            _log.exception("self-test %d", number)
            failure = mark("An internal error occurred in Zatva. See the log of the dashboard for details.")
        await self._database.run(_note, number, findings, failure=failure, ended=True)


SELF_TESTS: Final = web.AppKey("self_tests", SelfTests)


def list_self_tests(session: Session, *, limit: int, before: int | None = None) -> Sequence[SelfTest]:
    """The self-tests, the newest first, older than the one numbered `before`."""
    rows = select(SelfTest).order_by(SelfTest.self_test_id.desc()).limit(limit)
    return session.scalars(rows if before is None else rows.where(SelfTest.self_test_id < before)).all()


def _begin(session: Session, base_url: str, asked_by: str | None) -> SelfTest:
    session.execute(select(func.pg_advisory_xact_lock(_STARTING)))
    # One whose process has gone is never ended.
    under_way = (SelfTest.ended.is_(None), SelfTest.started > func.now() - _GIVEN_UP)
    running = session.scalar(select(SelfTest.self_test_id).where(*under_way).limit(1))
    if running is not None:
        raise UsageError(_("self-test %(number)s is in progress; wait until it ends") % {"number": running})
    row = SelfTest(base_url=base_url, asked_by=asked_by)
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def _note(
    session: Session,
    number: int,
    findings: Sequence[Finding],
    *,
    failure: str | None = None,
    ended: bool = False,
) -> None:
    values: dict[str, Any] = {"checks": len(findings), "findings": [one.as_row() for one in findings]}
    if ended:
        values |= {"ended": func.now(), "failure": failure}
    session.execute(update(SelfTest).where(SelfTest.self_test_id == number).values(**values))


def _client(base_url: str) -> Client:
    return Client(
        url=base_url,
        transport=http_transport(timeout=_TIMEOUT),
        pause=0.0,
        max_requests=_MOST_REQUESTS,
        sleep=time.sleep,
    )
