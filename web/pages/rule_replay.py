"""A rule replayed over the kept answers of a run: what that would change is told first, then it is done."""

from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.models import History
from harvester.rule_lab.models import Rule
from harvester.rule_lab.rehearsal import Outcome
from manager.replays import files_with, kept_runs
from oai.errors import TryLaterError, UsageError
from oai.settings import Settings
from web.access import Right, asked_for, needs, visible_repositories, who_asks
from web.keys import SETTINGS
from web.lookups import NUMBER
from web.pages.rules import rule_of
from web.rendering import render
from web.replays import REPLAYS, Replay
from web.threads import database_of
from web.words import _, told

_DIGITS: Final = 18
_REFRESH_SECONDS: Final = 3


@dataclass(frozen=True, kw_only=True)
class _Looked:
    """What was asked for, and what came of it."""

    run: int | None = None
    rehearsal: dict[str, Any] | None = None
    error: str = ""


async def show(request: web.Request) -> web.Response:
    """The runs that can be replayed, and the replay under way."""
    return await _page(request, await rule_of(request), _Looked(run=_number(request.query.get("run", ""))))


@needs(Right.HARVEST)
async def replay(request: web.Request) -> web.Response:
    """Tell what a replay would change, or do it."""
    rule, posted = await rule_of(request), await request.post()
    number = _number(str(posted.get("run", "")))
    if number is None:
        return await _page(request, rule, _Looked(error=_("Choose a run.")))
    wanted = await wanted_replay(request, rule, number)
    replays = request.config_dict[REPLAYS]
    if posted.get("do") == "apply":
        if not replays.begin(wanted):
            raise web.HTTPConflict(text=_("A replay for this repository is in progress. Wait until it ends."))
        raise web.HTTPSeeOther(f"/rules/{rule.rule_id}/replay?run={number}&done=replay-begun")
    try:
        looked = _Looked(run=number, rehearsal=await replays.rehearse(wanted))
    except (UsageError, TryLaterError) as error:
        looked = _Looked(run=number, error=told(error))
    return await _page(request, rule, looked)


async def wanted_replay(request: web.Request, rule: Rule, number: int) -> Replay:
    """The replay of that run with the rule; answers 404 for a run that is not there, or not theirs."""
    _who, run = await asked_for(request, History, number)

    def read(session: Session, settings: Settings) -> Replay:
        files = files_with(session, settings, rule, session.get_one(History, number))
        return Replay(run=number, repository_id=run.repository_id, files=files)

    return await database_of(request).run(read, request.config_dict[SETTINGS])


async def _page(request: web.Request, rule: Rule, looked: _Looked) -> web.Response:
    replays = request.config_dict[REPLAYS]
    runs = await database_of(request).run(
        kept_runs, among=visible_repositories(who_asks(request)), repository_id=rule.repository_id
    )
    chosen = next((run for run in runs if run.history_id == looked.run), None)
    under_way = [run for run in runs if replays.of(run.repository_id) == run.history_id]
    return render(
        request,
        "rule_replay.html",
        status=422 if looked.error else 200,
        headers={"Refresh": str(_REFRESH_SECONDS)} if under_way and looked.rehearsal is None else None,
        rule=rule,
        runs=runs,
        chosen=chosen,
        looked=looked,
        under_way=under_way,
        failure=replays.failure_of(chosen.repository_id) if chosen else "",
        outcomes=_outcomes(),
    )


def _outcomes() -> dict[str, str]:
    """What a replay would do with a record, in words."""
    return {
        Outcome.NEW.value: _("new: would be stored"),
        Outcome.UPDATED.value: _("updated: a changed version would be stored"),
        Outcome.UNCHANGED.value: _("unchanged"),
        Outcome.LEFT_OUT_NOW.value: _("now filtered out; its stored version is kept"),
        Outcome.LEFT_OUT.value: _("filtered out, not stored"),
        Outcome.DELETED.value: _("deleted"),
        Outcome.SUPERSEDED.value: _("superseded: a later harvest stored another version, which is kept"),
        Outcome.LIMIT.value: _("a rule reached a limit; the result is unknown"),
    }


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


ROUTES: Final = (
    web.get(f"/rules/{NUMBER}/replay", show),
    web.post(f"/rules/{NUMBER}/replay", replay),
)
