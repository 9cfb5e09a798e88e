"""REST API: the errors of a run, and one error with its raw bytes."""

from datetime import datetime
from functools import partial
from typing import Any, Final

from aiohttp import web
from pydantic import Field

from harvester.harvest.models import Quarantined
from harvester.listing import find_errors
from harvester.models import History
from oai.rights import Right
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import Flag, Out, Page, Paged
from web.runs.api import attachment
from web.site.paging import LARGEST_BIGINT

OPERATIONS: Final = Operations("runs")


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
