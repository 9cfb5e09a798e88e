"""REST API: finished runs: list, show with warnings and changes, release, remove; and their errors."""

from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Final

from aiohttp import web
from pydantic import Field
from sqlalchemy.orm import Session

from harvester.cli.store import run_of
from harvester.harvest.models import Quarantined
from harvester.listing import find_errors
from harvester.models import History, Repository
from harvester.store.changes import ChangeLine, read_changes
from harvester.vocabulary import RunStatus
from manager.jobs.runs import RunFilter, find_runs, pieces_of
from manager.jobs.views import HistoryView, remove_history
from oai.rights import Right
from web.api.operations import Call, Operations
from web.api.paging import after, list_page, page_of
from web.api.shapes import Flag, Moment, Out, Page, Paged
from web.auth.access import visible_repositories
from web.runs.pages import release_run
from web.site.paging import LARGEST_BIGINT

OPERATIONS: Final = Operations("runs")


class RunLine(Out):
    """A run in a list."""

    run_id: int
    repository_id: int
    repository_name: str
    metadata_prefix: str | None
    set_spec: str | None
    status: str
    verdict: str = Field(description="complete, partial or failed.")
    failure_reason: str | None
    failure_code: str | None = Field(description="Failure code; see the reference of failure codes.")
    failure_facts: dict[str, Any] | None = Field(description="Facts that belong to the failure code.")
    harvest_start_time: datetime
    harvest_end_time: datetime
    record_count: int
    new_count: int
    updated_count: int
    unchanged_count: int
    deleted_count: int
    filtered_count: int
    invalid_count: int
    repeated_count: int = Field(description="Records received more than once.")
    tombstone_count: int = Field(description="Deletions of records that were not in the store.")
    disappeared_count: int = Field(description="Deleted records that the list no longer contained.")
    postponed_count: int = Field(
        description="Deletions that wait for the end or the approval of the harvest."
    )
    requests: int
    bytes: int
    job_id: int | None
    recurring_id: int | None


class RunOut(RunLine):
    """A run in full."""

    warnings: list[str]
    evidence: dict[str, Any] = Field(description="Details of the run on which the outcome is based.")
    harvest_method: int
    host: str | None
    process_id: int | None
    raw_path: str | None
    replay_of: int | None
    continued_by: int | None = Field(description="The run that counts this harvest since it was resumed.")
    pieces: list[int] = Field(description="Earlier runs of this harvest, before it was resumed.")


class RunQuery(Paged):
    """Filters for runs."""

    repository: int | None = Field(None, ge=1, le=999_999_999, description="Limit to this repository.")
    status: RunStatus | None = Field(None, description="Limit to this outcome.")
    since: Moment | None = Field(None, description="Ended at this time or later.")
    until: Moment | None = Field(None, description="Ended before this time.")


class ChangeOut(Out):
    """A line of the change feed."""

    change_id: int
    changed: datetime
    repository_id: int
    identifier: str
    metadata_prefix: str
    change: str = Field(description="new, updated or deleted.")
    filename: str | None
    datestamp: str


class Released(Out):
    """The effect of approving a held run."""

    run_id: int
    kind: str = Field(description="deletions or updates.")
    would_delete: int
    would_update: int
    deleted: int


@OPERATIONS.add("GET /runs", "listRuns", Right.LOOK, query=RunQuery)
async def _list(call: Call) -> Page[RunLine]:
    """List finished runs, newest first."""
    query = call.asked(RunQuery)
    choice = RunFilter(
        repository_id=query.repository,
        statuses=frozenset({query.status.value}) if query.status is not None else None,
        since=query.since,
        until=query.until,
        among=visible_repositories(call.who),
    )
    limit, before = query.limit + 1, after(call, int, largest=LARGEST_BIGINT)
    rows = await call.database.run(find_runs, choice, limit=limit, before=before)
    return page_of(call, rows, _line, lambda row: row.history.history_id)


@OPERATIONS.add("GET /runs/{run}", "getRun", Right.LOOK)
async def _show(call: Call) -> RunOut:
    """Show a run with its warnings and details."""
    row = await call.row(History, "run")
    repository = await call.database.run(lambda session: session.get_one(Repository, row.repository_id))
    pieces = await call.database.run(pieces_of, row.history_id)
    return RunOut.from_row(
        row,
        run_id=row.history_id,
        repository_name=repository.display_name,
        pieces=[piece.history_id for piece in pieces],
    )


@OPERATIONS.add("DELETE /runs/{run}", "removeRun", Right.HARVEST)
async def _remove(call: Call) -> None:
    """Remove a run from the history; its records are kept."""
    await call.database.run(remove_history, (await call.row(History, "run")).history_id)


@OPERATIONS.add("GET /runs/{run}/changes", "listChanges", Right.LOOK, query=Paged, faults={409})
async def _changes(call: Call) -> Page[ChangeOut]:
    """List the changes of a run, as long as the change feed keeps them."""
    row = await call.row(History, "run")
    limit, since = call.asked(Paged).limit + 1, after(call, int, largest=LARGEST_BIGINT) or 0

    def work(session: Session) -> list[ChangeLine]:
        _, run = run_of(session, row.history_id)
        return list(islice(read_changes(session, since=since, run=run), limit))

    return page_of(call, await call.database.run(work), ChangeOut.model_validate, lambda line: line.change_id)


@OPERATIONS.add("POST /runs/{run}/release", "releaseRun", Right.HARVEST)
async def _release(call: Call) -> Released:
    """Approve a run that the mass-change guard holds."""
    row = await call.row(History, "run")
    hold, deleted, _ = await release_run(call.request, row)
    return Released.from_row(hold, run_id=hold.history_id, deleted=deleted)


def attachment(data: bytes, name: str) -> web.Response:
    """Return third-party bytes as a download, so that browsers do not render them as a page of this site."""
    return web.Response(
        body=data,
        content_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _line(view: HistoryView) -> RunLine:
    run = view.history
    return RunLine.from_row(run, run_id=run.history_id, repository_name=view.repository_name)


class ErrorOut(Out):
    """A record, a part of an answer, or a date range, that could not be read."""

    quarantine_id: int
    repository_id: int
    metadata_prefix: str
    set_spec: str
    identifier: str | None
    reason: str
    failure_code: str | None = Field(description="Failure code; see the reference of failure codes.")
    failure_facts: dict[str, Any] | None = Field(description="Facts that belong to the failure code.")
    url: str
    byte_offset: int | None
    raw_size: int
    first_seen: datetime
    last_seen: datetime
    history_id: int | None
    resolved: datetime | None


class ErrorQuery(Paged):
    """Filters for errors."""

    resolved: Flag = Field(default=False, description="Include errors that a later run has resolved.")


@OPERATIONS.add("GET /runs/{run}/errors", "listErrors", Right.LOOK, query=ErrorQuery)
async def _errors(call: Call) -> Page[ErrorOut]:
    """List the rejected records and unlisted date ranges of a run, newest first."""
    row = await call.row(History, "run")
    find = partial(find_errors, run=row.history_id, resolved=call.asked(ErrorQuery).resolved)
    shown = ErrorOut.model_validate
    return await list_page(call, find, shown, largest=LARGEST_BIGINT, before=lambda one: one.quarantine_id)


@OPERATIONS.add("GET /errors/{error}", "getError", Right.LOOK)
async def _error(call: Call) -> ErrorOut:
    """Show a rejected record."""
    return ErrorOut.model_validate(await call.row(Quarantined, "error"))


@OPERATIONS.add("GET /errors/{error}/bytes", "getErrorBytes", Right.LOOK, media="application/octet-stream")
async def _error_bytes(call: Call) -> web.Response:
    """Download the raw bytes of a rejected record, at most the first million."""
    found = await call.row(Quarantined, "error")
    return attachment(found.raw, f"error-{found.quarantine_id}.xml")
