"""REST API: the take-down register."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

from pydantic import Field

from oai.rights import Right
from provider.holdings import takedowns
from provider.models import Takedown
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import In, Moment, Out, Page, Paged
from web.archive.pages_takedowns import takedown_of
from web.auth.access import about

OPERATIONS: Final = Operations("archive")

_LONGEST: Final = 2000


class TakedownOut(Out):
    """An entry of the take-down register."""

    takedown_id: int
    targets: Sequence[str]
    reason: str
    requester: str
    reference: str
    created: datetime
    expires: datetime | None
    lifted: datetime | None
    lifted_because: str | None
    documents: int = Field(description="Documents that it covered when it was last applied.")
    state: str = Field(description="active, ended or being applied.")


class TakedownQuery(Paged):
    """Filters for take-downs."""

    words: str = Field(
        "", max_length=_LONGEST, description="Words in addresses, reason, requester or reference."
    )
    ended: bool | None = Field(None, description="Only those that have ended, or that have not.")


class Targets(In):
    """What a take-down covers."""

    targets: list[str] = Field(
        min_length=1,
        max_length=takedowns.MOST_TARGETS,
        description="URLs (all captures); `prefix*` for all URLs that begin with it (not within the "
        "arguments); `*.host` for a host and its subdomains. Scheme, `www.` and capitals make no difference.",
    )


class NewTakedown(Targets):
    """A take-down; a large one is applied by the manager."""

    reason: str = Field(min_length=1, max_length=_LONGEST)
    requester: str = Field(min_length=1, max_length=_LONGEST, description="Who asked, and how to reach them.")
    reference: str = Field("", max_length=_LONGEST, description="File number of the request.")
    expires: Moment | None = None


class PreviewOut(Out):
    """What a take-down would cover."""

    documents: int
    more: bool = Field(description="Whether there are more documents than were counted.")
    hidden: int = Field(description="Those that are not shown already.")
    harvesters: int = Field(description="Harvesters that may have them.")
    examples: list[str] = Field(description="Some of their URLs.")


class LiftBody(In):
    """Why a take-down ends."""

    reason: str = Field(min_length=1, max_length=_LONGEST)


@OPERATIONS.add("GET /archive/takedowns", "listTakedowns", Right.ARCHIVE, query=TakedownQuery)
async def _list(call: Call) -> Page[TakedownOut]:
    """List the take-down register, newest first."""
    asked = call.asked(TakedownQuery)
    find = partial(takedowns.list_takedowns, words=asked.words, ended=asked.ended)
    return await list_page(call, find, _out, before=lambda row: row.takedown_id)


@OPERATIONS.add("POST /archive/takedowns/preview", "previewTakedown", Right.ARCHIVE, body=Targets)
async def _preview(call: Call) -> PreviewOut:
    """Show what a take-down would cover; nothing is changed."""
    found = await call.database.run(takedowns.preview, call.sent(Targets).targets)
    return PreviewOut.model_validate(found.as_json())


@OPERATIONS.add("POST /archive/takedowns", "addTakedown", Right.ARCHIVE, body=NewTakedown, status=201)
async def _add(call: Call) -> TakedownOut:
    """Take documents down: they are not shown, also those that are indexed later."""
    asked = call.sent(NewTakedown)
    request = takedowns.TakedownRequest(**{**asked.model_dump(), "targets": tuple(asked.targets)})
    found = await call.database.run(takedowns.preview, request.targets)
    number = await call.database.run(takedowns.enter, request)
    return await _settled(call, number, found.documents)


@OPERATIONS.add("GET /archive/takedowns/{takedown}", "getTakedown", Right.ARCHIVE)
async def _show(call: Call) -> TakedownOut:
    """Show a take-down."""
    return _out(await takedown_of(call.request, call.place["takedown"]))


@OPERATIONS.add("POST /archive/takedowns/{takedown}/lift", "liftTakedown", Right.ARCHIVE, body=LiftBody)
async def _lift(call: Call) -> TakedownOut:
    """End a take-down; its documents are shown again unless something else hides them."""
    row = await takedown_of(call.request, call.place["takedown"])
    await call.database.run(takedowns.lift, row.takedown_id, call.sent(LiftBody).reason)
    return await _settled(call, row.takedown_id, row.documents)


async def _settled(call: Call, number: int, documents: int) -> TakedownOut:
    margin = call.settings.provider.publish_margin
    await call.database.run(takedowns.settle_if_small, number, documents, margin=margin)
    row = await takedown_of(call.request, number)
    about(call.request, "takedown", number, row.targets[0])
    return _out(row)


def _out(row: Takedown) -> TakedownOut:
    return TakedownOut.from_row(row, state=takedowns.state_of(row))
