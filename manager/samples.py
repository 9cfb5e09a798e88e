"""Samples: harvests of a few records of a schedule or a repository, at once and beside all plans."""

from typing import Final

from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.models import Repository
from manager.models import Job, RecurringJob
from manager.schedules import database_now, job_of
from oai.errors import UsageError
from oai.owners import owner_of

MOST_RECORDS: Final = 100_000


def sample_schedule(session: Session, recurring_id: int, records: int) -> Job:
    """Make a job that is due now and ends after so many of the schedule's records. The caller commits.

    Raises UsageError where there is no such schedule, or the number is none of 1 to 100,000.
    """
    schedule = session.get(RecurringJob, recurring_id)
    if schedule is None:
        raise UsageError(f"no schedule {recurring_id}; list schedules with `zatva schedule list`")
    _check(records)
    job = job_of(session, schedule, due=database_now(session))
    # It must not count as one of the schedule's runs: it says nothing of what is complete.
    job.recurring_id = None
    return _added(session, job, records)


def sample_repository(
    session: Session, repository_id: int, metadata_prefix: str, records: int, *, set_spec: str | None = None
) -> Job:
    """Make a job that is due now and ends after so many records of a format. The caller commits.

    Raises UsageError as `sample_schedule` does, and SelectionError for what is no set or query.
    """
    repository = session.get(Repository, repository_id)
    if repository is None:
        raise UsageError(f"no repository {repository_id!r}; list repositories with `zatva repository list`")
    access_of(repository.protocol).check(set_spec)
    _check(records)
    organisation = owner_of(session, repository_id)
    job = Job(
        repository_id=repository_id,
        metadata_prefix=metadata_prefix,
        set_spec=set_spec,
        harvest_start_time=database_now(session),
        owner=organisation.short_name if organisation else None,
    )
    return _added(session, job, records)


def _check(records: int) -> None:
    if not 1 <= records <= MOST_RECORDS:
        raise UsageError(f"{records} is not a valid number of sample records; give 1 to {MOST_RECORDS:,}")


def _added(session: Session, job: Job, records: int) -> Job:
    job.max_records = records
    session.add(job)
    session.flush()
    return job
