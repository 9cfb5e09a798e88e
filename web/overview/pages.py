"""The start page (key figures, running jobs, problems, next harvests, system health) and the guide."""

import asyncio
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from manager.jobs.runs import Day, RunFilter, days_of
from manager.jobs.views import count_jobs
from manager.worker.registry import manager_status
from oai.disk import disks_of
from oai.settings import Settings
from provider.holdings.status import archive_status, index_backlog
from provider.holdings.takedowns import count_active
from web.admin.installation import DiskSpace, disk_spaces, unsent_messages
from web.auth.access import Right, needs, visible_repositories, who_asks
from web.auth.organisations import StorageUse, storage_use
from web.auth.sessions import SignedIn
from web.jobs.pages import visible_jobs
from web.overview.situation import attention, figures
from web.runs.words import STRIP_DAYS, day_link, first_day
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of
from web.site.plots import sparkline, strip
from web.site.render import render
from web.site.zones import here, today

_NEXT: Final = 8


async def show(request: web.Request) -> web.Response:
    """Show the overview."""
    who, database = who_asks(request), database_of(request)
    among = visible_repositories(who)
    jobs = await visible_jobs(request)
    waiting = [job for job in jobs if job.state == "queued"]
    choice = RunFilter(among=among).within(first_day(today(), STRIP_DAYS))
    days = await database.run(days_of, choice, zone=here().key)
    curates = Right.ARCHIVE in who.rights
    health = await database.run(manager_status) if Right.LOOK_AROUND in who.rights else None
    return render(
        request,
        "overview.html",
        figures=await database.run(figures, among),
        running=[job for job in jobs if job.under_way],
        upcoming=waiting[:_NEXT],
        waiting=await database.run(count_jobs, among=among),
        stopped=[job for job in jobs if job.state in {"paused", "set aside"}],
        attention=await database.run(attention, among),
        days=days,
        **_plots(days, today()),
        health=health,
        archive=await database.run(archive_status) if health else None,
        backlog=await database.run(index_backlog) if curates else None,
        takedowns=await database.run(count_active) if curates else 0,
        nearly_full=await database.run(_nearly_full, request.config_dict[SETTINGS], who),
        disk_spaces=await _disk_spaces(request) if health else [],
        unsent=await database.run(unsent_messages) if Right.ADMINISTER in who.rights else None,
    )


async def _disk_spaces(request: web.Request) -> list[DiskSpace]:
    settings = request.config_dict[SETTINGS]
    disks = await asyncio.to_thread(disks_of, settings)
    return await database_of(request).run(disk_spaces, disks, settings.harvester)


def _nearly_full(session: Session, settings: Settings, who: SignedIn) -> list[StorageUse]:
    """Return the user's organisation if it has stored most of what it may; for administrators, each one."""
    if who.organisation_id is None and not who.may(Right.ADMINISTER):
        return []
    among = None if who.organisation_id is None else [who.organisation_id]
    found = storage_use(session, settings.harvester, among)
    return [one for one in found if one.is_nearly_full]


def _plots(days: list[Day], last: date) -> dict[str, Any]:
    first = last - timedelta(days=STRIP_DAYS - 1)
    known = {found.day: found for found in days}

    def line(value: Callable[[Day], float], label: str) -> object:
        every = [first + timedelta(days=count) for count in range(STRIP_DAYS)]
        return sparkline([value(known[day]) if day in known else 0 for day in every], label)

    return {
        "strip": strip(
            known, first, last, link=day_link(), label=_("Last 30 days, by the worst outcome of each day")
        ),
        "lines": {
            "new": line(lambda day: day.new, _("New records per day, last 30 days")),
            "changed": line(lambda day: day.changed, _("Changed records per day, last 30 days")),
        },
    }


@needs(Right.LOOK)
async def guide(request: web.Request) -> web.Response:
    """Show the dashboard's glossary and where to find what."""
    return render(request, "help.html", words=_glossary(), states=_states())


def _glossary() -> list[tuple[str, str]]:
    return [
        (_("Repository"), _("A server that provides its records by OAI-PMH.")),
        (_("Base URL"), _("The address at which a repository answers requests.")),
        (_("Harvest"), _("Fetching a repository's records, either all or only those that have changed.")),
        (_("Set"), _("A part of a repository that can be harvested separately.")),
        (_("Metadata format"), _("The form of a record: Dublin Core (oai_dc), MARC 21, MODS, …")),
        (_("Record"), _("The description of one item, with an identifier and the time of its last change.")),
        (_("Schedule"), _("What is harvested, and how often.")),
        (_("Job"), _("One harvest that is waiting or running.")),
        (_("Run"), _("One finished harvest, as listed in the history.")),
        (_("Rejected record"), _("A record that could not be read or is not valid; its raw form is stored.")),
        (_("Collection"), _("A set of archived documents, put together by the archive's staff.")),
        (
            _("Access rule"),
            _("Who may see a collection's documents: everyone, the reading room only, or no one."),
        ),
    ]


def _states() -> list[tuple[str, str]]:
    return [
        ("planned", _("It waits for its due time.")),
        ("queued", _("It starts when a worker is free; the reason for waiting is shown beside it.")),
        ("running", _("Records are being received.")),
        ("waiting", _("The repository asked the harvester to wait.")),
        ("paused", _("A user paused it; it continues when resumed.")),
        ("completed", _("All requested records were harvested.")),
        ("completed with errors", _("It completed, but some records were rejected.")),
        ("no changes", _("The repository reported no changes.")),
        ("incomplete", _("It was interrupted; the next run continues from there.")),
        ("held", _("It would delete or change so many records that it needs approval.")),
        ("failed", _("The harvest failed; see the run for the reason.")),
        ("killed", _("A user killed it.")),
        ("lost", _("Its worker stopped responding.")),
        ("missed", _("It was due while no manager was running.")),
        ("skipped (overlap)", _("It was due while the previous run was still in progress.")),
    ]


ROUTES = (web.get("/", show), web.get("/help", guide))
