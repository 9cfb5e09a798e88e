"""Daily and weekly summaries, a notice for each rule and period."""

from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, ColumnElement, Select, case, cast, exists, func, literal, select, union
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import NOT_RUN, RunStatus
from manager.jobs.runs import awaits_approval, was_started
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.notices.announcements import Facts, facts_of_repository, moment, notices_for
from manager.notices.models import Kind, NoticeRule, Occasion
from manager.schedules.service import database_now
from oai.failure_codes import NO_ROOM

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
            periods = (now - last) // period
            until = last + periods * period
            if until > last:
                facts = {**_facts(session, rule, until), "periods": periods}
                session.add_all(notices_for(rule, Occasion.SUMMARY, facts))
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
        "missed": _missed(session, rule, until),
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


def _missed(session: Session, rule: NoticeRule, until: datetime) -> Facts | None:
    """Return how many due times were missed, with the first and the last one; None if there are none.

    The manager writes their rows after an outage, so those are counted that it has written in the period,
    although the due times may be earlier.
    """
    facts = History.failure_facts
    count, more, first, last = session.execute(
        select(
            func.sum(func.coalesce(facts["count"].as_integer(), 1)),
            func.bool_or(facts["more"].as_boolean()),
            func.min(History.harvest_start_time),
            func.max(History.harvest_end_time),
        ).where(
            History.status == RunStatus.MISSED,
            History.announced >= rule.summarised,
            History.announced < until,
            *_only(rule, History.repository_id, History.recurring_id),
        )
    ).one()
    if count is None:
        return None
    return {"count": int(count), "more": bool(more), "first": moment(first), "last": moment(last)}


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
    """Select the last runs in the window that failed or had no room, and those that wait for approval."""
    source = (History.repository_id, History.metadata_prefix, History.set_spec)
    # Incomplete as well, but it continues only after somebody has made room.
    no_room = func.coalesce(History.failure_code, "").in_(NO_ROOM)
    continues = History.status.in_((RunStatus.KILLED, RunStatus.INCOMPLETE)) & ~no_room
    last = (
        select(func.max(History.history_id))
        .where(*window, was_started(), ~continues)
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
        runs.where(History.history_id.in_(last), History.status.in_(_BAD) | no_room, ~stopped),
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
