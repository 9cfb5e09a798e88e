"""What happens to a schedule whose runs fail: it is slowed down, then suspended until a person resumes it."""

import logging
from datetime import timedelta
from typing import Final

from sqlalchemy.orm import Session

from harvester.models import History
from harvester.vocabulary import RunStatus
from manager.models import RecurringJob, RecurringState
from manager.notices.announcements import notify
from manager.notices.models import Occasion
from manager.schedules.service import make_due_again, remove_waiting_jobs
from oai.failure_codes import NO_ROOM, NOT_STARTED
from oai.failures import Failure, FailureCode
from oai.sections import ManagerSettings

logger = logging.getLogger("manager.failures")

GOOD: Final = frozenset({RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_ERRORS, RunStatus.NO_CHANGES})
_NOT_AT_FAULT: Final = (
    NO_ROOM | NOT_STARTED | frozenset({FailureCode.DATABASE, FailureCode.PROCESS_NOT_READY})
)
_ASKED_TO_WAIT: Final = frozenset({FailureCode.SERVER_BUSY, FailureCode.WAITING_TIME})
LONGEST_PAUSE: Final = timedelta(days=1)
_DOUBLINGS: Final = 30
_WEIGHT: Final = 0.3
"""The weight of the last run in the average duration of runs."""


def pause_after(failures: int, settings: ManagerSettings) -> timedelta:
    """Return how long a schedule pauses after so many failures in a row: each one doubles it, up to a day."""
    if failures <= 0:
        return timedelta(0)
    minutes = settings.retry_minutes * 2 ** min(failures - 1, _DOUBLINGS)
    return min(timedelta(minutes=min(minutes, LONGEST_PAUSE / timedelta(minutes=1))), LONGEST_PAUSE)


def has_advanced(ended: History) -> bool:
    """Return whether the repository asked to wait after it had sent records."""
    return ended.failure_code in _ASKED_TO_WAIT and ended.record_count > ended.evidence.get("resumed_at", 0)


def note_end(
    session: Session, recurring_id: int, ended: History, settings: ManagerSettings
) -> RecurringJob | None:
    """Count the end of a run for its schedule; return the schedule, locked, or None if it is gone.

    A good run ends a streak of failures. A run that failed continues it, and so does one that was cut off
    before its first record; runs that users ended, that were lost with their worker, that wait for a person,
    that were kept off their repository, that were asked to wait after some records, or that had no room or
    no database do neither. Suspends the schedule after `manager.suspend_after` failures, and removes its jobs
    that no worker has taken. The caller commits.
    """
    schedule = session.get(RecurringJob, recurring_id, with_for_update=True, populate_existing=True)
    if schedule is None:
        return None
    if ended.status in GOOD:
        schedule.failures = 0
        _note_duration(schedule, ended)
    elif ended.failure_code in _NOT_AT_FAULT or has_advanced(ended):
        pass
    elif ended.status == RunStatus.FAILED or (
        ended.status == RunStatus.INCOMPLETE and not ended.record_count
    ):
        schedule.failures += 1
        _suspend_where_due(session, schedule, ended, settings)
    return schedule


def _note_duration(schedule: RecurringJob, ended: History) -> None:
    """Include the run in the schedule's usual duration, unless it was resumed: its row has only the rest."""
    if ended.evidence.get("resumed_at"):
        return
    seconds = max((ended.harvest_end_time - ended.harvest_start_time).total_seconds(), 0)
    before = seconds if schedule.usual_seconds is None else schedule.usual_seconds
    schedule.usual_seconds = before + _WEIGHT * (seconds - before)


def _suspend_where_due(
    session: Session, schedule: RecurringJob, ended: History, settings: ManagerSettings
) -> None:
    active = schedule.state in (RecurringState.RECURRING, RecurringState.ONE_OFF)
    if not active or not settings.suspend_after or schedule.failures < settings.suspend_after:
        return
    schedule.state = RecurringState.SUSPENDED
    last = Failure.stored(ended.failure_code, ended.failure_facts) or Failure(code=FailureCode.OTHER)
    reason = ended.failure_reason or ended.status
    facts = {"count": schedule.failures, "schedule": schedule.id, "last": last.as_json(), "reason": reason}
    failure = Failure(code=FailureCode.SCHEDULE_FAILING, facts=facts)
    schedule.explain(failure, failure.sentence())
    removed = remove_waiting_jobs(session, schedule)
    make_due_again(schedule)
    logger.warning("schedule %d suspended, jobs removed: %d: %s", schedule.id, removed, schedule.state_reason)
    notify(
        session,
        Occasion.SUSPENDED,
        repository_id=schedule.repository_id,
        recurring_id=schedule.id,
        job_id=ended.job_id,
        reason=failure.sentence(),
        more={"failure": last.as_json()},
    )
