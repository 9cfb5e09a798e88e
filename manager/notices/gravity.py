"""How bad the end of a run is, for the notices about its source."""

from enum import IntEnum
from typing import Final

from sqlalchemy import and_, exists, func, or_, select
from sqlalchemy.orm import Session

from harvester.models import History
from harvester.vocabulary import NOT_RUN, RunStatus
from manager.jobs.runs import was_started
from manager.models import Job, JobStatus
from oai.failure_codes import NO_ROOM, NOT_STARTED, FailureCode


class Gravity(IntEnum):
    """How bad the end of a run is."""

    GOOD = 0
    REFUSED = 1
    """Records were rejected or are missing; the others were stored."""
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
_MAY_GO_ON: Final = frozenset({RunStatus.INCOMPLETE, RunStatus.LOST, RunStatus.FAILED})
_SAYS_NOTHING: Final = NOT_STARTED | {FailureCode.JOB_STOPPED}


def gravity_of(session: Session, run: History) -> Gravity | None:
    """Return how bad a run's end is.

    None if it says nothing: a user ended it, it was kept off its repository, or it continues by itself. One
    that lacks room for the second time in a row continues only after somebody has made room.
    """
    if run.failure_code in _SAYS_NOTHING:
        return None
    if run.status in _MAY_GO_ON and _goes_on(session, run) and not _lacks_room_again(session, run):
        return None
    return _GRAVITY.get(RunStatus(run.status)) if run.status in set(RunStatus) else None


def _goes_on(session: Session, run: History) -> bool:
    """Return whether a job continues the run, or will: paused, at once after a shutdown, or as a retry."""
    # A retry that a user has paused, or that was rejected, could hide failures of the source permanently.
    retried = and_(Job.attempt > 0, Job.status.not_in((JobStatus.PAUSED, JobStatus.SET_ASIDE)))
    continues = [Job.job_id == run.job_id, retried]
    if run.status != RunStatus.FAILED:
        continues.append(Job.harvest_start_time <= func.now())
    again = exists().where(
        Job.repository_id == run.repository_id,
        Job.metadata_prefix == (run.metadata_prefix or "oai_dc"),
        func.coalesce(Job.set_spec, "") == (run.set_spec or ""),
        or_(*continues),
    )
    return bool(session.scalar(select(again)))


def _lacks_room_again(session: Session, run: History) -> bool:
    """Return whether neither the run nor the last one before it, of the same source, had room."""
    if run.failure_code not in NO_ROOM:
        return False
    before = (
        select(History.failure_code)
        .where(
            History.repository_id == run.repository_id,
            History.metadata_prefix.is_not_distinct_from(run.metadata_prefix),
            func.coalesce(History.set_spec, "") == (run.set_spec or ""),
            History.history_id < run.history_id,
            History.status.not_in(NOT_RUN),
            was_started(),
        )
        .order_by(History.history_id.desc())
        .limit(1)
    )
    return session.scalar(before) in NO_ROOM
