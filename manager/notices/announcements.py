"""Ended harvests become notices in the outbox: whom they concern, and what has changed.

The history row may be written by the harvester, the manager or plain SQL: this module finds it and marks it
in the transaction that writes its notices. So each run is announced exactly once, even if managers die in
between.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from harvester.harvest.approval import HoldState
from harvester.harvest.models import Hold
from harvester.harvest.run_warnings import notes_of
from harvester.models import History, Repository
from harvester.repositories import due_after_wait
from harvester.store.models import AuditState, StoreAudit, damage
from harvester.vocabulary import RunStatus
from manager.jobs.runs import pieces_of
from manager.models import UNDER_WAY, Job
from manager.notices.gravity import Gravity, gravity_of
from manager.notices.models import Channel, Kind, Mute, Notice, NoticeRule, NoticeStreak, Occasion
from manager.notices.mutes import (
    LONG_AGO,
    end_acknowledgements,
    mute_notices,
    mute_of_repository,
    mute_of_run,
)
from manager.schedules.service import database_now
from oai.failure_codes import NOT_STARTED
from oai.failures import Failure, FailureCode
from oai.outgoing import HookSettings

_SHOWN_WARNINGS: Final = 3
_SHOWN_FINDINGS: Final = 5
_SHOWN_HELD: Final = 5
_LONGEST: Final = 1000
_COUNTS: Final = ("new", "updated", "unchanged", "deleted", "filtered", "invalid")

Facts = dict[str, Any]
REMINDER: Final = timedelta(hours=20)
"""Less than a day, because a daily run never ends at quite the same time of day."""
TOO_OLD: Final = timedelta(days=7)
"""A run that ended longer ago than this when a manager finds it is not announced."""
_AT_ONCE: Final = 50
"""Few, so that sending does not wait for long while many harvests end."""
_ONE_AT_A_TIME: Final = 0x7A_61_6E_6F


def facts_of_run(session: Session, run: History) -> Facts:
    """Return the facts of an ended run and of the next one planned. Times are ISO 8601 in UTC."""
    refused = run.status == RunStatus.COMPLETED_WITH_ERRORS and run.failure is None
    other = Failure(code=FailureCode.RECORDS_REFUSED if refused else FailureCode.OTHER)
    failure = run.failure or other
    notes = notes_of(run.warnings, run.warning_failures)[:_SHOWN_WARNINGS]
    return {
        **facts_of_repository(session, run.repository_id),
        "history_id": run.history_id,
        "continues": [piece.history_id for piece in pieces_of(session, run.history_id)],
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
        "warnings": [_short(str(note.text)) for note in notes],
        "warning_failures": [note.failure.as_json() if note.failure else None for note in notes],
        "warning_count": len(run.warnings),
        "host": run.host,
        "next": _next_try(session, run),
        "streak": None,
        "held": _facts_of_hold(session, run),
    }


def _facts_of_hold(session: Session, run: History) -> Facts | None:
    """Return what a held run would delete or change, with the first of the affected identifiers."""
    hold = session.get(Hold, run.history_id)
    if hold is None:
        return None
    names = ("kind", "would_delete", "would_update", "active", "allowed")
    return {**{name: getattr(hold, name) for name in names}, "sample": hold.sample[:_SHOWN_HELD]}


def facts_of_repository(session: Session, repository_id: int | None) -> Facts:
    """Return a repository's id, name, address and the mail address of its administrator."""
    repository = None if repository_id is None else session.get(Repository, repository_id)
    if repository is None:
        return {"repository_id": repository_id, "repository_name": "", "base_url": "", "admin_email": None}
    return {
        "repository_id": repository.repository_id,
        "repository_name": repository.display_name,
        "base_url": repository.display_url,
        "admin_email": repository.admin_email,
    }


def facts_of_streak(streak: NoticeStreak) -> Mapping[str, Any]:
    """Return how long a source has been failing."""
    return {"began": moment(streak.began), "failures": streak.failures, "gravity": streak.gravity}


def moment(value: datetime) -> str:
    """Return the time in UTC, in the format of facts."""
    return value.astimezone(UTC).isoformat(timespec="seconds")


def _next_try(session: Session, run: History) -> str | None:
    """Return when the same source is harvested next, as far as it is planned."""
    due = session.scalar(
        select(func.min(Job.harvest_start_time)).where(
            Job.repository_id == run.repository_id,
            Job.metadata_prefix == (run.metadata_prefix or "oai_dc"),
            func.coalesce(Job.set_spec, "") == (run.set_spec or ""),
        )
    )
    return None if due is None else moment(due_after_wait(session, run.repository_id, due))


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


_RULES_AT_ONCE: Final = (
    select(NoticeRule).where(NoticeRule.kind.not_in((Kind.DAILY, Kind.WEEKLY))).order_by(NoticeRule.rule_id)
)
"""The kinds of rules that are notified at once rather than by a summary."""


def announce(session: Session, hooks: Sequence[HookSettings] = (), *, most: int = _AT_ONCE) -> int:
    """Write the notices of at most `most` ended runs and return the number of runs. The caller commits.

    A run whose job is not settled yet is postponed: only settling decides whether the harvest continues.
    """
    # Serialised until the commit, because two announcers would both read and then write the same streak.
    session.execute(select(func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))
    unsettled = exists().where(Job.job_id == History.job_id, Job.status.in_(UNDER_WAY))
    ended = (
        select(History)
        .where(History.announced.is_(None), ~unsettled)
        .order_by(History.history_id)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    runs = session.scalars(ended).all()
    if not runs:
        return 0
    now = database_now(session)
    rules = session.scalars(select(NoticeRule).order_by(NoticeRule.rule_id)).all()
    for run in runs:
        # Something of ours kept the run off its repository: no harvest has ended.
        if run.failure_code not in NOT_STARTED and now - run.harvest_end_time <= TOO_OLD:
            _announce_run(session, run, rules, hooks, now)
        run.announced = now
    session.flush()
    return len(runs)


def announce_audits(session: Session) -> int:
    """Write the notices of some ended audits of stores; return the number of audits.

    Audits that found nothing are marked only. The caller commits.
    """
    ended = (
        select(StoreAudit)
        .where(StoreAudit.announced.is_(None), StoreAudit.ended.is_not(None))
        .order_by(StoreAudit.audit_id)
        .limit(_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    audits = session.scalars(ended).all()
    now = database_now(session)
    for audit in audits:
        if audit.state == AuditState.RUNNING:
            # Written by `zatva store verify` of an earlier version, which knows no state.
            found = damage(missing=audit.missing, altered=audit.altered, stray=audit.stray)
            audit.conclude(found, state=AuditState.DONE, ended=audit.ended or now)
        if audit.failure is not None and audit.ended is not None and now - audit.ended <= TOO_OLD:
            _announce_audit(session, audit, audit.failure)
        audit.announced = now
    session.flush()
    return len(audits)


def _announce_audit(session: Session, audit: StoreAudit, failure: Failure) -> None:
    notify(
        session,
        Occasion.STORE_AUDIT,
        repository_id=audit.repository_id,
        reason=failure.sentence(),
        more={
            "audit_id": audit.audit_id,
            "failure": failure.as_json(),
            "findings": [
                {"kind": finding["kind"], "path": finding["path"]}
                for finding in audit.findings[:_SHOWN_FINDINGS]
            ],
        },
    )


def notify(
    session: Session,
    occasion: Occasion,
    *,
    repository_id: int,
    recurring_id: int | None = None,
    job_id: int | None = None,
    reason: str = "",
    more: Mapping[str, Any] | None = None,
) -> int:
    """Write notices to all concerned of an event other than a run's end: suspended, stuck, rejected.

    `more` are facts of this event alone.

    Call it in the transaction that causes the event; the caller commits. Returns the number of notices
    written.
    """
    facts = {
        **facts_of_repository(session, repository_id),
        "recurring_id": recurring_id,
        "job_id": job_id,
        "failure_reason": reason,
        "at": moment(database_now(session)),
        **(more or {}),
    }
    notices = [
        notice
        for rule in session.scalars(_RULES_AT_ONCE)
        if _concerns(rule, repository_id, recurring_id)
        for notice in notices_for(rule, occasion, facts)
    ]
    muted = mute_of_repository(session, repository_id)
    if muted is not None:
        mute_notices(notices, muted, database_now(session))
    session.add_all(notices)
    session.flush()
    return len(notices)


def notices_for(rule: NoticeRule, occasion: Occasion, facts: Facts) -> list[Notice]:
    """Return a notice to each of a rule's recipients, not yet added to the session."""
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


def _announce_run(
    session: Session,
    run: History,
    rules: Iterable[NoticeRule],
    hooks: Iterable[HookSettings],
    now: datetime,
) -> None:
    end_acknowledgements(session, run, now)
    rules = [
        rule
        for rule in rules
        if rule.added <= run.harvest_end_time and _concerns(rule, run.repository_id, run.recurring_id)
    ]
    hooks = [hook for hook in hooks if hook.repository_id in (None, run.repository_id)]
    if not rules and not hooks:
        return
    facts = facts_of_run(session, run)
    gravity = gravity_of(session, run)
    muted = mute_of_run(session, run.history_id)
    for rule in rules:
        _apply(session, rule, run, facts, gravity, now, muted)
    for hook in hooks:
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
    # The next run of the same source finds the streaks that this one began.
    session.flush()


def _apply(
    session: Session,
    rule: NoticeRule,
    run: History,
    facts: Facts,
    gravity: Gravity | None,
    now: datetime,
    muted: Mute | None,
) -> None:
    occasion, streak = _streak(session, rule, run, gravity, now)
    if occasion is None and rule.kind in (Kind.CHANGE, Kind.ALWAYS):
        changed = run.new_count + run.updated_count + run.deleted_count > 0
        if rule.kind == Kind.ALWAYS or changed:
            occasion = Occasion.ENDED
    if occasion is not None and rule.kind not in (Kind.DAILY, Kind.WEEKLY):
        all_facts = facts if streak is None else {**facts, "streak": facts_of_streak(streak)}
        notices = notices_for(rule, occasion, all_facts)
        if muted is not None:
            mute_notices(notices, muted, now)
            if streak is not None:
                # So that the first failure, or the first rejected records, after the mute are reported.
                streak.told = LONG_AGO
        session.add_all(notices)


def _streak(
    session: Session, rule: NoticeRule, run: History, gravity: Gravity | None, now: datetime
) -> tuple[Occasion | None, NoticeStreak | None]:
    """Update the rule's streak for the source; return the occasion for a notice, if any, and the streak."""
    key = (rule.rule_id, run.repository_id, run.metadata_prefix or "", run.set_spec or "")
    streak = session.get(NoticeStreak, key)
    if gravity is None or (streak and gravity < streak.gravity and _waits_for_approval(session, run)):
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
    failed, was_muted = gravity is Gravity.FAILED, streak.told == LONG_AGO
    # The clock may have been ahead at the last one.
    if abs(now - streak.told) >= REMINDER and (failed or was_muted):
        streak.told = now
        return Occasion.STILL_FAILING if failed else Occasion.FAILING, streak
    return None, streak


def _waits_for_approval(session: Session, run: History) -> bool:
    """Return whether an earlier run of the same harvest is held, though incremental ones succeed."""
    held = exists().where(Hold.harvest_id == run.harvest_id, Hold.state == HoldState.HELD)
    return bool(session.scalar(select(held)))


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
    """Return a copy of the streak; delete the stored one, or reduce it if records are still rejected."""
    past = NoticeStreak(began=streak.began, failures=streak.failures, gravity=streak.gravity)
    if gravity is Gravity.GOOD:
        session.delete(streak)
    else:
        streak.gravity, streak.told, streak.failures = gravity, now, 1
    return past


def _concerns(rule: NoticeRule, repository_id: int, recurring_id: int | None) -> bool:
    return rule.repository_id in (None, repository_id) and rule.recurring_id in (None, recurring_id)
