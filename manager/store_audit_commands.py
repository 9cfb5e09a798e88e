"""Handlers of `zatva store audit`: audits that workers run, and their schedules."""

from typing import Any, Final

from harvester.repositories import check_repositories
from manager import store_audits
from manager.store_audits import AuditView
from oai.cli import Invocation
from oai.errors import ExitCode
from oai.models import columns_of

_COLUMNS: Final = {
    "audit_id": "audit",
    "repository_name": "repository",
    "state": "state",
    "started": "started",
    "ended": "ended",
    "files": "files",
    "missing": "missing",
    "altered": "altered",
    "stray": "stray",
    "because": "because",
}
_SCHEDULE_COLUMNS: Final = {
    "schedule_id": "schedule",
    "repository_name": "repository",
    "frequency": "frequency",
    "time_zone": "zone",
    "next_due": "next due",
}


def list_audits(invocation: Invocation) -> None:
    """List audits, newest first."""
    arguments = invocation.arguments
    with invocation.session() as session:
        check_repositories(session, arguments.repository)
        views = store_audits.find_audits(session, limit=arguments.limit, repository_id=arguments.repository)
        rows = [_row(view) for view in views]
    invocation.console.table(rows, _COLUMNS, empty="no audits; start one with `zatva store audit run ID`")


def show_audit(invocation: Invocation) -> ExitCode:
    """Show an audit and its first findings; exit code 3 if it found something."""
    with invocation.session() as session:
        view = store_audits.find_audit(session, invocation.arguments.audit_id)
        invocation.console.facts({**_row(view), "findings": view.audit.findings})
        return ExitCode.DONE if view.audit.failure_code is None else ExitCode.RECORDS_REFUSED


def queue_audit(invocation: Invocation) -> None:
    """Queue an audit; a worker runs it."""
    repository_id = invocation.arguments.repository
    with invocation.transaction() as session:
        audit_id = store_audits.queue_audit(session, repository_id)
    invocation.console.result(
        {"audit_id": audit_id, "repository_id": repository_id},
        f"audit {audit_id} queued; see its result with `zatva store audit show {audit_id}`",
    )


def list_schedules(invocation: Invocation) -> None:
    """List the schedules of audits."""
    with invocation.session() as session:
        rows = [
            {**columns_of(view.schedule), "repository_name": view.repository_name or "all repositories"}
            for view in store_audits.list_schedules(session)
        ]
    empty = "no schedules of audits; add one with `zatva store audit schedule set`"
    invocation.console.table(rows, _SCHEDULE_COLUMNS, empty=empty)


def set_schedule(invocation: Invocation) -> None:
    """Set how often a store is audited, or all stores."""
    arguments = invocation.arguments
    with invocation.session() as session:
        schedule = store_audits.set_schedule(
            session,
            repository_id=arguments.repository,
            frequency=arguments.frequency,
            time_zone=arguments.time_zone,
        )
        session.commit()
        set_to = {name: getattr(schedule, name) for name in ("repository_id", "frequency", "time_zone")}
        invocation.about(schedule.schedule_id, **set_to)
        invocation.console.result(
            columns_of(schedule),
            f"audit schedule {schedule.schedule_id} set; first due {schedule.next_due:%Y-%m-%d %H:%M %Z}",
        )


def remove_schedule(invocation: Invocation) -> None:
    """Remove a schedule of audits."""
    schedule_id = invocation.arguments.schedule_id
    with invocation.transaction() as session:
        store_audits.remove_schedule(session, schedule_id)
    invocation.console.result({"schedule_id": schedule_id}, f"audit schedule {schedule_id} removed")


def _row(view: AuditView) -> dict[str, Any]:
    columns = columns_of(view.audit)
    del columns["findings"]
    failure = view.audit.failure
    return {
        **columns,
        "repository_name": view.repository_name,
        "because": failure.sentence() if failure else None,
    }
