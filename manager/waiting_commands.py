"""`zatva job wait`: until a job has ended, or a repository is quiet; for scripts and indexers."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import NOT_RUN, RunStatus
from manager.models import UNDER_WAY, Job, JobStatus
from oai.cli import Invocation
from oai.database import Database, open_database
from oai.errors import ExitCode, TryLaterError, UsageError

_POLL_SECONDS: Final = 1.0
_EXIT_CODES: Final = {
    RunStatus.COMPLETED: ExitCode.DONE,
    RunStatus.NO_CHANGES: ExitCode.DONE,
    RunStatus.COMPLETED_WITH_ERRORS: ExitCode.RECORDS_REFUSED,
    RunStatus.HELD: ExitCode.RECORDS_REFUSED,
    RunStatus.FAILED: ExitCode.REMOTE_FAILED,
    RunStatus.LOST: ExitCode.FAULT,
    RunStatus.KILLED: ExitCode.INTERRUPTED,
    RunStatus.INCOMPLETE: ExitCode.INTERRUPTED,
}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What was waited for has come; `run` is the last harvest's row, where there is one."""

    run: History | None


def wait(invocation: Invocation) -> ExitCode:
    """Wait, and give the exit code that the last harvest had; 75 when the time is over."""
    given = invocation.arguments
    if (given.job_id is None) == (given.repository is None):
        raise UsageError(
            "no job given; give the number of a job, or --repository with the number of a repository"
        )

    def look(session: Session) -> Ended | None:
        if given.job_id is not None:
            return job_ended(session, given.job_id)
        return repository_quiet(session, given.repository)

    with open_database(invocation.settings) as database:
        run = until(database, look, timeout=given.timeout).run
    if run is None:
        invocation.console.result(
            {"history_id": None, "status": None}, "no job is running or due; no harvest has ended yet"
        )
        return ExitCode.DONE
    invocation.console.result(
        {
            "history_id": run.history_id,
            "job_id": run.job_id,
            "status": run.status,
            "verdict": run.verdict,
            "failure_reason": run.failure_reason,
        },
        f"run {run.history_id}: {run.status}" + (f": {run.failure_reason}" if run.failure_reason else ""),
    )
    return exit_code_of(run.status)


def until(
    database: Database,
    look: Callable[[Session], Ended | None],
    *,
    timeout: float | None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Ended:
    """Look again and again until it has come; raises TryLaterError when `timeout` seconds are over."""
    begun = clock()
    while True:
        with database.session() as session:
            ended = look(session)
            session.expunge_all()
        if ended is not None:
            return ended
        if timeout is not None and clock() - begun >= timeout:
            raise TryLaterError(
                f"not ended within {timeout:g} seconds; see `zatva job list`, then wait again"
            )
        sleep(_POLL_SECONDS if timeout is None else min(_POLL_SECONDS, max(timeout / 10, 0.01)))


def job_ended(session: Session, job_id: int) -> Ended | None:
    """The job's row in the history, once the job is gone; None while it is there.

    Raises UsageError where neither job nor history has the number.
    """
    if session.scalar(select(exists().where(Job.job_id == job_id))):
        return None
    run = _newest(session, History.job_id == job_id)
    if run is None:
        raise UsageError(f"no job {job_id}, waiting, running or finished; list jobs with `zatva job list`")
    return Ended(run=run)


def repository_quiet(session: Session, repository_id: int) -> Ended | None:
    """The repository's last run, once nothing of it runs or is due; None while something is.

    Raises UsageError where there is no such repository.
    """
    if session.get(Repository, repository_id) is None:
        raise UsageError(f"no repository {repository_id}; list repositories with `zatva repository list`")
    busy = exists().where(
        Job.repository_id == repository_id,
        or_(
            Job.status.in_(UNDER_WAY),
            and_(Job.status == JobStatus.SCHEDULED, Job.harvest_start_time <= func.now()),
        ),
    )
    if session.scalar(select(busy)):
        return None
    return Ended(run=_newest(session, History.repository_id == repository_id))


def exit_code_of(status: str) -> ExitCode:
    """The exit code that tells of a run's status what the harvester's own does."""
    return _EXIT_CODES.get(RunStatus(status), ExitCode.FAULT) if status in set(RunStatus) else ExitCode.FAULT


def _newest(session: Session, condition: ColumnElement[bool]) -> History | None:
    query = (
        select(History)
        .where(condition, History.status.not_in(NOT_RUN))
        .order_by(History.history_id.desc())
        .limit(1)
    )
    return session.scalars(query).one_or_none()
