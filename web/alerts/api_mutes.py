"""REST API: acknowledged failures, muted repositories and maintenance windows."""

from datetime import datetime
from functools import partial
from typing import Final, Literal

from pydantic import Field

from harvester.models import History
from manager.notices.models import Mute, MuteKind
from manager.notices.mutes import acknowledge, end_mute, list_mutes, mute
from oai.rights import Right
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import Flag, In, Moment, Out, Page, Paged
from web.auth.access import about, visible_repositories

OPERATIONS: Final = Operations("alerts")

_LONGEST: Final = 2000


class MuteOut(Out):
    """An acknowledged failure, or a time in which failures need no attention."""

    mute_id: int
    kind: MuteKind = Field(description="In maintenance, no harvest begins either.")
    repository_id: int | None = Field(description="Null: all repositories.")
    history_id: int | None = Field(description="The acknowledged run.")
    note: str
    made_by: str = Field(description="Name of the user; empty if you may not see it.")
    starts: datetime
    ends: datetime | None = Field(description="Null: until the harvest succeeds or fails for another reason.")


class MuteQuery(Paged):
    """Filters for mutes."""

    past: Flag = Field(default=False, description="Include those that are over.")


class NewMute(In):
    """A mute or a maintenance window, of at most 90 days."""

    kind: Literal["muted", "maintenance"] = "muted"
    repository_id: int | None = Field(
        None, ge=1, le=999_999_999, description="Null for callers who see all repositories: all of them."
    )
    note: str = Field(min_length=1, max_length=_LONGEST)
    starts: Moment | None = Field(None, description="Null: now.")
    ends: Moment


class Acknowledgement(In):
    """What is known of a failure."""

    note: str = Field("", max_length=_LONGEST)


@OPERATIONS.add("GET /mutes", "listMutes", Right.LOOK, query=MuteQuery)
async def _list(call: Call) -> Page[MuteOut]:
    """List what is acknowledged, muted or in maintenance, newest first."""
    find = partial(list_mutes, among=visible_repositories(call.who), past=call.asked(MuteQuery).past)
    return await list_page(call, find, lambda row: _out(call, row[0]), before=lambda row: row[0].mute_id)


@OPERATIONS.add("POST /mutes", "addMute", Right.HARVEST, body=NewMute, status=201, faults={404, 409})
async def _add(call: Call) -> MuteOut:
    """Mute a repository or all, or plan a maintenance window in which no harvest begins."""
    asked = call.sent(NewMute)
    await call.check_repository(asked.repository_id, "mute all repositories")
    row = await call.database.run(
        mute,
        asked.repository_id,
        MuteKind(asked.kind),
        note=asked.note,
        starts=asked.starts,
        ends=asked.ends,
        by=call.who.name,
    )
    about(call.request, "mute", row.mute_id)
    return _out(call, row)


@OPERATIONS.add(
    "POST /runs/{run}/acknowledge",
    "acknowledgeRun",
    Right.HARVEST,
    body=Acknowledgement,
    status=201,
    faults={409},
)
async def _acknowledge(call: Call) -> MuteOut:
    """Acknowledge a failed run until its harvest succeeds or fails for another reason."""
    run = await call.row(History, "run")
    note = call.sent(Acknowledgement).note
    return _out(call, await call.database.run(acknowledge, run.history_id, note=note, by=call.who.name))


@OPERATIONS.add("POST /mutes/{mute}/end", "endMute", Right.HARVEST)
async def _end(call: Call) -> None:
    """End a mute now."""
    row = await call.row(Mute, "mute")
    await call.database.run(end_mute, row.mute_id)


def _out(call: Call, row: Mute) -> MuteOut:
    found = MuteOut.model_validate(row)
    if row.repository_id is None and not call.who.sees_everything:
        return found.model_copy(update={"made_by": ""})
    return found
