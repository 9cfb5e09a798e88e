"""What happens to the archive: indexing runs, who harvests it, and the self-test of its protocol."""

import uuid
from datetime import timedelta
from typing import Final

from aiohttp import web

from oai.errors import UsageError
from oai.settings import Settings
from provider.holdings.status import run_statuses
from provider.holdings.troubles import find_run_files, find_troubles
from provider.http.clients import harvested_lists, harvesters
from provider.http.models import ProviderClient
from web.access import needs, who_asks
from web.archive_address import provider_address
from web.keys import SETTINGS
from web.lookups import NUMBER, number_of
from web.models import SelfTest
from web.rendering import render
from web.rights import Right
from web.self_tests import CHECK_COUNT, SELF_TESTS, list_self_tests
from web.threads import database_of
from web.words import _, told

_PAGE: Final = 100
_HARVESTERS: Final = 200
_DIGITS: Final = 18
_KEY: Final = r"{key:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}}"


@needs(Right.LOOK_AROUND)
async def indexing(request: web.Request) -> web.Response:
    """The latest runs, and the places in archive files that could not be read."""
    database, before = database_of(request), _number(request, "before")
    troubles = await database.run(find_troubles, limit=_PAGE + 1, before=before)
    return render(
        request,
        "archive_indexing.html",
        runs=await database.run(run_statuses),
        troubles=troubles[:_PAGE],
        older=troubles[_PAGE - 1].id if len(troubles) > _PAGE else None,
        first=before is None,
    )


@needs(Right.LOOK_AROUND)
async def indexing_run(request: web.Request) -> web.Response:
    """The files of one run, all or those with faults."""
    number, after = number_of(request), _number(request, "after")
    troubled = request.query.get("show") == "troubled"
    try:
        files = await database_of(request).run(
            find_run_files, number, limit=_PAGE + 1, after=after or 0, troubled=troubled
        )
    except UsageError:
        raise web.HTTPNotFound(text=_("There is no indexing run %(number)s.") % {"number": number}) from None
    return render(
        request,
        "archive_indexing_run.html",
        number=number,
        files=files[:_PAGE],
        troubled=troubled,
        next=files[_PAGE - 1].id if len(files) > _PAGE else None,
        first=after is None,
    )


@needs(Right.LOOK_AROUND)
async def who_harvests(request: web.Request) -> web.Response:
    """Who harvests us, the latest first."""
    after = _abandoned_after(request.config_dict[SETTINGS])
    found = await database_of(request).run(harvesters, abandoned_after=after, limit=_HARVESTERS)
    return render(request, "archive_harvesters.html", harvesters=found)


@needs(Right.LOOK_AROUND)
async def harvester(request: web.Request) -> web.Response:
    """One of them, with how far it is through which lists."""
    key, database = uuid.UUID(request.match_info["key"]), database_of(request)
    client = await database.run(lambda session: session.get(ProviderClient, key))
    if client is None:
        raise web.HTTPNotFound(text=_("This harvester is not known any more."))
    after = _abandoned_after(request.config_dict[SETTINGS])
    lists = await database.run(harvested_lists, abandoned_after=after, client=key, limit=_PAGE)
    return render(request, "archive_harvester.html", client=client, lists=lists)


@needs(Right.LOOK_AROUND)
async def checks(request: web.Request) -> web.Response:
    """The self-tests that are kept, and the button for another one."""
    return render(
        request,
        "archive_checks.html",
        tests=await database_of(request).run(list_self_tests),
        base_url=provider_address(request.config_dict[SETTINGS]),
        of=CHECK_COUNT,
    )


@needs(Right.ARCHIVE)
async def start_check(request: web.Request) -> web.Response:
    """Begin a self-test in the background."""
    base_url = provider_address(request.config_dict[SETTINGS])
    try:
        row = await request.config_dict[SELF_TESTS].start(base_url, asked_by=who_asks(request).name)
    except UsageError as error:
        raise web.HTTPConflict(text=told(error)) from None
    raise web.HTTPSeeOther(f"/archive/check/{row.self_test_id}?done=check-started")


@needs(Right.LOOK_AROUND)
async def check(request: web.Request) -> web.Response:
    """One self-test with what was found so far."""
    number = number_of(request)
    row = await database_of(request).run(lambda session: session.get(SelfTest, number))
    if row is None:
        raise web.HTTPNotFound(text=_("There is no self-test %(number)s.") % {"number": number})
    failed = [finding for finding in row.findings if finding["result"] == "failed"]
    others = [finding for finding in row.findings if finding["result"] != "failed"]
    return render(request, "archive_check.html", test=row, failed=failed, others=others, of=CHECK_COUNT)


def _abandoned_after(settings: Settings) -> timedelta:
    return timedelta(hours=settings.provider.abandoned_hours)


def _number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


ROUTES: Final = (
    web.get("/archive/indexing", indexing),
    web.get(f"/archive/indexing/{NUMBER}", indexing_run),
    web.get("/archive/harvesters", who_harvests),
    web.get(f"/archive/harvesters/{_KEY}", harvester),
    web.get("/archive/check", checks),
    web.post("/archive/check", start_check),
    web.get(f"/archive/check/{NUMBER}", check),
)
