"""Changes of all schedules of a repository at once."""

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.removal import begin_removal
from manager.jobs.views import list_jobs
from manager.models import RecurringJob, RecurringState
from manager.schedules.service import RESTING, pause_schedule, resume_schedule, run_now
from oai.errors import UsageError


def run_schedules(session: Session, repository_id: int, *, partner_minutes: float | None = None) -> None:
    """Make a job that is due now for each schedule that is not paused. The caller commits.

    Raises UsageError if there is none, and LimitError as `run_now` does.
    """
    ready = [one.id for one in _schedules(session, repository_id) if one.state != RecurringState.PAUSED]
    if not ready:
        raise UsageError("the repository has no schedule, or its schedules are paused; add or resume one")
    for number in ready:
        run_now(session, number, partner_minutes=partner_minutes)


def pause_schedules(session: Session, repository_id: int) -> list[int]:
    """Pause each schedule that makes jobs; return their ids. The caller commits.

    Schedules that were suspended or rejected stay so, with the reason. Raises UsageError if there is none.
    """
    found = [one.id for one in _some_schedules(session, repository_id) if one.state not in RESTING]
    return [number for number in found if pause_schedule(session, number).changed]


def resume_schedules(session: Session, repository_id: int, only: Collection[int] | None = None) -> list[int]:
    """Resume each schedule that makes no jobs, or of these only the given ones; return their ids.

    The caller commits. Raises UsageError if there is none.
    """
    found = [schedule.id for schedule in _some_schedules(session, repository_id)]
    chosen = found if only is None else [number for number in found if number in only]
    return [number for number in chosen if resume_schedule(session, number)]


def begin_removal_of_idle(session: Session, repository_id: int) -> None:
    """Do what `begin_removal` does. The caller commits. Raises UsageError also while a job is under way."""
    # Running jobs are listed first.
    if any(job.under_way for job in list_jobs(session, repository_id, most=1)):
        raise UsageError("The repository is being harvested. Stop the harvest under Current jobs first.")
    begin_removal(session, repository_id)


def _some_schedules(session: Session, repository_id: int) -> Sequence[RecurringJob]:
    found = _schedules(session, repository_id)
    if not found:
        raise UsageError("the repository has no schedule; add one first")
    return found


def _schedules(session: Session, repository_id: int) -> Sequence[RecurringJob]:
    # Locks are taken in the order of ids, so that two such changes do not block each other.
    chosen = select(RecurringJob).where(RecurringJob.repository_id == repository_id)
    return session.scalars(chosen.order_by(RecurringJob.id).with_for_update()).all()
