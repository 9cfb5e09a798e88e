"""REST API: WARC and WACZ files prepared for download."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Self

from aiohttp import web
from pydantic import ConfigDict, Field, model_validator

from manager.exports import remove_export
from oai.rights import Right
from provider.export.models import ExportForm
from provider.export.prepared_files import list_exports
from web.api.faults import ApiError
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import Moment, Out, Page, Paged
from web.archive.pages_exports import ExportRequest, found_export, queued, sent

OPERATIONS: Final = Operations("archive")


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

    @model_validator(mode="after")
    def _it_does_not_end_before_it_begins(self) -> Self:
        if self.since and self.until and self.since > self.until:
            raise ValueError("`since` is after `until`")
        return self


@OPERATIONS.add("GET /archive/exports", "listPreparedExports", Right.LOOK_AROUND, query=Paged)
async def _list(call: Call) -> Page[PreparedExportOut]:
    """List WARC and WACZ files prepared for download, newest first."""
    shown = PreparedExportOut.model_validate
    return await list_page(call, list_exports, shown, before=lambda row: row.export_id)


@OPERATIONS.add("POST /archive/exports", "prepareExport", Right.ARCHIVE, body=NewExport, status=202)
async def _prepare(call: Call) -> PreparedExportOut:
    """Prepare captures as a WARC or WACZ file for download, in the background."""
    asked = call.sent(NewExport)
    made = await queued(call.request, asked, since=asked.since, until=asked.until)
    return PreparedExportOut.model_validate(made)


@OPERATIONS.add("GET /archive/exports/{export}", "getPreparedExport", Right.LOOK_AROUND)
async def _show(call: Call) -> PreparedExportOut:
    """Show a prepared file."""
    return PreparedExportOut.model_validate(await found_export(call.request, call.place["export"]))


@OPERATIONS.add(
    "GET /archive/exports/{export}/file",
    "downloadPreparedExport",
    Right.LOOK_AROUND,
    media="application/octet-stream",
    faults={409, 410},
)
async def _send(call: Call) -> web.StreamResponse:
    """Download a prepared file, whole or in ranges."""
    return await sent(call.request, call.place["export"])


@OPERATIONS.add("DELETE /archive/exports/{export}", "removePreparedExport", Right.ARCHIVE)
async def _remove(call: Call) -> None:
    """Remove a prepared file, or stop its preparation."""
    export = await found_export(call.request, call.place["export"])
    if not await call.database.run(remove_export, call.settings, export.export_id, by=call.who.name):
        raise ApiError(409, "the file is not available: its preparation failed, or it was removed")
