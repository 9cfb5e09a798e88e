"""Due times of a schedule at which nothing began: each gap is a row of the history, so that it is seen.

A due time that came while the schedule's last run was under way is skipped; one that came before it began, or
when it had ended and nobody made the next job, was missed, and one run makes up for all of them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import History
from harvester.vocabulary import NOT_RUN, RunStatus
from manager.models import RecurringJob
from manager.plans import Plan
from oai.datestamps import format_datestamp
from oai.failures import Failure, FailureCode

MOST: Final = 1000
"""So many due times are counted; a gap of more tells only that it has at least so many."""

_CODES: Final = {RunStatus.SKIPPED: FailureCode.RUN_SKIPPED, RunStatus.MISSED: FailureCode.RUN_MISSED}


@dataclass(frozen=True, kw_only=True)
class _Span:
    """When the schedule's last run began and ended."""

    began: datetime
    ended: datetime


def note_left_out(
    session: Session, schedule: RecurringJob, plan: Plan, now: datetime, *, due: datetime | None
) -> int:
    """Write the due times since the schedule's last job that have passed; `due` is when its next one is.

    Gives how many there were, at most `MOST`. The caller commits.
    """
    if schedule.last_due is None:
        return 0
    dues = _between(plan, schedule.last_due, now)
    if due == now:
        # The last of them is made up for by the job itself.
        dues = dues[:-1]
    last_run = _last_run(session, schedule.id)
    skipped = [each for each in dues if last_run is not None and last_run.began <= each <= last_run.ended]
    missed = [each for each in dues if each not in set(skipped)]
    for status, times in ((RunStatus.MISSED, missed), (RunStatus.SKIPPED, skipped)):
        if times:
            session.add(_row(schedule, status, times, now))
    return len(dues)


def _between(plan: Plan, begin: datetime, end: datetime) -> list[datetime]:
    """The due times later than `begin` and not later than `end`; at most `MOST`."""
    found: list[datetime] = []
    following = plan.next_after(begin)
    while following is not None and following <= end and len(found) < MOST:
        found.append(following)
        following = plan.next_after(following)
    return found


def _last_run(session: Session, recurring_id: int) -> _Span | None:
    """The schedule's last run, from the beginning of its job on, pauses included."""
    run = session.scalars(
        select(History)
        .where(History.recurring_id == recurring_id, History.status.not_in(NOT_RUN))
        .order_by(History.history_id.desc())
        .limit(1)
    ).one_or_none()
    if run is None:
        return None
    began = session.scalar(
        select(func.min(History.harvest_start_time)).where(
            History.job_id == run.job_id, History.recurring_id == recurring_id
        )
    )
    return _Span(began=began or run.harvest_start_time, ended=run.harvest_end_time)


def _row(schedule: RecurringJob, status: RunStatus, times: list[datetime], now: datetime) -> History:
    first, last = format_datestamp(times[0]), format_datestamp(times[-1])
    most = len(times) == MOST
    facts = {"count": len(times), "more": most, "first": first, "last": last}
    failure = Failure(code=_CODES[status], facts=facts)
    when = f"{len(times):,}{' or more' if most else ''} due times, {first} to {last}"
    in_english = Failure(code=failure.code, facts={"times": when if len(times) > 1 else f"due at {first}"})
    return History(
        repository_id=schedule.repository_id,
        recurring_id=schedule.id,
        status=status,
        failure_reason=in_english.sentence(),
        failure_code=failure.code.value,
        failure_facts=facts,
        set_spec=schedule.set_spec,
        metadata_prefix=schedule.metadata_prefix,
        harvest_method=schedule.method,
        harvest_start_time=times[0],
        harvest_end_time=times[-1],
        evidence={"due_times": len(times), "first_due": first, "last_due": last},
        # Nothing has ended: whoever waits for harvests, or is told of them, is not told of this.
        announced=now,
    )
