"""REST API: replays of rules: list runs that can be replayed, preview, apply."""

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from manager.replays import KeptRun, kept_runs
from oai.errors import TryLaterError, UsageError
from oai.rights import Right
from web.api.faults import ApiError
from web.api.operations import Call, Operations
from web.api.shapes import In, Out
from web.auth.access import visible_repositories
from web.rules.api import rule_asked
from web.rules.replay import REPLAYS, Replay, wanted_replay

OPERATIONS: Final = Operations("rules")


class KeptRunOut(Out, KeptRun):
    """A run with stored answers."""


class KeptRuns(Out):
    """Runs that can be replayed with a rule, newest first; at most 50."""

    items: list[KeptRunOut]


class ReplayBody(In):
    """The run whose stored answers are replayed."""

    run: int = Field(ge=1, le=999_999_999_999_999_999, description="A run with stored answers.")


class SampleOut(Out):
    """An example record for an effect."""

    identifier: str
    why: str
    diff: str = Field(description="Difference between the stored record and the result.")


class RehearsalOut(Out):
    """The changes that a replay would make."""

    run: int
    repository_id: int
    counts: dict[str, int] = Field(
        description=(
            "Number of records by result: new, updated, unchanged, left out now, left out, "
            "deleted, superseded, limit met."
        )
    )
    samples: dict[str, Sequence[SampleOut]] = Field(description="Some records of each result.")
    faults: Sequence[str] = Field(description="Answers and parts of answers that could not be read.")


class ReplayState(Out):
    """A replay that was started."""

    run: int
    repository_id: int


@OPERATIONS.add("GET /rules/{rule}/runs", "listReplayableRuns", Right.LOOK)
async def _runs(call: Call) -> KeptRuns:
    """List runs that can be replayed with a rule."""
    rule = await rule_asked(call)
    among = visible_repositories(call.who)
    found = await call.database.run(kept_runs, among=among, repository_id=rule.repository_id)
    return KeptRuns(items=[KeptRunOut.model_validate(one) for one in found])


@OPERATIONS.add("POST /rules/{rule}/rehearsal", "rehearseRule", Right.HARVEST, body=ReplayBody, faults={409})
async def _rehearse(call: Call) -> RehearsalOut:
    """Preview the replay of a run with the current rule, without changing data."""
    wanted = await _wanted(call)
    try:
        return RehearsalOut.model_validate(await call.request.config_dict[REPLAYS].preview(wanted))
    except UsageError as error:
        raise ApiError(409, str(error)) from None
    except TryLaterError as error:
        raise ApiError(503, str(error)) from None


@OPERATIONS.add(
    "POST /rules/{rule}/replay", "replayRule", Right.HARVEST, body=ReplayBody, status=202, faults={409}
)
async def _apply(call: Call) -> ReplayState:
    """Replay a run with the current rule; the result appears in the history."""
    wanted = await _wanted(call)
    if not call.request.config_dict[REPLAYS].begin(wanted):
        raise ApiError(
            409, f"a replay of repository {wanted.repository_id} is in progress; wait until it ends"
        )
    return ReplayState(run=wanted.run, repository_id=wanted.repository_id)


async def _wanted(call: Call) -> Replay:
    return await wanted_replay(call.request, await rule_asked(call), call.sent(ReplayBody).run)
