"""The outbox: which process sends a notice, and with which result. Each step is a compare-and-swap."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from sqlalchemy import ColumnElement, Select, and_, case, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from manager.notices.models import Channel, Notice, NoticeRule, NoticeState
from manager.schedules.service import database_now
from oai.errors import ExitCode, ZatvaError

TRIES: Final = 14
"""How many times a notice is tried: over three days, with the pauses below."""

KEPT_DAYS: Final = 90
_FIRST_PAUSE: Final = timedelta(minutes=1)
_LONGEST_PAUSE: Final = timedelta(hours=12)
_LONGEST_ERROR: Final = 1000
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


def claim(session: Session, channel: Channel, *, most: int, lease: float) -> list[Claimed]:
    """Claim up to `most` due notices, oldest first, for `lease` seconds. The caller commits.

    Notices to one recipient about one repository stay in order: a notice waits for earlier ones.
    """
    # SKIP LOCKED: rows that another manager is claiming are passed over, so no notice is claimed twice.
    due = (
        select(Notice.notice_id)
        .where(
            Notice.ended.is_(None),
            Notice.state == NoticeState.WAITING,
            Notice.channel == channel,
            Notice.due <= func.now(),
            ~_is_behind(),
        )
        .order_by(Notice.due, Notice.notice_id)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    taken = (
        update(Notice)
        .where(Notice.notice_id.in_(due.scalar_subquery()), Notice.state == NoticeState.WAITING)
        .values(
            state=NoticeState.CLAIMED, tries=Notice.tries + 1, expires=func.now() + timedelta(seconds=lease)
        )
        .returning(Notice)
    )
    notices = sorted(session.scalars(taken), key=lambda notice: notice.notice_id)
    return [_claimed(notice) for notice in notices]


def _is_behind() -> ColumnElement[bool]:
    """Return whether an earlier notice to the same recipient about the same repository is still unsent."""
    earlier = aliased(Notice)
    return exists().where(
        earlier.rule_id == Notice.rule_id,
        earlier.target == Notice.target,
        earlier.repository_id.is_not_distinct_from(Notice.repository_id),
        earlier.notice_id < Notice.notice_id,
        earlier.ended.is_(None),
    )


def hand_over(session: Session, claimed: Claimed) -> bool:
    """Record that the message is about to be transmitted; False if another sender has claimed the notice.

    The caller commits before it sends.
    """
    return _change(session, claimed, NoticeState.CLAIMED, state=NoticeState.HANDED)


def sent(session: Session, claimed: Claimed) -> None:
    """Record that the recipient has the notice. The caller commits."""
    _change(session, claimed, *_OPEN, state=NoticeState.SENT, ended=func.now(), expires=None, last_error=None)


def unsure(session: Session, claimed: Claimed, reason: str) -> None:
    """Record that it is unknown whether the notice arrived, so it is not sent again. The caller commits."""
    _change(session, claimed, *_OPEN, **_end(NoticeState.UNSURE, reason))


def not_sent(
    session: Session, claimed: Claimed, reason: str, *, tries: int = TRIES, again: bool = True
) -> None:
    """Record why the notice was not accepted, and retry later or give it up. The caller commits."""
    if again and claimed.tries < tries:
        pause = min(_FIRST_PAUSE * 2 ** (claimed.tries - 1), _LONGEST_PAUSE)
        _change(
            session,
            claimed,
            *_OPEN,
            state=NoticeState.WAITING,
            due=func.now() + pause,
            expires=None,
            last_error=_plain(reason),
        )
    else:
        _change(session, claimed, *_OPEN, **_end(NoticeState.GIVEN_UP, reason))


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
    reason = (
        "the sending process ended while the message was on its way; it may have been delivered, so it "
        "is not sent again"
    )
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
            last_error=case((doubtful, reason), else_="the sending process ended; the message is sent again"),
            expires=None,
        )
        .returning(Notice.notice_id)
    )
    return len(session.scalars(abandoned).all())


def prune(session: Session) -> None:
    """Delete notices that were sent, or given up, long ago. The caller commits."""
    before = database_now(session) - timedelta(days=KEPT_DAYS)
    session.execute(delete(Notice).where(Notice.ended < before))


def list_notices(
    session: Session,
    limit: int = 50,
    *,
    before: int | None = None,
    among: Select[int] | None = None,
    rule_id: int | None = None,
    state: NoticeState | None = None,
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
    query = select(Notice).where(*wanted).order_by(Notice.notice_id.desc())
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


def _plain(reason: str) -> str:
    # PostgreSQL text cannot contain NUL.
    return reason.replace("\0", "")[:_LONGEST_ERROR]


def _claimed(notice: Notice) -> Claimed:
    return Claimed(
        notice_id=notice.notice_id,
        occasion=notice.occasion,
        channel=notice.channel,
        target=notice.target,
        language=notice.language,
        facts=notice.facts,
        created=notice.created.astimezone(UTC),
        tries=notice.tries,
    )


class NotSentError(ZatvaError):
    """The recipient does not have the notice; it may be tried again."""

    exit_code: ClassVar[ExitCode] = ExitCode.REMOTE_FAILED


class RefusedError(NotSentError):
    """The recipient will not accept the notice later, either."""


class NoWordError(NotSentError):
    """The notice was transmitted, and it is unknown whether it arrived."""
