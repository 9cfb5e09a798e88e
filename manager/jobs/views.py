"""Jobs and history as users see them: lists with states and estimates."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    delete,
    false,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.orm import Session, aliased

from harvester.bibliographic.imports import RUNNING
from harvester.bibliographic.models import Import
from harvester.models import Harvest, History, Repository
from manager.jobs.estimates import Estimate, JobProgress, estimate, progress_of, wait_of
from manager.jobs.reasons import Code, Maintenance, WaitReason, find_maintenance
from manager.models import IN_HAND, Job, JobStatus
from manager.schedules.service import database_now
from oai.datestamps import format_datestamp
from oai.errors import UsageError
from oai.models import from_row

STATUS_WORDS: Final[Mapping[int, str]] = {
    JobStatus.SCHEDULED: "queued",
    JobStatus.IN_PROGRESS: "running",
    JobStatus.QUEUED: "queued",
    JobStatus.PAUSED: "paused",
    JobStatus.SET_ASIDE: "set aside",
    JobStatus.PAUSING: "pausing",
    JobStatus.RESTARTING: "restarting",
    JobStatus.STOPPING: "stopping",
    JobStatus.KILLING: "stopping",
}
_PLANNED: Final = and_(
    Job.status == JobStatus.SCHEDULED, Job.harvest_start_time > func.now(), Job.attempt == 0
)
_CURRENT: Final = or_(
    Job.harvest_start_time <= func.now(), Job.status != JobStatus.SCHEDULED, Job.attempt != 0
)
_CLOSELY: Final = 100
"""The number of jobs at the front of a list that get an estimate."""
_PLACE: Final = re.compile(r"([01])\.(-?[0-9]{1,18})\.([0-9]{1,9})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class JobPlace:
    """A job's position in lists, from which paging continues even if the job is gone."""

    under_way: bool
    due: datetime
    """UTC."""
    job_id: int

    def __str__(self) -> str:
        """Return the place as text for URLs, for example `0.1767323045000000.42`."""
        return f"{self.under_way:d}.{(self.due - _EPOCH) // _MICROSECOND}.{self.job_id}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the place that `str` wrote; None if the text is not one."""
        found = _PLACE.fullmatch(text)
        if found is None:
            return None
        try:
            due = _EPOCH + int(found[2]) * _MICROSECOND
        except OverflowError:
            return None
        return cls(under_way=found[1] == "1", due=due, job_id=int(found[3]))


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job as lists show it. Times are UTC."""

    job_id: int
    repository_id: int
    repository_name: str
    protocol: str
    """The repository's protocol; `harvester.access` documents what `set_spec` means in it."""
    recurring_id: int | None
    set_spec: str | None
    metadata_prefix: str
    harvest_method: int
    harvest_from: str | None
    harvest_to: str | None
    state: str
    """queued, paused, set aside, starting, running, waiting, pausing, restarting or stopping.

    "waiting" means that the repository has asked the harvester to wait.
    """
    under_way: bool
    """Whether a worker holds it."""
    reason: WaitReason | None
    """Why it is queued, waiting or rejected, or what is unusual; `manager.jobs.reasons` has the sentences."""
    due: datetime
    started: datetime | None
    host: str | None
    process_id: int | None
    attempt: int
    """How many times it was tried before: its process was lost, or the repository asked to wait."""
    priority: int
    owner: str | None
    progress: JobProgress | None
    """How far it is, also while it is paused; None before it begins."""
    estimate: Estimate

    @property
    def place(self) -> JobPlace:
        """Return its position in lists."""
        return JobPlace(under_way=self.under_way, due=self.due, job_id=self.job_id)


@dataclass(frozen=True, kw_only=True)
class HistoryView:
    """A harvest that has ended, as lists show it."""

    history: History
    repository_name: str
    protocol: str


def list_jobs(
    session: Session,
    repository_id: int | None = None,
    *,
    among: Select[int] | None = None,
    planned: bool | None = None,
    after: JobPlace | None = None,
    most: int | None = None,
) -> list[JobView]:
    """Return jobs, the running ones first, then by due time: all jobs, or those of one repository.

    `planned` selects those that wait for their due time, or all others; retries are not planned.
    `among` selects the repositories whose jobs are returned, `after` is the position in the list after which
    the page begins. `most` limits the number of jobs returned, and the number of jobs that get an estimate,
    counted from the front of the list of all jobs: jobs behind them have no position and no start.
    """
    wanted: list[ColumnElement[bool]] = []
    if repository_id is not None:
        wanted.append(Job.repository_id == repository_id)
    if among is not None:
        wanted.append(Job.repository_id.in_(among))
    if planned is not None:
        wanted.append(_PLANNED if planned else _CURRENT)
    return _views(session, wanted, most, after=after)


def find_job(session: Session, job_id: int) -> JobView | None:
    """Return the job with that id as lists show it; None if there is none."""
    found = _views(session, [Job.job_id == job_id], _CLOSELY)
    return found[0] if found else None


def harvest_of(session: Session, job_id: int) -> Harvest | None:
    """Return the state of the harvest that a job runs, or that it continues once it is resumed."""
    harvest = func.coalesce(_running(Job), _paused(Job))
    return session.scalar(
        select(Harvest).join(Job, Harvest.harvest_id == harvest).where(Job.job_id == job_id)
    )


def _views(
    session: Session,
    wanted: Sequence[ColumnElement[bool]],
    most: int | None,
    *,
    after: JobPlace | None = None,
) -> list[JobView]:
    now = database_now(session)
    maintenance = find_maintenance(session)
    first = session.execute(_rows(most)).all()
    estimates = estimate(session, [(row[0], row[2], row[4]) for row in first], now, maintenance)
    all_of_them = not wanted and after is None
    rows = first if all_of_them else session.execute(_rows(most, *wanted, after=after)).all()
    importing = _importing(session, [job for job, _, harvest, *_ in rows if harvest is None])
    return [
        _view(
            job,
            (name, protocol),
            harvest,
            estimates.get(job.job_id, Estimate()),
            _state(job, harvest, now, maintenance, importing=job.job_id in importing),
            now,
        )
        for job, name, harvest, protocol, _ in rows
    ]


def _importing(session: Session, jobs: Sequence[Job]) -> set[int]:
    """Return the jobs whose harvest has ended, and whose process now imports what it changed."""
    ended = {job.repository_id: job.job_id for job in jobs if job.status == JobStatus.IN_PROGRESS}
    if not ended:
        return set()
    running = select(Import.repository_id).where(Import.repository_id.in_(ended), Import.state == RUNNING)
    return {ended[repository_id] for repository_id in session.scalars(running)}


def count_jobs(session: Session, *, among: Select[int] | None = None) -> int:
    """Return the number of jobs that wait for their due time, in the repositories of `among`."""
    waiting = select(func.count()).where(_PLANNED)
    if among is not None:
        waiting = waiting.where(Job.repository_id.in_(among))
    return session.scalar(waiting) or 0


def count_under_way(session: Session, repositories: Collection[int]) -> int:
    """Return the number of jobs of these repositories that a worker holds."""
    held = select(func.count()).where(Job.repository_id.in_(repositories), Job.status.in_(IN_HAND))
    return session.scalars(held).one()


def repositories_with_jobs() -> Select[int]:
    """Return a SELECT of the ids of repositories with jobs that are not only planned."""
    return select(Job.repository_id).where(_CURRENT)


def remove_job(session: Session, job_id: int) -> bool:
    """Remove a job that has not begun and return True; mark a running job and return False.

    The manager ends the process of a marked job, writes its history row, and removes it. Raises UsageError if
    there is no such job. The caller commits.
    """
    # Each statement checks the status: a job that a worker claims between the two is marked, not deleted.
    waiting = (JobStatus.SCHEDULED, JobStatus.QUEUED, JobStatus.PAUSED, JobStatus.SET_ASIDE)
    if session.scalar(delete(Job).where(Job.job_id == job_id, Job.status.in_(waiting)).returning(Job.job_id)):
        return True
    runs = (JobStatus.IN_PROGRESS, JobStatus.PAUSING, JobStatus.RESTARTING)
    session.execute(
        update(Job).where(Job.job_id == job_id, Job.status.in_(runs)).values(status=JobStatus.STOPPING)
    )
    if session.scalar(select(Job.job_id).where(Job.job_id == job_id)) is None:
        raise UsageError(f"no job {job_id}; list jobs with `zatva job list`")
    return False


def remove_history(session: Session, history_id: int) -> None:
    """Remove a run, with the rows of its earlier processes; the caller commits.

    Raises UsageError if it does not exist.
    """
    gone = delete(History).where(History.history_id == history_id).returning(History.history_id)
    if session.scalar(gone) is None:
        raise UsageError(f"no run {history_id} in the history; list runs with `zatva job history`")
    session.execute(delete(History).where(History.continued_by == history_id))


def _rows(
    most: int | None, *conditions: ColumnElement[bool], after: JobPlace | None = None
) -> Select[Job, str, Harvest | None, str, str]:
    """Select the first jobs with what lists show of their repositories and harvests, in the order of lists.

    In one statement, because repositories may be removed at any time.
    """
    first = union_all(
        *(_first(most, *conditions, under_way=under_way, after=after) for under_way in (True, False))
    ).subquery()
    job = aliased(Job, first)
    # The limits make PostgreSQL look up the rows of the few jobs: to read the whole tables for each page of
    # an export would seem cheaper to it.
    its_repository = select(Repository).where(Repository.repository_id == job.repository_id).limit(1)
    its_harvest = select(Harvest).where(Harvest.harvest_id == func.coalesce(_running(job), _paused(job)))
    repository = aliased(Repository, its_repository.lateral())
    harvest = aliased(Harvest, its_harvest.limit(1).lateral())
    order = (job.status.not_in(IN_HAND), job.harvest_start_time, job.job_id)
    return (
        select(job, repository.display_name, harvest, repository.protocol, repository.base_url)
        .select_from(job)
        .join(repository, true())
        .outerjoin(harvest, true())
        .order_by(*order)
        .limit(most)
    )


def _running(job: type[Job]) -> Any:  # noqa: ANN401 an SQL expression
    running = aliased(Harvest)
    wanted = select(running.harvest_id).where(running.job_id == job.job_id).limit(1)
    return wanted.correlate(job).scalar_subquery()


def _paused(job: type[Job]) -> Any:  # noqa: ANN401 as above
    """Select the interrupted harvest that a paused job continues once it is resumed."""
    interrupted = aliased(Harvest)
    wanted = select(interrupted.harvest_id).where(
        job.last_history.is_not(None),
        interrupted.repository_id == job.repository_id,
        interrupted.metadata_prefix == job.metadata_prefix,
        interrupted.set_spec == func.coalesce(job.set_spec, ""),
        interrupted.job_id.is_(None),
        interrupted.run_parameters.is_not(None),
    )
    return wanted.correlate(job).scalar_subquery()


def _first(
    most: int | None, *conditions: ColumnElement[bool], under_way: bool, after: JobPlace | None
) -> Select[Any]:
    """Select the first jobs that are under way, or that wait: each case through an index."""
    jobs = select(*Job.__table__.columns).where(
        Job.status.in_(IN_HAND) if under_way else Job.status.not_in(IN_HAND), *conditions
    )
    if after is not None and after.under_way == under_way:
        place = tuple_(literal(after.due), literal(after.job_id))
        jobs = jobs.where(tuple_(Job.harvest_start_time, Job.job_id) > place)
    elif after is not None and under_way:
        jobs = jobs.where(false())
    # As a subquery, because PostgreSQL accepts ORDER BY and LIMIT in part of a UNION only within parentheses.
    return select(jobs.order_by(Job.harvest_start_time, Job.job_id).limit(most).subquery())


def _view(
    job: Job,
    repository: tuple[str, str],
    harvest: Harvest | None,
    expected: Estimate,
    state_and_reason: tuple[str, WaitReason | None],
    now: datetime,
) -> JobView:
    state, reason = state_and_reason
    name, protocol = repository
    return from_row(
        JobView,
        job,
        repository_name=name,
        protocol=protocol,
        state=state,
        under_way=job.status in IN_HAND,
        reason=reason,
        due=job.harvest_start_time,
        progress=None if harvest is None else progress_of(harvest, now, runs=job.status in IN_HAND),
        estimate=expected,
    )


def _state(
    job: Job, harvest: Harvest | None, now: datetime, maintenance: Maintenance, *, importing: bool
) -> tuple[str, WaitReason | None]:
    """Return the state word, and the reason why the job waits or is in an unusual state."""
    if job.status == JobStatus.IN_PROGRESS:
        return ("running", WaitReason(code=Code.IMPORTING)) if importing else _state_under_way(job, harvest)
    word = STATUS_WORDS[job.status]
    if job.status == JobStatus.SET_ASIDE:
        return word, WaitReason.from_json(job.waiting)
    if job.status == JobStatus.QUEUED:
        return word, WaitReason(code=Code.WORKER)
    if job.status != JobStatus.SCHEDULED:
        return word, None
    if job.harvest_start_time > now:
        held = maintenance.reason(job.repository_id, job.harvest_start_time)
        code = Code.RETRY if job.attempt else Code.DUE
        return word, held or WaitReason(code=code, facts={"at": format_datestamp(job.harvest_start_time)})
    return word, WaitReason.from_json(job.waiting) or WaitReason(code=Code.MANAGER)


def _state_under_way(job: Job, harvest: Harvest | None) -> tuple[str, WaitReason | None]:
    if job.process_id is None:
        return "starting", None
    wait = wait_of(harvest)
    if wait is not None:
        return "waiting", WaitReason(
            code=Code.SERVER, facts={"text": wait.text, "failure": wait.failure.as_json()}
        )
    if job.stuck_since is not None:
        return "running", WaitReason(code=Code.STUCK, facts={"since": format_datestamp(job.stuck_since)})
    return "running", None
