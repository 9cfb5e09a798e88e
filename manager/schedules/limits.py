"""What partners may ask of the workers that all organisations share: how often, and with which priority."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Final, Self

from sqlalchemy import func, select, true
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import RunStatus
from manager.models import UNDER_WAY, Job, JobStatus, RecurringJob, RecurringState
from manager.schedules.plan import SchedulePlan
from oai.errors import UsageError

HIGHEST: Final = 0
"""The highest priority of a schedule that has an owner."""
_LOOKED_AT: Final = 300
"""Due times of a frequency that are compared: two days of runs every 10 minutes. The planner keeps apart
what they do not show."""
_SPAN: Final = timedelta(days=400)
_ALMOST_A_MINUTE: Final = timedelta(minutes=1) - timedelta.resolution
_SUCCEEDED: Final = (RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_ERRORS, RunStatus.NO_CHANGES)


class LimitError(UsageError):
    """A partner asks for more than partners may have; names the field."""

    field: str = ""

    def at(self, field: str) -> Self:
        """Return the error with the name of the column."""
        self.field = field
        return self


def priority_of(schedule: RecurringJob) -> int:
    """Return the priority of the schedule's jobs, whatever its row asks for."""
    return min(schedule.priority, HIGHEST) if schedule.owner else schedule.priority


def check_partner(schedule: RecurringJob, plan: SchedulePlan, partner_minutes: float) -> None:
    """Raise LimitError if a partner may not have this plan."""
    if schedule.priority > HIGHEST:
        raise LimitError(
            "priority %(found)s: at most %(most)s is allowed; only an administrator can give more",
            found=schedule.priority,
            most=HIGHEST,
        ).at("priority")
    floor = timedelta(minutes=partner_minutes)
    gap = min(
        (after - before for before, after in pairwise(islice(_due_times(plan), _LOOKED_AT))), default=floor
    )
    if gap < floor:
        raise LimitError(
            "frequency %(frequency)s: two runs are only %(found)s minutes apart, and at least %(least)s are "
            "allowed; an administrator can change the limit (setting manager.partner_minutes)",
            frequency=repr(schedule.frequency),
            found=f"{gap.total_seconds() / 60:g}",
            least=f"{partner_minutes:g}",
        ).at("frequency")


def check_run(
    session: Session, repository_id: int, due: datetime, partner_minutes: float, *, besides: int = 0
) -> None:
    """Raise LimitError if a partner's run of the repository would be due too soon after another run.

    That is the last one that did not fail, and one that is due or under way, except what the same
    transaction asks for and what the schedule `besides` plans. Runs that failed or were interrupted do not
    count: whoever has corrected the cause may try at once, unless the last success is so recent.
    """
    # Requests at the same time wait for each other here: the second one sees the job of the first.
    locked = select(Repository.repository_id).where(Repository.repository_id == repository_id)
    session.execute(locked.with_for_update(key_share=True))
    floor, least = timedelta(minutes=partner_minutes), f"{partner_minutes:g}"
    last, now = session.execute(
        select(func.max(History.harvest_start_time), func.clock_timestamp()).where(
            History.repository_id == repository_id, History.status.in_(_SUCCEEDED)
        )
    ).one()
    if last is not None and due - last < floor:
        raise LimitError(
            "The last harvest that stored records began at %(last)s, and %(least)s minutes must be between "
            "two runs. The next run is possible at %(next)s.",
            last=last,
            least=least,
            # Messages have minutes: that of the moment itself would be too early.
            next=(last + floor + _ALMOST_A_MINUTE).replace(second=0, microsecond=0),
        ).at("frequency")
    if due - now < floor and _is_busy(session, repository_id, besides):
        raise LimitError(
            "A harvest of the repository is due or in progress, and %(least)s minutes must be between two "
            "runs. If it succeeds, the next run is possible %(least)s minutes after its beginning.",
            least=least,
        ).at("frequency")


def _is_busy(session: Session, repository_id: int, besides: int) -> bool:
    """Return whether a run of the repository is due or under way, or a new one-off that is due has no job."""
    # Rows of this transaction have its time: they belong to the same request, such as that for several sets.
    now, ours = func.clock_timestamp(), func.now()
    is_due = (Job.harvest_start_time <= now) & (Job.harvest_start_time != ours)
    begins = Job.status.in_(UNDER_WAY) | (Job.status == JobStatus.SCHEDULED) & is_due
    jobs = select(Job.job_id).where(Job.repository_id == repository_id, begins)
    without_job = select(RecurringJob.id).where(
        RecurringJob.repository_id == repository_id,
        RecurringJob.state == RecurringState.NEW,
        func.coalesce(RecurringJob.frequency, "") == "",
        RecurringJob.start_date <= now,
        func.coalesce(RecurringJob.last_due < RecurringJob.start_date, true()),
        RecurringJob.date_added != ours,
        RecurringJob.id != besides,
    )
    return bool(session.scalar(select(jobs.exists() | without_job.exists())))


def _due_times(plan: SchedulePlan) -> Iterator[datetime]:
    """Yield the due times of the span that begins with the first one."""
    first = plan.first()
    return takewhile(lambda due: first is not None and due <= first + _SPAN, plan.runs())
