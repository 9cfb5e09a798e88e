"""REST API: WARC and WACZ files prepared for download."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from aiohttp import web
from pydantic import ConfigDict, Field

from manager.exports import remove_export
from oai.rights import Right
from provider.export.models import ExportForm, PreparedExport
from provider.export.prepared_files import list_exports
from web.api.faults import ApiError, not_found
from web.api.operations import Call, Operation
from web.api.paging import after, page_of
from web.api.shapes import Moment, Out, Page, Paged
from web.archive.pages_exports import ExportRequest, queued, sent
from web.auth.access import about

_TAG: Final = "archive"


class PreparedExportOut(Out):
    """A file that is, was or will be prepared for download."""

    export_id: int
    form: ExportForm
    title: str
    selection: Mapping[str, Any] = Field(description="What was chosen: look_ups, set, title, since, until.")
    reading_room: bool
    asked_by: str | None
    state: str = Field(description="queued, running, ready, failed or removed.")
    queued: datetime
    started: datetime | None
    ended: datetime | None
    chosen: int | None = Field(description="Captures to be read; null until they have been looked up.")
    examined: int = Field(description="Captures that have been read.")
    captures: int = Field(description="Captures in the file.")
    left_out: Mapping[str, int] = Field(description="Number of captures left out, by reason.")
    bytes: int = Field(description="Size of the file, so far; 0 once it is removed.")
    expires: datetime | None
    removed: datetime | None
    failure_code: str | None = Field(description="Why it failed or was withdrawn.")
    failure_facts: Mapping[str, Any] | None


class NewExport(ExportRequest):
    """What a file is to have: exactly one of `url`, `set_spec` and `title_id`."""

    model_config = ConfigDict(extra="forbid")

    since: Moment | None = Field(None, description="Captured at this time or later.")
    until: Moment | None = Field(None, description="Captured at this time or earlier.")


async def _list(call: Call) -> Page[PreparedExportOut]:
    limit = call.asked(Paged).limit + 1
    rows = await call.database.run(list_exports, limit=limit, before=after(call, int))
    return page_of(call, rows, PreparedExportOut.model_validate, lambda row: row.export_id)


async def _prepare(call: Call) -> PreparedExportOut:
    asked = call.sent(NewExport)
    made = await queued(call.request, asked, since=asked.since, until=asked.until)
    return PreparedExportOut.model_validate(made)


async def _show(call: Call) -> PreparedExportOut:
    return PreparedExportOut.model_validate(await _asked(call))


async def _send(call: Call) -> web.StreamResponse:
    return await sent(call.request, (await _asked(call)).export_id)


async def _remove(call: Call) -> None:
    export = await _asked(call)
    if not await call.database.run(remove_export, call.settings, export.export_id, by=call.who.name):
        raise ApiError(409, "the file is not available: its preparation failed, or it was removed")


async def _asked(call: Call) -> PreparedExport:
    number: int = call.place["export"]
    row = await call.database.run(lambda session: session.get(PreparedExport, number))
    if row is None:
        raise not_found("prepared file", number)
    about(call.request, "export", number, row.title)
    return row


def _operation(name: str, method: str, step: str, summary: str, work: Any, **more: Any) -> Operation:  # noqa: ANN401 as declared
    declared = {"right": Right.LOOK_AROUND if method == "GET" else Right.ARCHIVE, **more}
    path = f"/archive/exports{step}"
    return Operation(name=name, method=method, path=path, tag=_TAG, summary=summary, work=work, **declared)


OPERATIONS: Final = (
    _operation(
        "listPreparedExports",
        "GET",
        "",
        "List WARC and WACZ files prepared for download, newest first.",
        _list,
        query=Paged,
        answer=Page[PreparedExportOut],
    ),
    _operation(
        "prepareExport",
        "POST",
        "",
        "Prepare captures as a WARC or WACZ file for download, in the background.",
        _prepare,
        body=NewExport,
        answer=PreparedExportOut,
        status=202,
    ),
    _operation(
        "getPreparedExport", "GET", "/{export}", "Show a prepared file.", _show, answer=PreparedExportOut
    ),
    _operation(
        "downloadPreparedExport",
        "GET",
        "/{export}/file",
        "Download a prepared file, whole or in ranges.",
        _send,
        media="application/octet-stream",
        faults=frozenset({409, 410}),
    ),
    _operation(
        "removePreparedExport",
        "DELETE",
        "/{export}",
        "Remove a prepared file, or stop its preparation.",
        _remove,
        status=204,
    ),
)
