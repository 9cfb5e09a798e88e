"""REST API: audits of stores and their schedules."""

from datetime import datetime
from functools import partial
from typing import Any, Final

from pydantic import ConfigDict, Field

from harvester.models import Repository
from harvester.store.models import StoreAudit
from manager.models import StoreAuditSchedule
from manager.store_audits import (
    find_audits,
    list_schedules,
    queue_audit,
    remove_schedule,
    set_schedule,
)
from oai.rights import Right
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import Out, Page, Paged
from web.auth.access import about, visible_repositories
from web.site.paging import LARGEST_BIGINT
from web.store.pages import AuditScheduleForm

OPERATIONS: Final = Operations("store audits")


class StoreAuditOut(Out):
    """An audit of a repository's store."""

    audit_id: int
    repository_id: int
    state: str = Field(description="queued, running, done or failed (it did not finish).")
    due: datetime | None = Field(description="Null: run by `zatva store verify`.")
    host: str | None
    started: datetime = Field(description="Of a queued audit, when it was queued.")
    ended: datetime | None
    files: int = Field(description="Files that are named in rows.")
    missing: int
    altered: int
    stray: int
    failure_code: str | None = Field(
        description="store_damaged if it found something, store_audit_incomplete if it did not finish."
    )
    failure_facts: dict[str, Any] | None


class StoreAuditDetails(StoreAuditOut):
    """An audit with its first findings."""

    findings: list[dict[str, Any]] = Field(
        description="The first 50 files with a problem: kind, path, identifier, unfinished, removed, reason."
    )


class StoreAuditQuery(Paged):
    """Filters for audits."""

    repository: int | None = Field(None, ge=1, le=999_999_999, description="Limit to this repository.")


class AuditScheduleOut(Out):
    """How often a store is audited."""

    schedule_id: int
    repository_id: int | None = Field(description="Null: all repositories without a schedule of their own.")
    frequency: str
    time_zone: str
    added: datetime
    next_due: datetime | None = Field(description="Null: the frequency cannot be read; set it again.")


class NewAuditSchedule(AuditScheduleForm):
    """A schedule to set."""

    model_config = ConfigDict(extra="forbid")


@OPERATIONS.add("GET /store-audits", "listStoreAudits", Right.LOOK, query=StoreAuditQuery)
async def _list(call: Call) -> Page[StoreAuditOut]:
    """List audits of stores, newest first."""
    query = call.asked(StoreAuditQuery)
    among = visible_repositories(call.who)
    return await list_page(
        call,
        partial(find_audits, repository_id=query.repository, among=among),
        lambda view: StoreAuditOut.model_validate(view.audit),
        largest=LARGEST_BIGINT,
        before=lambda view: view.audit.audit_id,
    )


@OPERATIONS.add("GET /store-audits/{store_audit}", "getStoreAudit", Right.LOOK)
async def _show(call: Call) -> StoreAuditDetails:
    """Show an audit and its first findings."""
    row = await call.row(StoreAudit, "store_audit")
    return StoreAuditDetails.model_validate(row)


@OPERATIONS.add("POST /repositories/{repository}/store-audits", "runStoreAudit", Right.HARVEST, status=201)
async def _run(call: Call) -> StoreAuditOut:
    """Queue an audit of the repository's store."""
    repository = await call.row(Repository, "repository")
    number = await call.database.run(queue_audit, repository.repository_id)
    queued = await call.database.run(lambda session: session.get_one(StoreAudit, number))
    return StoreAuditOut.model_validate(queued)


@OPERATIONS.add("GET /store-audit-schedules", "listStoreAuditSchedules", Right.LOOK, query=Paged)
async def _list_schedules(call: Call) -> Page[AuditScheduleOut]:
    """List the schedules of audits by number."""
    return await list_page(
        call,
        partial(list_schedules, among=visible_repositories(call.who)),
        lambda view: AuditScheduleOut.model_validate(view.schedule),
        after=lambda view: view.schedule.schedule_id,
    )


@OPERATIONS.add(
    "POST /store-audit-schedules",
    "setStoreAuditSchedule",
    Right.HARVEST,
    body=NewAuditSchedule,
    status=201,
    faults={404},
)
async def _set_schedule(call: Call) -> AuditScheduleOut:
    """Set how often a store is audited, or all stores; replaces the earlier schedule."""
    asked = call.sent(NewAuditSchedule)
    await call.check_repository(asked.repository_id, "set a schedule for all repositories")
    made = await call.database.run(lambda session: set_schedule(session, **asked.model_dump()))
    about(call.request, "audit schedule", made.schedule_id, **asked.model_dump())
    return AuditScheduleOut.model_validate(made)


@OPERATIONS.add("DELETE /store-audit-schedules/{audit_schedule}", "removeStoreAuditSchedule", Right.HARVEST)
async def _remove_schedule(call: Call) -> None:
    """Remove a schedule of audits; its audits stay."""
    row = await call.row(StoreAuditSchedule, "audit_schedule")
    await call.database.run(remove_schedule, row.schedule_id)
