"""The outbox: which process sends a notice, and with which result. Each step is a compare-and-swap."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session, aliased, joinedload

from manager.models import RecurringJob, StoreAuditSchedule
from manager.notices.models import (
    Channel,
    Notice,
    NoticeRule,
    NoticeState,
    Occasion,
    UnsentReason,
)
from manager.notices.waiting import URGENT, is_next, is_unconfirmed
from manager.schedules.service import database_now
from oai.audit import AuditEntry
from oai.errors import ExitCode, ZatvaError
from oai.models import from_row

TRIES: Final = 14
"""How many times a notice is tried: over three days, with the pauses below."""
_TRIED_FOR: Final = timedelta(days=3)

KEPT_DAYS: Final = 90
UNCONFIRMED_DAYS: Final = 7
"""How long notices wait for the confirmation of their address."""
_FIRST_PAUSE: Final = timedelta(minutes=1)
_LONGEST_PAUSE: Final = timedelta(hours=12)
_SOON: Final = timedelta(minutes=5)
_LONGEST_ERROR: Final = 1000
PER_HOST: Final = 2
"""Webhooks sent to one host at a time: one that never answers leaves the other places to others."""
_HOST: Final = func.lower(func.substring(Notice.target, "//([^/?#]*)"))
_OLDEST: Final = (Notice.due, Notice.notice_id)
_OPEN: Final = (NoticeState.WAITING, NoticeState.CLAIMED, NoticeState.HANDED)


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """A notice that this process may send."""

    notice_id: int
    occasion: str
    channel: str
    target: str
    language: str
    facts: Mapping[str, Any]
    created: datetime
    tries: int
    """The number of attempts, including this one."""
    keys: tuple[str, ...] = field(default=(), repr=False)
    """The keys with which a post is signed, if its rule has its own: the present one, and the next."""
    zone: str | None = None
    """Time zone of the schedule that the notice is about; None: it is about none."""
    rule_id: int | None = None
    """The rule that sends it; None: a hook, or a digest."""
    ordered_by: str | None = None
    """Name of the user who added the rule, if the audit log has it."""

    @property
    def number(self) -> str:
        """The number by which a recipient recognizes a notice that is sent a second time."""
        return f"{self.notice_id}.{int(self.created.timestamp())}"


def due_channels(session: Session) -> list[Channel]:
    """Return the channels on which a notice may be due, in a fixed order."""
    due = select(Notice.channel).where(*_is_due()).distinct().order_by(Notice.channel)
    return [Channel(channel) for channel in session.scalars(due)]


def claim(session: Session, channel: Channel, *, most: int, lease: float) -> list[Claimed]:
    """Claim up to `most` due notices, oldest first, for `lease` seconds. The caller commits.

    Notices to one recipient about one repository stay in order: a notice waits for earlier ones. Those for
    which a person waits are first, however many others are due.
    """
    urgent = Notice.occasion.in_(URGENT)
    first = _claim(session, channel, urgent, most=most, lease=lease)
    return [*first, *_claim(session, channel, ~urgent, most=most - len(first), lease=lease)]


def _claim(
    session: Session, channel: Channel, kind: ColumnElement[bool], *, most: int, lease: float
) -> list[Claimed]:
    is_sent_now = Notice.state.in_((NoticeState.CLAIMED, NoticeState.HANDED))
    ready = and_(*_is_due(), kind, is_next(), ~is_unconfirmed())
    rows = (
        select(
            Notice.notice_id,
            func.row_number().over(partition_by=_HOST, order_by=(~is_sent_now, *_OLDEST)).label("place"),
        )
        .where(Notice.channel == channel, Notice.ended.is_(None), or_(is_sent_now, ready))
        .subquery()
    )
    first = select(rows.c.notice_id)
    if channel == Channel.WEBHOOK:
        first = first.where(rows.c.place <= PER_HOST)
    # SKIP LOCKED: rows that another manager is claiming are passed over, so no notice is claimed twice.
    due = (
        select(Notice.notice_id)
        .where(*_is_due(), Notice.notice_id.in_(first))
        .order_by(*_OLDEST)
        .limit(most)
        .with_for_update(skip_locked=True)
        # As a subquery, it may be executed several times, each of which would claim others.
        .cte()
    )
    taken = (
        update(Notice)
        .where(Notice.notice_id.in_(select(due.c.notice_id)), Notice.state == NoticeState.WAITING)
        .values(
            state=NoticeState.CLAIMED, tries=Notice.tries + 1, expires=func.now() + timedelta(seconds=lease)
        )
        .returning(Notice)
    )
    notices = sorted(session.scalars(taken), key=lambda notice: notice.notice_id)
    return [_claimed(session, notice) for notice in notices]


def _is_due() -> tuple[ColumnElement[bool], ...]:
    return (Notice.ended.is_(None), Notice.state == NoticeState.WAITING, Notice.due <= func.now())


def keys_of(session: Session, notice: Notice) -> tuple[str, ...]:
    """Return the keys for signing the notice; none: the common one of the settings, which is also ""."""
    if notice.channel != Channel.WEBHOOK:
        return ()
    present, following, replaced = session.execute(
        select(NoticeRule.signing_key, NoticeRule.next_key, NoticeRule.next_key_from <= func.now()).where(
            NoticeRule.rule_id == notice.rule_id
        )
    ).one()
    if following is None:
        return () if present is None else (present,)
    return (following,) if replaced else (present or "", following)


def postpone(session: Session, claimed: Claimed, due: ColumnElement[datetime], reason: str) -> None:
    """Release a notice until then, without counting an attempt. The caller commits."""
    _change(session, claimed, NoticeState.CLAIMED, **_later(due, reason, tries=Notice.tries - 1))


def hand_over(session: Session, claimed: Claimed) -> bool:
    """Record that the message is about to be transmitted; False if another sender has claimed the notice.

    The caller commits before it sends.
    """
    return _change(session, claimed, NoticeState.CLAIMED, state=NoticeState.HANDED)


def sent(session: Session, claimed: Claimed) -> None:
    """Record that the recipient has the notice. The caller commits.

    A report to the same recipient is tried soon, because the server is back. Not at once: one that refuses
    only some messages would use up its attempts.
    """
    _change(session, claimed, *_OPEN, state=NoticeState.SENT, ended=func.now(), expires=None, last_error=None)
    same, soon = (Notice.channel == claimed.channel, Notice.target == claimed.target), func.now() + _SOON
    report = (Notice.ended.is_(None), Notice.occasion == Occasion.REPORT, Notice.due > soon)
    session.execute(
        update(Notice).where(*same, *report).values(due=soon),
        execution_options={"synchronize_session": False},
    )


def unsure(session: Session, claimed: Claimed, reason: str) -> None:
    """Record that it is unknown whether the notice arrived, so it is not sent again. The caller commits."""
    _change(session, claimed, *_OPEN, **_end(NoticeState.UNSURE, reason))


def not_sent(
    session: Session, claimed: Claimed, reason: str, *, tries: int = TRIES, again: bool = True
) -> None:
    """Record why the notice was not accepted, and retry later or give it up. The caller commits.

    A rejected report is sent again without names: a filter may object to that of one repository.
    """
    over = not again or claimed.tries >= tries or _is_late(session, claimed)
    if over and claimed.occasion == Occasion.REPORT and not claimed.facts["short"]:
        values = _later(func.now(), reason, facts={**claimed.facts, "short": True})
    elif over:
        values = _end(NoticeState.GIVEN_UP, reason)
    else:
        pause = min(_FIRST_PAUSE * 2 ** (claimed.tries - 1), _LONGEST_PAUSE)
        values = _later(func.now() + pause, reason)
    _change(session, claimed, *_OPEN, **values)


def _is_late(session: Session, claimed: Claimed) -> bool:
    """Return whether the notice has waited for another one of its rule for as long as that was tried.

    Otherwise each notice to a recipient who is away for long would have its own days of attempts.
    """
    own, repository = aliased(Notice), Notice.repository_id
    recipient = and_(own.rule_id == Notice.rule_id, own.target == Notice.target)
    mine = own.notice_id == claimed.notice_id
    same = and_(mine, recipient, repository.is_not_distinct_from(own.repository_id))
    given_up = exists().where(same, Notice.state == NoticeState.GIVEN_UP, Notice.ended > own.created)
    late = database_now(session) - claimed.created > _TRIED_FOR
    return late and bool(session.scalar(select(given_up)))


def put_back(session: Session, claimed: Claimed) -> None:
    """Release a notice whose delivery was cut off, for the next manager to send. The caller commits.

    A mail that was being transmitted is left to `take_up_abandoned`.
    """
    states = [NoticeState.CLAIMED]
    if claimed.channel != Channel.MAIL:
        states.append(NoticeState.HANDED)
    _change(session, claimed, *states, state=NoticeState.WAITING, tries=Notice.tries - 1, expires=None)


def take_up_abandoned(session: Session) -> int:
    """Handle the notices of senders that have died, and return their number. The caller commits.

    A mail that was being transmitted may have arrived: it is not sent again, but shown as unsure. A notice to
    a program is sent again under the same number, by which the program recognises it.
    """
    doubtful = and_(Notice.state == NoticeState.HANDED, Notice.channel == Channel.MAIL)
    abandoned = (
        update(Notice)
        .where(
            Notice.ended.is_(None),
            or_(Notice.state == NoticeState.CLAIMED, Notice.state == NoticeState.HANDED),
            Notice.expires < func.now(),
        )
        .values(
            state=case((doubtful, NoticeState.UNSURE.value), else_=NoticeState.WAITING.value),
            ended=case((doubtful, func.now())),
            last_error=case((doubtful, UnsentReason.DOUBTFUL.value), else_=UnsentReason.SENT_AGAIN.value),
            expires=None,
        )
        .returning(Notice.notice_id)
    )
    return len(session.scalars(abandoned).all())


def prune(session: Session) -> None:
    """Delete notices that were sent, or given up, long ago, or not confirmed in time. The caller commits."""
    now = database_now(session)
    long_ago = now - timedelta(days=KEPT_DAYS)
    report = aliased(Notice)
    kept = exists().where(
        report.notice_id == Notice.report_id, or_(report.ended.is_(None), report.ended >= long_ago)
    )
    session.execute(
        delete(Notice).where(Notice.ended < long_ago, ~kept), execution_options={"synchronize_session": False}
    )
    unwanted = and_(Notice.ended.is_(None), Notice.created < now - timedelta(days=UNCONFIRMED_DAYS))
    session.execute(
        delete(Notice).where(unwanted, is_unconfirmed()).execution_options(synchronize_session=False)
    )


def list_notices(
    session: Session,
    limit: int | None = 50,
    *,
    before: int | None = None,
    among: Select[int] | None = None,
    rule_id: int | None = None,
    state: NoticeState | None = None,
    report_id: int | None = None,
) -> list[Notice]:
    """Return the newest notices; `before` is the last `notice_id` of the previous page.

    `among` selects the repositories whose rules' notices are returned; notices of hooks, and of rules about
    all repositories, are then excluded.
    """
    wanted: list[ColumnElement[bool]] = []
    if before is not None:
        wanted.append(Notice.notice_id < before)
    if among is not None:
        wanted.append(
            Notice.rule_id.in_(select(NoticeRule.rule_id).where(NoticeRule.repository_id.in_(among)))
        )
    if rule_id is not None:
        wanted.append(Notice.rule_id == rule_id)
    if state is not None:
        wanted.append(Notice.state == state)
    if report_id is not None:
        wanted.append(Notice.report_id == report_id)
    state_of_report = joinedload(Notice.report).load_only(Notice.state)
    query = select(Notice).where(*wanted).order_by(Notice.notice_id.desc()).options(state_of_report)
    return list(session.scalars(query.limit(limit)))


def _change(session: Session, claimed: Claimed, *states: NoticeState, **values: Any) -> bool:  # noqa: ANN401 each column's own type
    changed = (
        update(Notice)
        .where(Notice.notice_id == claimed.notice_id, Notice.state.in_(states), Notice.tries == claimed.tries)
        .values(**values)
        .returning(Notice.notice_id)
    )
    return session.scalar(changed) is not None


def _end(state: NoticeState, reason: str) -> dict[str, Any]:
    return {"state": state, "ended": func.now(), "expires": None, "last_error": _plain(reason)}


def _later(due: ColumnElement[datetime], reason: str, **further: object) -> dict[str, Any]:
    state = NoticeState.WAITING
    return {"state": state, "due": due, "expires": None, "last_error": _plain(reason), **further}


def _plain(reason: str) -> str:
    # PostgreSQL text cannot contain NUL.
    return reason.replace("\0", "")[:_LONGEST_ERROR]


def _zone_of(session: Session, notice: Notice) -> str | None:
    """Return the time zone of the schedule that the notice is about; None if it is not about a schedule."""
    if notice.occasion == Occasion.STORE_AUDIT:
        owner = StoreAuditSchedule.repository_id
        plans = select(StoreAuditSchedule.time_zone).where(
            or_(owner == notice.repository_id, owner.is_(None))
        )
        return session.scalar(plans.order_by(owner.is_(None)).limit(1))
    schedule = session.get(RecurringJob, notice.facts.get("recurring_id") or 0)
    return schedule.time_zone if schedule else None


def _claimed(session: Session, notice: Notice) -> Claimed:
    return from_row(
        Claimed,
        notice,
        created=notice.created.astimezone(UTC),
        keys=keys_of(session, notice),
        zone=_zone_of(session, notice),
        ordered_by=ordered_by(session, notice.rule_id) if notice.channel == Channel.MAIL else None,
    )


def ordered_by(session: Session, rule_id: int | None) -> str | None:
    """Return the name of the user who added the rule; None if the audit log does not have it."""
    added = select(AuditEntry.user_name).where(
        AuditEntry.action == "notification.add",
        AuditEntry.object_kind == "notification rule",
        AuditEntry.object_id == str(rule_id),
    )
    return session.scalar(added.order_by(AuditEntry.audit_id.desc()).limit(1))


class NotSentError(ZatvaError):
    """The recipient does not have the notice; it may be tried again."""

    exit_code: ClassVar[ExitCode] = ExitCode.REMOTE_FAILED


class NotConfiguredError(NotSentError):
    """A setting for sending is wrong or missing."""

    exit_code = ExitCode.NOT_READY


class RefusedError(NotSentError):
    """The recipient will not accept the notice later, either."""


class UnconfirmedError(NotSentError):
    """The notice was transmitted, and it is unknown whether it arrived."""
