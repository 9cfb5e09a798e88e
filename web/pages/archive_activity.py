"""What happens to the archive: indexing runs, who harvests it, and the self-test of its protocol."""

import uuid
from datetime import timedelta
from typing import Final

from aiohttp import web

from oai.errors import UsageError
from oai.rights import Right
from provider.holdings.status import run_statuses
from provider.holdings.troubles import find_run_files, find_troubles
from provider.http.clients import harvested_lists, harvesters
from provider.http.models import ProviderClient
from web.access import needs, who_asks
from web.archive_address import provider_address
from web.keys import SETTINGS
from web.lookups import NUMBER, number_of
from web.models import SelfTest
from web.paging import PAGE, moment_in, moment_key, number_in, page_of
from web.rendering import render
from web.self_tests import CHECK_COUNT, SELF_TESTS, list_self_tests
from web.threads import database_of
from web.words import _, told

_RUNS: Final = 20
CLIENT: Final = r"{key:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}}"


@needs(Right.LOOK_AROUND)
async def indexing(request: web.Request) -> web.Response:
    """The latest runs, and the places in archive files that could not be read."""
    database = database_of(request)
    before, before_run = number_in(request, "before"), number_in(request, "before_run")
    runs = await database.run(run_statuses, most=_RUNS + 1, before=before_run)
    troubles = await database.run(find_troubles, limit=PAGE + 1, before=before)
    return render(
        request,
        "archive_indexing.html",
        runs=page_of(runs, lambda run: run.run_id, behind=before_run, size=_RUNS),
        troubles=page_of(troubles, lambda trouble: trouble.id, behind=before),
    )


@needs(Right.LOOK_AROUND)
async def indexing_run(request: web.Request) -> web.Response:
    """The files of one run, all or those with faults."""
    number, after = number_of(request), number_in(request, "after") or 0
    troubled = request.query.get("show") == "troubled"
    try:
        files = await database_of(request).run(
            find_run_files, number, limit=PAGE + 1, after=after, troubled=troubled
        )
    except UsageError:
        raise web.HTTPNotFound(
            text=_("Indexing run %(number)s does not exist.") % {"number": number}
        ) from None
    return render(
        request,
        "archive_indexing_run.html",
        number=number,
        troubled=troubled,
        page=page_of(files, lambda file: file.id, behind=after),
    )


@needs(Right.LOOK_AROUND)
async def who_harvests(request: web.Request) -> web.Response:
    """Who harvests us, the latest first."""
    before = moment_in(request, "before")
    found = await database_of(request).run(
        harvesters, abandoned_after=abandoned_after(request), limit=PAGE + 1, before=before
    )
    page = page_of(found, lambda one: moment_key(one.last_request, one.key), behind=before)
    return render(request, "archive_harvesters.html", page=page)


@needs(Right.LOOK_AROUND)
async def harvester(request: web.Request) -> web.Response:
    """One of them, with how far it is through which lists."""
    client, before = await client_of(request), moment_in(request, "before")
    lists = await database_of(request).run(
        harvested_lists,
        abandoned_after=abandoned_after(request),
        client=client.key,
        limit=PAGE + 1,
        before=before,
    )
    page = page_of(lists, lambda one: moment_key(one.last_request, one.key), behind=before)
    return render(request, "archive_harvester.html", client=client, page=page)


@needs(Right.LOOK_AROUND)
async def checks(request: web.Request) -> web.Response:
    """The self-tests, and the button for another one."""
    before = number_in(request, "before")
    tests = await database_of(request).run(list_self_tests, limit=PAGE + 1, before=before)
    return render(
        request,
        "archive_checks.html",
        page=page_of(tests, lambda test: test.self_test_id, behind=before),
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
        raise web.HTTPNotFound(text=_("Self-test %(number)s does not exist.") % {"number": number})
    failed = [finding for finding in row.findings if finding["result"] == "failed"]
    others = [finding for finding in row.findings if finding["result"] != "failed"]
    return render(request, "archive_check.html", test=row, failed=failed, others=others, of=CHECK_COUNT)


async def client_of(request: web.Request) -> ProviderClient:
    """The harvester with the key in the address; answers 404 for one that is not known."""
    key = uuid.UUID(request.match_info["key"])
    client = await database_of(request).run(lambda session: session.get(ProviderClient, key))
    if client is None:
        raise web.HTTPNotFound(text=_("This harvester is no longer listed."))
    return client


def abandoned_after(request: web.Request) -> timedelta:
    """After how long without a request a harvester's list counts as abandoned."""
    return timedelta(hours=request.config_dict[SETTINGS].provider.abandoned_hours)


ROUTES: Final = (
    web.get("/archive/indexing", indexing),
    web.get(f"/archive/indexing/{NUMBER}", indexing_run),
    web.get("/archive/harvesters", who_harvests),
    web.get(f"/archive/harvesters/{CLIENT}", harvester),
    web.get("/archive/check", checks),
    web.post("/archive/check", start_check),
    web.get(f"/archive/check/{NUMBER}", check),
)
