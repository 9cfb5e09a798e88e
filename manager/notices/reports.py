"""Reports: many notices to one recipient, collected for some minutes and sent as one message.

A recipient of a rule gets a number of notices within an hour one by one (`manager.notices_at_once`). Further
ones are collected; a quarter of an hour after the first of them, one notice with the occasion `report` is
written for all, which is sent, retried and given up as any other. Nothing is joined while it is being sent,
so a notice never has the result of an attempt that was not its own.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Row,
    Select,
    and_,
    case,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session

from harvester.vocabulary import RunStatus
from manager.notices.announcements import moment
from manager.notices.models import Channel, Notice, NoticeRule, NoticeState, Occasion
from manager.notices.mutes import mute_collected
from manager.notices.waiting import URGENT
from oai.failure_codes import FailureCode

COLLECTING: Final = timedelta(minutes=15)
ENTRIES: Final = 50
"""The notices that a report names."""
_HOUR: Final = timedelta(hours=1)
_LONGEST_NAME: Final = 60
_LONGEST_REASON: Final = 200
_LONGEST_REQUEST: Final = 500
_CHANNELS: Final = (Channel.MAIL, Channel.SERVICE)
"""Those to people; programs get each notice by itself."""
_OCCASIONS: Final = (
    Occasion.FAILING, Occasion.STILL_FAILING, Occasion.WORKS_AGAIN, Occasion.SUSPENDED, Occasion.STUCK,
    Occasion.SET_ASIDE, Occasion.STORE_AUDIT,
)  # fmt: skip
_ARRIVED: Final = (NoticeState.SENT, NoticeState.UNSURE)
_TO: Final = (Notice.rule_id, Notice.channel, Notice.target)
_WAITING: Final = Notice.state == NoticeState.WAITING
_COLLECTED: Final = Notice.state == NoticeState.COLLECTED
_OURS: Final = and_(
    Notice.channel.in_(_CHANNELS), Notice.occasion.in_(_OCCASIONS), Notice.rule_id.is_not(None)
)
_RECOVERED: Final = "recovered"
"""A source that failed and works again within one report."""
_GOOD: Final = (_RECOVERED, Occasion.WORKS_AGAIN)
_KINDS: Final = (
    Occasion.SUSPENDED, Occasion.SET_ASIDE, Occasion.STUCK, Occasion.STORE_AUDIT, "held", Occasion.FAILING,
    Occasion.STILL_FAILING, "records", _RECOVERED, Occasion.WORKS_AGAIN,
)  # fmt: skip
"""What a report counts, in this order."""
_FACTS: Final = (
    "repository_name", "metadata_prefix", "set_spec",
    "failure_kind", "failure_reason", "status", "ended", "at",
)  # fmt: skip
_NUMBERS: Final = ("recurring_id", "job_id", "audit_id", "invalid")
REASONED: Final = (
    FailureCode.HTTP_INVALID, FailureCode.REQUEST_INVALID, FailureCode.PLACE_UNUSABLE,
    FailureCode.INTERNAL_ERROR, FailureCode.OTHER,
)  # fmt: skip
"""Failures whose advice refers to the reason."""
REQUESTED: Final = (FailureCode.HTTP_SERVER_ERROR, FailureCode.HTTP_STATUS, FailureCode.REPOSITORY_ERROR)
"""Failures whose advice refers to the request."""


class _Entry(NamedTuple):
    """A source, or another matter, in a report."""

    row: Row[Any]
    failure: dict[str, Any] | None


class _Recipient(NamedTuple):
    """One recipient of a rule."""

    rule_id: int
    channel: str
    target: str

    def has(self) -> ColumnElement[bool]:
        """Return the condition that a notice is to this recipient."""
        return and_(
            Notice.rule_id == self.rule_id,
            Notice.channel == self.channel,
            Notice.target == self.target,
        )


def collect(session: Session, most: int) -> None:
    """Collect the waiting notices that exceed `most` in an hour for their recipient. The caller commits.

    Once a recipient's notices are collected, so are all later ones until the report is due. Unsent
    notices count, too, so that not too many are sent at once after the mail server was away.
    """
    rules = select(Notice.rule_id).where(_OURS, Notice.ended.is_(None), _WAITING).distinct()
    concerned = session.scalars(rules).all() if most else ()
    if not concerned:
        return
    further = _further(concerned, most).cte()
    time = func.to_char(func.timezone("UTC", further.c.due), 'YYYY-MM-DD HH24:MI "UTC"')
    why = f"; more than {most} for this recipient within an hour (manager.notices_at_once)"
    session.execute(
        update(Notice)
        .where(Notice.notice_id == further.c.notice_id, _WAITING)
        .values(
            state=NoticeState.COLLECTED,
            due=further.c.due,
            last_error="collected for a report at " + time + ", or when the report before it is sent" + why,
        ),
        execution_options={"synchronize_session": False},
    )


def _further(rules: Sequence[int | None], most: int) -> Select[Any]:
    """Select the notices to collect, with the time of their report."""
    order = (case((_WAITING, 1), (_COLLECTED, 2), else_=0), Notice.notice_id)
    rows = (
        select(
            Notice.notice_id,
            Notice.state,
            *_TO,
            func.row_number().over(partition_by=_TO, order_by=order).label("place"),
            func.min(case((_COLLECTED, Notice.notice_id))).over(partition_by=_TO).label("first"),
            func.min(case((_COLLECTED, Notice.due))).over(partition_by=_TO).label("due"),
        )
        .where(_OURS, Notice.ended.is_(None))
        .subquery()
    )
    lately = Notice.ended.between(func.now() - _HOUR, func.now())
    sent = (
        select(*_TO, func.count().label("number"))
        .where(_OURS, Notice.rule_id.in_(rules), lately, Notice.state.in_(_ARRIVED))
        .group_by(*_TO)
        .subquery()
    )
    same = (rows.c[column.key] == sent.c[column.key] for column in _TO)
    due = func.greatest(func.now(), func.coalesce(rows.c.due, func.now() + COLLECTING))
    too_many = rows.c.place + func.coalesce(sent.c.number, 0) > most
    # While the report is held up, a few are sent one by one, by which it is seen that the server is back.
    joins = and_(rows.c.notice_id > rows.c.first, rows.c.due > func.now())
    return (
        select(rows.c.notice_id, due.label("due"))
        .outerjoin_from(rows, sent, and_(*same))
        .where(rows.c.state == NoticeState.WAITING, or_(too_many, joins))
    )


def write_reports(session: Session) -> int:
    """Write the reports that are due and return their number. The caller commits.

    A recipient's report is written when the one before it has been sent, so that after an outage of the mail
    server there is one.
    """
    unsent = select(*_TO).where(Notice.ended.is_(None), Notice.occasion == Occasion.REPORT)
    # Due, too, if the clock was ahead when it was collected.
    is_due = or_(Notice.due <= func.now(), Notice.due > func.now() + COLLECTING)
    due = select(*_TO).where(Notice.ended.is_(None), _COLLECTED, is_due)
    found = session.execute(due.except_(unsent)).all()
    recipients = sorted(_Recipient(rule_id, *rest) for rule_id, *rest in found if rule_id is not None)
    return sum(_write(session, recipient) for recipient in recipients)


def _write(session: Session, to: _Recipient) -> bool:
    # Locked before the notices, as somebody who removes the rule does.
    rule = select(NoticeRule.language).where(NoticeRule.rule_id == to.rule_id)
    language = session.scalar(rule.with_for_update(read=True, key_share=True))
    if language is None:
        return False
    mute_collected(session, to.has())
    rows = _collected(session, to)
    if not rows:
        return False
    report = Notice(
        rule_id=to.rule_id,
        occasion=Occasion.REPORT,
        channel=to.channel,
        target=to.target,
        language=language,
        facts={},
    )
    session.add(report)
    session.flush()
    numbers = [row.notice_id for row in rows]
    first = {"report": report.notice_id, "short": False, "count": len(rows)}
    report.facts = {**first, "since": moment(min(row.created for row in rows)), **_grouped(rows)}
    session.execute(
        update(Notice)
        .where(Notice.notice_id == func.any(literal(numbers, ARRAY(BigInteger))))
        .values(ended=func.now(), report_id=report.notice_id, last_error=None),
        execution_options={"synchronize_session": False},
    )
    session.flush()
    return True


def _collected(session: Session, to: _Recipient) -> Sequence[Row[Any]]:
    """Return a recipient's collected notices in order, and lock them.

    Those about a repository of which an earlier notice is still to be sent are left for the next report.
    """
    unsent = Notice.ended.is_(None)
    before = (
        select(Notice.repository_id, func.min(Notice.notice_id))
        .where(to.has(), unsent, ~_COLLECTED, Notice.occasion.not_in(URGENT))
        .group_by(Notice.repository_id)
    )
    earlier = {row[0]: row[1] for row in session.execute(before)}
    rows = select(
        Notice.notice_id,
        Notice.repository_id,
        Notice.history_id,
        Notice.occasion,
        Notice.created,
        Notice.facts["failure"].label("failure"),
        Notice.facts["held"].label("held"),
        *(Notice.facts[name].astext.label(name) for name in _FACTS),
        *(Notice.facts[name].astext.cast(BigInteger).label(name) for name in _NUMBERS),
    )
    found = session.execute(
        rows.where(to.has(), unsent, _COLLECTED).order_by(Notice.notice_id).with_for_update()
    )
    return [row for row in found if row.notice_id < earlier.get(row.repository_id, row.notice_id + 1)]


def _grouped(rows: Iterable[Row[Any]]) -> dict[str, Any]:
    """Return the facts of a report: its numbers, and groups of what happened in the same way.

    A source that works again is listed as such only; one that fails in two ways is in two groups.
    """
    groups: dict[tuple[str, str], dict[tuple[Any, ...], _Entry]] = {}
    for row in rows:
        key, entry = _key(row), _Entry(row, row.failure)
        source = (row.repository_id or row.repository_name, row.metadata_prefix, row.set_spec)
        if row.history_id is None:
            # About a schedule, a job or a store.
            source = (row.notice_id, None, None)
        elif row.occasion == Occasion.WORKS_AGAIN:
            past = [group.pop(source) for group in groups.values() if source in group]
            failed = [one.failure for one in past if one.failure is not None]
            if key[0] == Occasion.WORKS_AGAIN:
                entry = _Entry(row, failed[-1] if failed else None)
                key = (_RECOVERED, failed[-1].get("code", "")) if failed else key
        else:
            for (kind, code), group in groups.items():
                if kind in _GOOD or code == key[1]:
                    group.pop(source, None)
        groups.setdefault(key, {})[source] = entry
    order = sorted((_KINDS.index(kind), kind, code) for (kind, code), group in groups.items() if group)
    kinds: Counter[str] = Counter()
    for _place, kind, code in order:
        kinds[kind] += len(groups[kind, code])
    found = [_group(kind, list(groups[kind, code].values())) for _place, kind, code in order]
    return {
        "kinds": [[kind, number] for kind, number in kinds.items()],
        "groups": with_entries(found, ENTRIES),
    }


def _key(row: Row[Any]) -> tuple[str, str]:
    """Return what happened, of those in `_KINDS`, and the code of the failure."""
    kind = str(row.occasion)
    if row.failure_kind == "held":
        kind = "held"
    elif row.status == RunStatus.COMPLETED_WITH_ERRORS and kind != Occasion.STILL_FAILING:
        kind = "records"
    elif kind == Occasion.WORKS_AGAIN:
        return kind, ""
    return kind, (row.failure or {}).get("code", "")


def _group(kind: str, entries: Sequence[_Entry]) -> dict[str, Any]:
    failures = [entry.failure or {} for entry in entries]
    # Only what is true of all: the words of a group are not those of its first entry.
    same = {
        name: value for name, value in failures[0].items() if all(one.get(name) == value for one in failures)
    }
    shown = [_shown(entry.row, kind, same) for entry in entries[:ENTRIES]]
    advice = kind not in _GOOD and (same.get("code") not in REQUESTED or any(one["request"] for one in shown))
    return {
        "kind": kind,
        "failure": same or None,
        "advice": advice,
        "count": len(entries),
        "entries": shown,
    }


def _shown(row: Row[Any], kind: str, same: Mapping[str, Any]) -> dict[str, Any]:
    names = {name: _cut(getattr(row, name) or "", _LONGEST_NAME) for name in _FACTS[:3]}
    numbers = {name: getattr(row, name) for name in ("history_id", *_NUMBERS)}
    failure = row.failure or {}
    code = failure.get("code")
    # The reason of a suspended schedule repeats the words of its group, if those say all.
    repeated = kind == Occasion.SUSPENDED and failure and failure == same and code not in REASONED
    reason = "" if kind in _GOOD or repeated else _cut(row.failure_reason or "", _LONGEST_REASON)
    request = _cut(str(failure.get("url") or ""), _LONGEST_REQUEST) if code in REQUESTED else ""
    more = {"reason": reason, "request": request, "at": row.ended or row.at, "held": row.held}
    return {**names, **numbers, **more}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"


def with_entries(groups: Iterable[Mapping[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return the groups with at most that many entries: the first of each, then the second of each."""
    groups = list(groups)
    turns = zip_longest(*([number] * len(group["entries"]) for number, group in enumerate(groups)))
    kept = Counter([number for number in chain.from_iterable(turns) if number is not None][:most])
    return [{**group, "entries": group["entries"][: kept[number]]} for number, group in enumerate(groups)]
