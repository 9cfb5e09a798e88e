"""Harvests that have ended become notices in the outbox: whom they concern, and what is new about them.

Whoever wrote the history row, the harvester, the manager or plain SQL: it is found here, and marked in the
transaction that writes its notices. So each is told of once, however often a manager dies.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, Final

from sqlalchemy import exists, func, or_, select
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import RunStatus
from manager.models import UNDER_WAY, Job
from manager.notices.models import Channel, Kind, Notice, NoticeRule, NoticeStreak, Occasion
from manager.schedules.service import database_now
from oai.failures import Failure, FailureCode
from oai.outgoing import HookSettings

_SHOWN_WARNINGS: Final = 3
_LONGEST: Final = 1000
_COUNTS: Final = ("new", "updated", "unchanged", "deleted", "filtered", "invalid")

Facts = dict[str, Any]


def facts_of_run(session: Session, run: History) -> Facts:
    """A run that has ended, with what comes next. Times are ISO 8601 in UTC."""
    refused = run.status == RunStatus.COMPLETED_WITH_ERRORS and run.failure is None
    other = Failure(code=FailureCode.RECORDS_REFUSED if refused else FailureCode.OTHER)
    failure = run.failure or other
    return {
        **facts_of_repository(session, run.repository_id),
        "history_id": run.history_id,
        "job_id": run.job_id,
        "recurring_id": run.recurring_id,
        "metadata_prefix": run.metadata_prefix or "",
        "set_spec": run.set_spec or "",
        "status": run.status,
        "verdict": run.verdict,
        "failure_kind": failure.kind,
        "failure": failure.as_json(),
        "failure_reason": _short(run.failure_reason),
        "request": failure.facts.get("url"),
        "started": moment(run.harvest_start_time),
        "ended": moment(run.harvest_end_time),
        "records": run.record_count,
        **{name: getattr(run, f"{name}_count") for name in _COUNTS},
        "requests": run.requests,
        "bytes": run.bytes,
        "warnings": [_short(str(warning)) for warning in run.warnings[:_SHOWN_WARNINGS]],
        "warning_count": len(run.warnings),
        "host": run.host,
        "next": _next_try(session, run),
        "streak": None,
    }


def facts_of_repository(session: Session, repository_id: int | None) -> Facts:
    """A repository's number, name, address and the mail address of its keeper."""
    repository = None if repository_id is None else session.get(Repository, repository_id)
    if repository is None:
        return {"repository_id": repository_id, "repository_name": "", "base_url": "", "admin_email": None}
    return {
        "repository_id": repository.repository_id,
        "repository_name": repository.repository_name or repository.base_url,
        "base_url": repository.base_url,
        "admin_email": repository.admin_email,
    }


def facts_of_streak(streak: NoticeStreak) -> Mapping[str, Any]:
    """How long a source has been failing."""
    return {"began": moment(streak.began), "failures": streak.failures, "gravity": streak.gravity}


def moment(value: datetime) -> str:
    """The time in UTC, as facts have it."""
    return value.astimezone(UTC).isoformat(timespec="seconds")


def _next_try(session: Session, run: History) -> str | None:
    """When the same source is harvested next, as far as it is planned."""
    due = session.scalar(
        select(func.min(Job.harvest_start_time)).where(
            Job.repository_id == run.repository_id,
            Job.metadata_prefix == (run.metadata_prefix or "oai_dc"),
            func.coalesce(Job.set_spec, "") == (run.set_spec or ""),
        )
    )
    return None if due is None else moment(due)


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


REMINDER: Final = timedelta(days=1)
TOO_OLD: Final = timedelta(days=7)
"""A run that ended so long before a manager saw it is not told of."""

_AT_ONCE: Final = 200
_ONE_AT_A_TIME: Final = 0x7A_61_6E_6F


class Gravity(IntEnum):
    """How bad a run's ending is."""

    GOOD = 0
    REFUSED = 1
    """Records were refused or are missing; the others came."""
    FAILED = 2


_GRAVITY: Final = {
    RunStatus.COMPLETED: Gravity.GOOD,
    RunStatus.NO_CHANGES: Gravity.GOOD,
    RunStatus.COMPLETED_WITH_ERRORS: Gravity.REFUSED,
    RunStatus.FAILED: Gravity.FAILED,
    RunStatus.HELD: Gravity.FAILED,
    RunStatus.INCOMPLETE: Gravity.FAILED,
    RunStatus.LOST: Gravity.FAILED,
}
_RULES_AT_ONCE: Final = (
    select(NoticeRule).where(NoticeRule.kind.not_in((Kind.DAILY, Kind.WEEKLY))).order_by(NoticeRule.rule_id)
)
"""Those that want to be told at once, and not by a summary."""
_MAY_GO_ON: Final = frozenset({RunStatus.INCOMPLETE, RunStatus.LOST})


def announce(session: Session, hooks: Sequence[HookSettings] = ()) -> int:
    """Write the notices of runs that have ended; gives how many runs there were. The caller commits.

    A run whose job is not settled yet waits: only then is it known whether the harvest goes on.
    """
    session.execute(select(func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))
    unsettled = exists().where(Job.job_id == History.job_id, Job.status.in_(UNDER_WAY))
    ended = (
        select(History)
        .where(History.announced.is_(None), ~unsettled)
        .order_by(History.history_id)
        .limit(_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    runs = session.scalars(ended).all()
    if not runs:
        return 0
    now = database_now(session)
    rules = session.scalars(select(NoticeRule).order_by(NoticeRule.rule_id)).all()
    for run in runs:
        if now - run.harvest_end_time <= TOO_OLD:
            _announce_run(session, run, rules, hooks, now)
        run.announced = now
        session.flush()
    return len(runs)


def tell(
    session: Session,
    occasion: Occasion,
    *,
    repository_id: int,
    recurring_id: int | None = None,
    job_id: int | None = None,
    reason: str = "",
) -> int:
    """Tell all whom it concerns of something that is no run's end: suspended, stuck, set aside.

    Call it in the transaction in which that comes about, which the caller commits. Gives how many notices
    were written.
    """
    facts = {
        **facts_of_repository(session, repository_id),
        "recurring_id": recurring_id,
        "job_id": job_id,
        "failure_reason": reason,
        "at": moment(database_now(session)),
    }
    notices = [
        notice
        for rule in session.scalars(_RULES_AT_ONCE)
        if _concerns(rule, repository_id, recurring_id)
        for notice in notices_for(rule, occasion, facts)
    ]
    session.add_all(notices)
    session.flush()
    return len(notices)


def notices_for(rule: NoticeRule, occasion: Occasion, facts: Facts) -> list[Notice]:
    """A notice to each of a rule's recipients, not yet in the session."""
    targets = rule.target.split(",") if rule.channel == Channel.MAIL else [rule.target]
    return [
        Notice(
            rule_id=rule.rule_id,
            repository_id=facts.get("repository_id"),
            history_id=facts.get("history_id"),
            occasion=occasion,
            channel=rule.channel,
            target=target.strip(),
            language=rule.language,
            facts=facts,
        )
        for target in targets
    ]


def gravity_of(session: Session, run: History) -> Gravity | None:
    """How bad a run's ending is; None where it says nothing: someone ended it, or it goes on by itself."""
    if run.status in _MAY_GO_ON and _goes_on(session, run):
        return None
    return _GRAVITY.get(RunStatus(run.status)) if run.status in set(RunStatus) else None


def _announce_run(
    session: Session,
    run: History,
    rules: Iterable[NoticeRule],
    hooks: Iterable[HookSettings],
    now: datetime,
) -> None:
    facts = facts_of_run(session, run)
    gravity = gravity_of(session, run)
    for rule in rules:
        if rule.added <= run.harvest_end_time and _concerns(rule, run.repository_id, run.recurring_id):
            _apply(session, rule, run, facts, gravity, now)
    for hook in hooks:
        if hook.repository_id in (None, run.repository_id):
            session.add(
                Notice(
                    repository_id=run.repository_id,
                    history_id=run.history_id,
                    occasion=Occasion.ENDED,
                    channel=Channel.HOOK,
                    target=hook.name,
                    facts=facts,
                )
            )


def _apply(
    session: Session,
    rule: NoticeRule,
    run: History,
    facts: Facts,
    gravity: Gravity | None,
    now: datetime,
) -> None:
    occasion, streak = _streak(session, rule, run, gravity, now)
    if occasion is None and rule.kind in (Kind.CHANGE, Kind.ALWAYS):
        changed = run.new_count + run.updated_count + run.deleted_count > 0
        if rule.kind == Kind.ALWAYS or changed:
            occasion = Occasion.ENDED
    if occasion is not None and rule.kind not in (Kind.DAILY, Kind.WEEKLY):
        told = facts if streak is None else {**facts, "streak": facts_of_streak(streak)}
        session.add_all(notices_for(rule, occasion, told))


def _streak(
    session: Session, rule: NoticeRule, run: History, gravity: Gravity | None, now: datetime
) -> tuple[Occasion | None, NoticeStreak | None]:
    """What the run means for the rule's knowledge of its source, and the streak that it is part of."""
    key = (rule.rule_id, run.repository_id, run.metadata_prefix or "", run.set_spec or "")
    streak = session.get(NoticeStreak, key)
    if gravity is None:
        return None, streak
    if streak is None:
        return (
            (None, None)
            if gravity is Gravity.GOOD
            else (Occasion.FAILING, _begin(session, key, run, gravity))
        )
    if gravity < streak.gravity:
        return Occasion.WORKS_AGAIN, _recover(session, streak, gravity, now)
    streak.failures += 1
    if gravity > streak.gravity:
        streak.gravity, streak.told = gravity, now
        return Occasion.FAILING, streak
    if gravity is Gravity.FAILED and now - streak.told >= REMINDER:
        streak.told = now
        return Occasion.STILL_FAILING, streak
    return None, streak


def _begin(session: Session, key: tuple[int, int, str, str], run: History, gravity: Gravity) -> NoticeStreak:
    names = ("rule_id", "repository_id", "metadata_prefix", "set_spec")
    streak = NoticeStreak(
        **dict(zip(names, key, strict=True)),
        gravity=gravity,
        began=run.harvest_start_time,
        failures=1,
        told=run.harvest_end_time,
    )
    session.add(streak)
    return streak


def _recover(session: Session, streak: NoticeStreak, gravity: Gravity, now: datetime) -> NoticeStreak:
    """The streak as it was; what stays of it is that records are refused, where they are."""
    past = NoticeStreak(began=streak.began, failures=streak.failures, gravity=streak.gravity)
    if gravity is Gravity.GOOD:
        session.delete(streak)
    else:
        streak.gravity, streak.told, streak.failures = gravity, now, 1
    return past


def _concerns(rule: NoticeRule, repository_id: int, recurring_id: int | None) -> bool:
    return rule.repository_id in (None, repository_id) and rule.recurring_id in (None, recurring_id)


def _goes_on(session: Session, run: History) -> bool:
    """Whether a job is at it again, or is to be: paused, at once after a shutdown, or as a further try."""
    again = exists().where(
        Job.repository_id == run.repository_id,
        Job.metadata_prefix == (run.metadata_prefix or "oai_dc"),
        func.coalesce(Job.set_spec, "") == (run.set_spec or ""),
        or_(Job.job_id == run.job_id, Job.attempt > 0, Job.harvest_start_time <= func.now()),
    )
    return bool(session.scalar(select(again)))
