"""The outbox: who sends a notice, and what became of it. Each step is a compare-and-swap."""

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
"""How often a notice is tried: over three days, with the pauses below."""

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
    """This one included."""


def claim(session: Session, channel: Channel, *, most: int, lease: float) -> list[Claimed]:
    """Take up to so many notices that are due, the oldest first, for `lease` seconds. The caller commits.

    What one recipient is told about one repository stays in its order: a notice waits for earlier ones.
    """
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
    """Whether an earlier notice to the same recipient about the same repository is still to come."""
    earlier = aliased(Notice)
    return exists().where(
        earlier.rule_id == Notice.rule_id,
        earlier.target == Notice.target,
        earlier.repository_id.is_not_distinct_from(Notice.repository_id),
        earlier.notice_id < Notice.notice_id,
        earlier.ended.is_(None),
    )


def hand_over(session: Session, claimed: Claimed) -> bool:
    """Note that the message itself goes out now; False where somebody else has taken the notice meanwhile.

    The caller commits before it sends.
    """
    return _change(session, claimed, NoticeState.CLAIMED, state=NoticeState.HANDED)


def sent(session: Session, claimed: Claimed) -> None:
    """Note that the other side has it. The caller commits."""
    _change(session, claimed, *_OPEN, state=NoticeState.SENT, ended=func.now(), expires=None, last_error=None)


def unsure(session: Session, claimed: Claimed, reason: str) -> None:
    """Note that nobody knows whether it came, so that it must not be sent again. The caller commits."""
    _change(session, claimed, *_OPEN, **_end(NoticeState.UNSURE, reason))


def not_sent(
    session: Session, claimed: Claimed, reason: str, *, tries: int = TRIES, again: bool = True
) -> None:
    """Note why it was not taken, and try again later, or give it up. The caller commits."""
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
    """Let the next manager send what this one was cut off at. The caller commits.

    A mail that was on its way is left to `take_up_abandoned`.
    """
    states = [NoticeState.CLAIMED]
    if claimed.channel != Channel.MAIL:
        states.append(NoticeState.HANDED)
    _change(session, claimed, *states, state=NoticeState.WAITING, tries=Notice.tries - 1, expires=None)


def take_up_abandoned(session: Session) -> int:
    """See to the notices of senders that are gone; gives how many. The caller commits.

    A mail that was on its way may have come: it is not sent again, but shown as unsure. What goes to
    programs is sent again under the same number, by which they know it.
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
    """Forget notices that were sent, or given up, long ago. The caller commits."""
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
    """The newest notices; `before` is the last page's last `notice_id`.

    `among` selects the repositories whose rules' notices are given; then those of hooks, and of rules about
    all repositories, are left out.
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
    # PostgreSQL keeps no NUL.
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
    """The other side does not have it; it may be tried again."""

    exit_code: ClassVar[ExitCode] = ExitCode.REMOTE_FAILED


class RefusedError(NotSentError):
    """The other side will not have it later, either."""


class NoWordError(NotSentError):
    """It went out, and nobody knows whether it came."""
