"""Handlers of `zatva provider exports`: files that workers prepare for download from the dashboard."""

from typing import Any, Final

from manager.exports import queue_export, remove_export
from oai.cli import Invocation, account_name
from oai.database import open_database
from oai.errors import ExitCode, UsageError
from oai.models import columns_of
from provider.export import prepared_files
from provider.export.commands import choice_of
from provider.export.models import ExportForm, PreparedExport

_COLUMNS: Final = {
    "export_id": "file",
    "title": "title",
    "form": "format",
    "state": "state",
    "captures": "captures",
    "bytes": "bytes",
    "queued": "queued",
    "expires": "expires",
    "because": "because",
}


def prepare(invocation: Invocation) -> None:
    """Queue a file; a worker prepares it."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database:
        choice = choice_of(database, arguments)
        with database.session() as session:
            row = queue_export(
                session,
                invocation.settings,
                choice,
                form=ExportForm(arguments.form or ExportForm.WACZ),
                title=arguments.title,
                reading_room=arguments.reading_room,
                asked_by=account_name(),
            )
            number = row.export_id
    invocation.about(number)
    invocation.console.result(
        {"export_id": number},
        f"file {number} queued; see its progress with `zatva provider exports show {number}`, and download"
        " it from the dashboard",
    )


def list_exports(invocation: Invocation) -> None:
    """List the files, newest first."""
    with invocation.session() as session:
        rows = [_row(one) for one in prepared_files.list_exports(session, limit=invocation.arguments.limit)]
    invocation.console.table(
        rows, _COLUMNS, empty="no prepared files; queue one with `zatva provider exports prepare`"
    )


def show_export(invocation: Invocation) -> ExitCode:
    """Show a file; exit code 3 if it failed."""
    with invocation.session() as session:
        row = _row(prepared_files.find_export(session, invocation.arguments.export_id))
    file = invocation.settings.exports / row.pop("file_name")
    invocation.console.facts({**row, "file": str(file)})
    return ExitCode.RECORDS_REFUSED if row["failure_code"] else ExitCode.DONE


def remove_prepared(invocation: Invocation) -> None:
    """Remove a file, or stop its preparation."""
    export_id = invocation.arguments.export_id
    with invocation.session() as session:
        if not remove_export(session, invocation.settings, export_id, by=account_name()):
            raise UsageError(f"prepared file {export_id} is no longer available: it failed or was removed")
    invocation.console.result({"export_id": export_id}, f"file {export_id} removed")


def _row(export: PreparedExport) -> dict[str, Any]:
    failure = export.failure
    return {
        **columns_of(export),
        "file_name": export.file_name,
        "because": failure.sentence() if failure else None,
    }
