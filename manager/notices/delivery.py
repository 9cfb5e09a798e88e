"""Delivery of the outbox by the leading manager: several notices at a time, until it no longer leads."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Final
from zoneinfo import ZoneInfo

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from manager import hooks
from manager.leader.lock import Fenced, NotLeadingError
from manager.notices import addresses, letters, outbox, reports, services, webhooks
from manager.notices.announcements import announce, announce_audits
from manager.notices.digests import write_digests
from manager.notices.letters import render
from manager.notices.models import Channel, Occasion
from manager.notices.mutes import report_after_mutes
from manager.notices.outbox import Claimed, NotSentError, RefusedError, UnconfirmedError
from manager.notices.summaries import summarise
from manager.notices.waiting import mark_waiting
from oai.database import first_line
from oai.executor import DatabaseExecutor
from oai.settings import Settings

logger = logging.getLogger("manager.notices.sending")

_PLACES: Final = {Channel.MAIL: 4, Channel.WEBHOOK: 8, Channel.HOOK: 2, Channel.SERVICE: 2}
_PRUNE_SECONDS: Final = 3600.0


class TakenError(Exception):
    """Another sender has claimed the notice, or it was postponed."""


@contextlib.asynccontextmanager
async def deliver_notices(
    settings: Settings, transactions: DatabaseExecutor, fenced: Fenced
) -> AsyncIterator[None]:
    """Make notices of what happened and send them, for as long as the block lasts.

    Whatever begins an action is written behind the fence of the leadership; the result of a notice that was
    sent is written in any case. At the end, notices that are being sent have `manager.stop_seconds` to
    finish.
    """
    notice_sender = NoticeSender(settings, transactions, fenced)
    task = asyncio.create_task(notice_sender.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await notice_sender.end()


class NoticeSender:
    """Turns ended harvests into notices and sends the notices that are due."""

    def __init__(self, settings: Settings, transactions: DatabaseExecutor, fenced: Fenced) -> None:
        self._settings = settings
        self._transactions = transactions
        self._fenced = fenced
        self.under_way: dict[asyncio.Task[None], Channel] = {}
        """The notices being sent.

        Only coroutines and callbacks of one event loop change it, so it needs no lock.
        """
        self._pruned = -_PRUNE_SECONDS

    async def run(self) -> None:
        """Tick until cancelled; errors are logged, and the next tick follows regardless."""
        while True:
            next_tick = time.monotonic() + self._settings.manager.tick_seconds
            try:
                await self.tick()
                await self._refill(next_tick)
            except OperationalError as error:
                self._transactions.database.outage.failed(first_line(error))
            except NotLeadingError as error:
                logger.warning("%s", error)
            except Exception:
                logger.exception("internal error while sending notifications; the manager tries again")
            await asyncio.sleep(max(next_tick - time.monotonic(), 0))

    async def tick(self) -> None:
        """Write notices, and start sending those that are due."""
        await self._fenced.run(self._write)
        await self._begin()

    async def _refill(self, next_tick: float) -> None:
        """Start sending further notices as places become free."""
        while self.under_way and (left := next_tick - time.monotonic()) > 0:
            await asyncio.wait(self.under_way, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            await self._begin()

    async def _begin(self) -> None:
        for one in await self._fenced.run(self._claim, Counter(self.under_way.values())):
            task = asyncio.create_task(self._see_through(one))
            self.under_way[task] = Channel(one.channel)
            task.add_done_callback(self.under_way.pop)

    async def end(self) -> None:
        """Wait for notices that are being sent.

        Cancel those that take too long, for the next leader to send.
        """
        if self.under_way:
            await asyncio.wait(self.under_way, timeout=self._settings.manager.stop_seconds)
        left = list(self.under_way)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    def _write(self, session: Session) -> None:
        announce(session, self._settings.manager.hooks)
        announce_audits(session)
        summarise(session, ZoneInfo(self._settings.web.time_zone))
        if self._settings.web.base_url is not None:
            write_digests(session)
        reports.write_reports(session)
        mark_waiting(session)
        if abandoned := outbox.take_up_abandoned(session):
            logger.warning("%d notifications were being sent by a manager that is lost", abandoned)
        if time.monotonic() - self._pruned > _PRUNE_SECONDS:
            outbox.prune(session)
            report_after_mutes(session)
            self._pruned = time.monotonic()

    def _claim(self, session: Session, busy: Mapping[Channel, int]) -> list[Claimed]:
        due = outbox.due_channels(session)
        if due:
            reports.collect(session, self._settings.manager.notices_at_once)
        return [
            one
            for channel in due
            if (free := _PLACES[channel] - busy[channel]) > 0
            for one in outbox.claim(session, channel, most=free, lease=self._lease(channel))
        ]

    def _lease(self, channel: Channel) -> float:
        given = {
            Channel.MAIL: self._settings.mail.timeout * 8,
            Channel.WEBHOOK: self._settings.webhooks.timeout,
            Channel.SERVICE: self._settings.webhooks.timeout,
            Channel.HOOK: max((hook.timeout for hook in self._settings.manager.hooks), default=0.0),
        }
        return given[channel] + self._settings.manager.lost_seconds

    async def _see_through(self, claimed: Claimed) -> None:
        """Send a notice, and store the result."""
        try:
            await self._deliver(claimed)
        except TakenError:
            return
        except NotLeadingError as error:
            logger.warning("notification %d: %s", claimed.notice_id, error)
            await self._transactions.run(outbox.put_back, claimed)
        except UnconfirmedError as error:
            logger.warning("notification %d: %s", claimed.notice_id, error)
            await self._transactions.run(outbox.unsure, claimed, str(error))
        except NotSentError as error:
            again, tries = not isinstance(error, RefusedError), self._tries(claimed)
            logger.warning(
                "notification %d, attempt %d of %d: %s", claimed.notice_id, claimed.tries, tries, error
            )
            await self._transactions.run(outbox.not_sent, claimed, str(error), tries=tries, again=again)
        except asyncio.CancelledError:
            await self._transactions.run(outbox.put_back, claimed)
            raise
        except Exception as error:
            logger.exception("notification %d cannot be sent", claimed.notice_id)
            # Only the name, because partners read it, and the text may contain values of the settings.
            reason = f"internal error: {type(error).__name__}; the manager's log has the details"
            await self._transactions.run(outbox.not_sent, claimed, reason, tries=self._tries(claimed))
        else:
            await self._transactions.run(outbox.sent, claimed)

    def _tries(self, claimed: Claimed) -> int:
        if claimed.channel == Channel.HOOK:
            hook = hooks.named(self._settings.manager.hooks, claimed.target)
            return hook.tries if hook is not None else 1
        # A user who tries a rule is waiting for the result, so a test is not repeated.
        return 1 if claimed.occasion == Occasion.TEST else outbox.TRIES

    async def _deliver(self, claimed: Claimed) -> None:
        async def before_sending() -> None:
            if not await self._fenced.run(outbox.hand_over, claimed):
                raise TakenError

        if claimed.channel == Channel.HOOK:
            await before_sending()
            await hooks.run(claimed, self._settings, self._transactions)
            return
        if claimed.channel == Channel.MAIL:
            # Before the server is asked, which would otherwise see many connections without a message.
            if not await self._fenced.run(addresses.admit, claimed, per_hour=self._settings.mail.per_hour):
                raise TakenError
            if claimed.occasion == Occasion.CONFIRM:
                base_url = self._settings.web.base_url
                facts = await self._transactions.run(addresses.with_link, claimed.facts, base_url)
                claimed = replace(claimed, facts=facts)
        loop = asyncio.get_running_loop()
        await deliver(
            claimed,
            self._settings,
            before_mail=lambda: asyncio.run_coroutine_threadsafe(before_sending(), loop).result(),
            before_post=before_sending,
        )


async def deliver(
    claimed: Claimed,
    settings: Settings,
    *,
    before_mail: Callable[[], None] | None = None,
    before_post: webhooks.BeforeSending | None = None,
) -> None:
    """Send a notice by mail, to a web address or a service; raises NotSentError as these do."""
    mail = claimed.channel == Channel.MAIL
    letter = render(
        claimed.occasion,
        claimed.language,
        claimed.facts,
        dashboard=settings.web.base_url,
        mail=mail,
        zone=claimed.zone or settings.web.time_zone,
        most=letters.LONGEST_CHAT if claimed.channel == Channel.SERVICE else None,
        subscription=letters.subscription_of(claimed, settings.harvester.contact),
    )
    if claimed.channel == Channel.SERVICE:
        if before_post is not None:
            await before_post()
        await services.send(claimed.target, letter, settings.manager.services, settings.webhooks)
        return
    if not mail:
        await _post(claimed, letter, settings, before_post)
        return
    message = letters.compose(
        letter,
        sender=settings.mail.sender,
        to=claimed.target,
        number=claimed.number,
        date=claimed.created,
        prefix=settings.mail.subject_prefix,
        stop=letters.stop_link(claimed, settings.web.base_url),
    )
    await asyncio.to_thread(letters.send, message, settings.mail, before_sending=before_mail)


async def _post(
    claimed: Claimed, letter: letters.Letter, settings: Settings, before_post: webhooks.BeforeSending | None
) -> None:
    content = {
        "notice": claimed.number,
        "occasion": claimed.occasion,
        "subject": letter.subject,
        "text": letter.body,
        "facts": claimed.facts,
    }
    await webhooks.post(
        claimed.target,
        content,
        settings.webhooks,
        number=claimed.number,
        keys=claimed.keys,
        before_sending=before_post,
    )
