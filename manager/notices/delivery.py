"""Delivery of the outbox by the leading manager: several notices at a time, until it no longer leads."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, ColumnElement, Select, case, cast, exists, func, literal, select, union
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import NOT_RUN, RunStatus
from manager import hooks
from manager.jobs.runs import awaits_approval, was_started
from manager.leader.lock import Fenced, NotLeadingError
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.notices import addresses, letters, outbox, reports, services, webhooks
from manager.notices.announcements import (
    Facts,
    announce,
    announce_audits,
    facts_of_repository,
    moment,
    notices_for,
)
from manager.notices.digests import write_digests
from manager.notices.letters import render
from manager.notices.models import Channel, Kind, NoticeRule, Occasion
from manager.notices.mutes import report_after_mutes
from manager.notices.outbox import Claimed, NotSentError, RefusedError, UnconfirmedError
from manager.notices.waiting import mark_waiting
from manager.schedules.service import database_now
from oai.database import first_line
from oai.executor import DatabaseExecutor
from oai.settings import Settings

PERIOD: Final = {Kind.DAILY: timedelta(days=1), Kind.WEEKLY: timedelta(days=7)}
_CLOCK_CHANGE: Final = timedelta(hours=2)
"""No clock change is larger."""
_SHOWN: Final = 50
_BAD: Final = (RunStatus.FAILED, RunStatus.LOST)
_STOPPED: Final = (RecurringState.SUSPENDED, RecurringState.SET_ASIDE)


def summarise(session: Session, zone: ZoneInfo) -> int:
    """Write the summaries that are due and return their number. The caller commits.

    A summary extends from the last one, or from the time the rule was added, over a whole number of days or
    weeks of the time zone. So it is sent at the same time of day, and a late summary also covers the periods
    that were missed.
    """
    now = database_now(session).astimezone(zone)
    written = 0
    for kind, period in PERIOD.items():
        due = select(NoticeRule).where(
            NoticeRule.kind == kind, ~NoticeRule.summarised.between(now - (period - _CLOCK_CHANGE), now)
        )
        for rule in session.scalars(due.with_for_update(skip_locked=True)).all():
            # Within one zone, Python computes with the clock on the wall: a day may have 23 or 25 hours.
            last = rule.summarised.astimezone(zone)
            until = last + (now - last) // period * period
            if until > last:
                session.add_all(notices_for(rule, Occasion.SUMMARY, _facts(session, rule, until)))
                written += 1
            # Earlier if the clock was ahead.
            rule.summarised = until
    return written


def _facts(session: Session, rule: NoticeRule, until: datetime) -> Facts:
    """Return the facts of a summary, from the rule's last summary until that time."""
    window = (
        History.harvest_end_time >= rule.summarised,
        History.harvest_end_time < until,
        History.status.not_in(NOT_RUN),
        History.continued_by.is_(None),
        *_only(rule, History.repository_id, History.recurring_id),
    )
    return {
        **facts_of_repository(session, rule.repository_id),
        "period": rule.kind,
        "since": moment(rule.summarised),
        "until": moment(until),
        **_figures(session, window),
        **_failing(session, rule, window, until),
    }


def _figures(session: Session, window: tuple[ColumnElement[bool], ...]) -> Facts:
    by_status = session.execute(
        select(History.status, func.count()).where(*window).group_by(History.status).order_by(History.status)
    )
    columns = ("record_count", "new_count", "updated_count", "deleted_count", "invalid_count")
    sums = session.execute(
        select(*(func.coalesce(func.sum(getattr(History, name)), 0) for name in columns)).where(*window)
    ).one()
    statuses = {row[0]: row[1] for row in by_status}
    return {
        "runs": sum(statuses.values()),
        "statuses": statuses,
        **{name.removesuffix("_count"): int(number) for name, number in zip(columns, sums, strict=True)},
    }


def _failing(
    session: Session, rule: NoticeRule, window: tuple[ColumnElement[bool], ...], until: datetime
) -> Facts:
    """Return the first sources that are failing at the end of the period, and the number of all of them.

    These are suspended and rejected schedules, rejected jobs, runs that wait for approval, and other sources
    whose last run in the window failed.
    """
    every = union(
        _stopped_schedules(rule), _rejected_jobs(rule), *_failed_runs(rule, window, until)
    ).subquery()
    query = select(every, func.count().over()).limit(_SHOWN)
    by_age = (every.c.history_id.nulls_first(), every.c.recurring_id)
    rows = session.execute(query.order_by(*by_age)).all()
    failing = [dict(zip(every.c.keys(), row, strict=False)) for row in rows]
    return {"failing": failing, "failing_count": rows[0][-1] if rows else 0}


def _stopped_schedules(rule: NoticeRule) -> Select[Any]:
    """Select suspended and rejected schedules, each with its last run."""
    last = select(func.max(History.history_id)).where(
        History.repository_id == RecurringJob.repository_id,
        History.recurring_id == RecurringJob.id,
        History.status.not_in(NOT_RUN),
    )
    suspended, rejected = RecurringState.SUSPENDED, RecurringState.SET_ASIDE
    status = case((RecurringJob.state == suspended, suspended.word), else_=rejected.word)
    reason, failure = RecurringJob.state_reason, RecurringJob.state_failure
    columns = (status, reason, failure, last.scalar_subquery(), RecurringJob.id)
    return _described(RecurringJob, *columns).where(
        RecurringJob.state.in_(_STOPPED), *_only(rule, RecurringJob.repository_id, RecurringJob.id)
    )


def _rejected_jobs(rule: NoticeRule) -> Select[Any]:
    """Select rejected jobs; those of schedules were rejected by earlier versions."""
    why = (Job.waiting["text"].astext, Job.waiting["failure"])
    rejected = literal(RecurringState.SET_ASIDE.word)
    return _described(Job, rejected, *why, literal(None, BigInteger), Job.recurring_id).where(
        Job.status == JobStatus.SET_ASIDE, *_only(rule, Job.repository_id, Job.recurring_id)
    )


def _failed_runs(
    rule: NoticeRule, window: tuple[ColumnElement[bool], ...], until: datetime
) -> tuple[Select[Any], Select[Any]]:
    """Select the last runs in the window that failed, and the runs that wait for approval."""
    source = (History.repository_id, History.metadata_prefix, History.set_spec)
    last = (
        select(func.max(History.history_id))
        .where(*window, was_started(), History.status.not_in((RunStatus.KILLED, RunStatus.INCOMPLETE)))
        .group_by(*source)
        .scalar_subquery()
    )
    stopped = exists().where(RecurringJob.id == History.recurring_id, RecurringJob.state.in_(_STOPPED))
    code = func.jsonb_build_object("code", History.failure_code)
    known = History.failure_code.is_not(None)
    failure = case((known, func.coalesce(History.failure_facts, literal({}, JSONB)).op("||")(code)))
    why = (History.failure_reason, cast(failure, JSONB))
    runs = _described(History, History.status, *why, History.history_id, History.recurring_id)
    return (
        runs.where(History.history_id.in_(last), History.status.in_(_BAD), ~stopped),
        runs.where(
            awaits_approval(),
            History.harvest_end_time < until,
            *_only(rule, History.repository_id, History.recurring_id),
        ),
    )


def _described(source: type[History | RecurringJob | Job], *columns: Any) -> Select[Any]:  # noqa: ANN401 columns
    """Select the facts of a failing source; `columns` are its status, reason, failure, run and schedule."""
    names = ("status", "failure_reason", "failure", "history_id", "recurring_id")
    return select(
        Repository.display_name.label("repository_name"),
        func.coalesce(source.metadata_prefix, "").label("metadata_prefix"),
        func.coalesce(source.set_spec, "").label("set_spec"),
        *(column.label(name) for column, name in zip(columns, names, strict=True)),
    ).join_from(source, Repository, Repository.repository_id == source.repository_id)


def _only(rule: NoticeRule, repository_id: Any, recurring_id: Any) -> list[ColumnElement[bool]]:  # noqa: ANN401 columns
    """Return the conditions that these columns have a rule's repository and schedule, if it has them."""
    pairs = ((repository_id, rule.repository_id), (recurring_id, rule.recurring_id))
    return [column == number for column, number in pairs if number is not None]


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
