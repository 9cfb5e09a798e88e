"""Rules that are not applied to all records because their schedules request only changes."""

from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.models import Repository
from harvester.rule_lab.models import Rule
from manager.models import RecurringJob
from manager.rule_usage import schedules_with
from manager.schedules.rule_changes import harvest_everything, with_changed_rules
from oai.settings import Settings
from web.auth.access import Right, asked_for, needs, visible_repositories, who_asks
from web.auth.audit import record_beside
from web.auth.sessions import SignedIn
from web.schedules.forms import partner_minutes
from web.site.keys import SETTINGS, database_of
from web.site.params import NUMBER

_DONE: Final = "everything-asked"
_AT_ONCE: Final = 500
"""Schedules of one click; the note and its button stay while others are left."""


def unapplied(session: Session, settings: Settings, who: SignedIn, rule: Rule) -> Sequence[RecurringJob]:
    """Return the schedules with the rule whose next harvest does not apply it to all records."""
    return with_changed_rules(session, schedules_with(settings, rule, among=visible_repositories(who)))


async def page_after(request: web.Request, schedule: int, done: str) -> str:
    """Return the page to show after a schedule is saved: its own if its rules are not applied to all."""
    found = await database_of(request).run(with_changed_rules, [schedule])
    return f"/schedules/{schedule}/edit?done={done}" if found else f"/schedules?done={done}"


@needs(Right.HARVEST)
async def harvest_all_of_rule(request: web.Request) -> web.Response:
    """Request all records once for each schedule that the note on the rule's page lists."""
    who, rule = who_asks(request), await asked_for(request, Rule)
    settings = request.config_dict[SETTINGS]
    await _harvest(request, lambda session: unapplied(session, settings, who, rule))
    raise web.HTTPSeeOther(f"/rules/{rule.rule_id}?done={_DONE}")


@needs(Right.HARVEST)
async def harvest_all_of_schedule(request: web.Request) -> web.Response:
    """Request all records of the schedule once, if its rules are not applied to all."""
    schedule = await asked_for(request, RecurringJob)
    await _harvest(request, lambda session: with_changed_rules(session, [schedule.id]))
    raise web.HTTPSeeOther(f"/schedules/{schedule.id}/edit?done={_DONE}")


async def _harvest(request: web.Request, schedules: Callable[[Session], Sequence[RecurringJob]]) -> None:
    minutes = partner_minutes(request)

    def work(session: Session) -> None:
        # Looked up again: a second click finds that all records are requested already, or those left over.
        found = schedules(session)[:_AT_ONCE]
        harvest_everything(session, found, partner_minutes=minutes)
        for schedule in found:
            name = session.get_one(Repository, schedule.repository_id).display_name
            record_beside(session, request, "schedule.run", "schedule", schedule.id, name)

    await database_of(request).run(work)


ROUTES: Final = (
    web.post(f"/rules/{NUMBER}/harvest-all", harvest_all_of_rule),
    web.post(f"/schedules/{NUMBER}/harvest-all", harvest_all_of_schedule),
)
