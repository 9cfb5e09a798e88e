"""File exports of the harvesting lists, filtered by the query string."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

from aiohttp import web

from harvester.listing import find_errors, find_records
from harvester.models import History, Repository
from manager.jobs.reasons import in_words
from manager.jobs.views import JobView
from manager.repository_lists import list_repositories
from manager.schedules.service import ScheduleView, find_schedules
from web.auth.access import asked_for, visible_repositories, who_asks
from web.jobs.pages import planned_in, visible_jobs
from web.repositories.listing import choice_of
from web.site.export import KINDS, columns_of, export, export_list
from web.site.i18n import _
from web.site.params import BIG_NUMBER, NUMBER, chosen_repository

_REPOSITORY: Final = columns_of(
    "repository_id", "repository_name", "base_url", "base_dir", "admin_email", "protocol_version",
    "granularity", "deleted_record", "earliest_datestamp", "date_added", "identified", "deletion_policy",
    of="repository",
) | {"base_url": attrgetter("repository.display_url")}  # fmt: skip
_RECORD: Final = columns_of(
    "record_id", "identifier", "metadata_prefix", "datestamp", "status", "update_flag", "harvest_time",
    "filename", "deletion_reason",
)  # fmt: skip
_ERROR: Final = columns_of(
    "quarantine_id", "identifier", "metadata_prefix", "set_spec", "reason", "url", "byte_offset", "raw_size",
    "first_seen", "last_seen", "resolved",
)  # fmt: skip
_SCHEDULE: Final[dict[str, Callable[[ScheduleView], object]]] = {
    "schedule_id": lambda view: view.schedule.id,
    **columns_of("repository_id", of="schedule"),
    **columns_of("repository_name"),
    **columns_of("metadata_prefix", "set_spec", "frequency", "time_zone", of="schedule"),
    **columns_of("state"),
    **columns_of("state_reason", of="schedule"),
    **columns_of("next_due"),
    **columns_of("incremental", "method", "validation", of="schedule"),
}
_JOB: Final[dict[str, Callable[[JobView], object]]] = {
    **columns_of(
        "job_id", "repository_id", "repository_name", "metadata_prefix", "set_spec", "recurring_id", "state",
    ),
    "reason": lambda job: in_words(job.reason, _) if job.reason else None,
    "due": lambda job: job.due,
    "started": lambda job: job.started,
    "host": lambda job: job.host,
    "process_id": lambda job: job.process_id,
    "records": lambda job: job.progress.records if job.progress else None,
    "complete_list_size": lambda job: job.progress.complete_list_size if job.progress else None,
    "position": lambda job: job.estimate.position,
    "seconds": lambda job: job.estimate.seconds,
}  # fmt: skip


async def repositories(request: web.Request) -> web.StreamResponse:
    """Export the repositories that the page lists, in its order."""
    find = partial(list_repositories, choice=choice_of(request))
    return await export_list(request, "repositories", _REPOSITORY, find, after=lambda row: row.place)


async def schedules(request: web.Request) -> web.StreamResponse:
    """Export the schedules of all repositories or of one."""
    repository_id, among = chosen_repository(request), visible_repositories(who_asks(request))
    find = partial(find_schedules, repository_id=repository_id, among=among)
    return await export_list(request, "schedules", _SCHEDULE, find, after=lambda row: row.schedule.id)


async def jobs(request: web.Request) -> web.StreamResponse:
    """Export all jobs, or those of one view of the page, running ones first."""
    planned = planned_in(request)

    async def behind(last: JobView | None) -> Sequence[JobView]:
        return await visible_jobs(request, last.place if last else None, planned=planned)

    return await export(request, "jobs", _JOB, behind)


async def records(request: web.Request) -> web.StreamResponse:
    """Export a repository's records, or those with the given identifier."""
    repository = await asked_for(request, Repository)
    identifier = request.query.get("identifier", "").strip()
    find = partial(find_records, repository_id=repository.repository_id, identifier=identifier or None)
    return await export_list(
        request, "records", _RECORD, find, after=lambda row: (row.metadata_prefix, row.identifier_key)
    )


async def errors(request: web.Request) -> web.StreamResponse:
    """Export the unreadable records of a run."""
    run = await asked_for(request, History)
    find = partial(find_errors, run=run.history_id, resolved=True)
    return await export_list(request, "errors", _ERROR, find, before=lambda row: row.quarantine_id)


ROUTES = (
    web.get(f"/repositories.{KINDS}", repositories, allow_head=False),
    web.get(f"/schedules.{KINDS}", schedules, allow_head=False),
    web.get(f"/jobs.{KINDS}", jobs, allow_head=False),
    web.get(f"/repositories/{NUMBER}/records.{KINDS}", records, allow_head=False),
    web.get(f"/runs/{BIG_NUMBER}/errors.{KINDS}", errors, allow_head=False),
)
