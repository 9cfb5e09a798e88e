"""Archive pages: indexing runs, harvesters of the provider, and the provider's self-test."""

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from aiohttp import web
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from manager.index_queue import queue_found
from oai.errors import UsageError, ZatvaError
from oai.executor import DatabaseExecutor
from oai.rights import Right
from provider.checking.checks import CHECKS
from provider.checking.client import CheckClient
from provider.checking.findings import Finding, run_checks
from provider.checking.survey import Survey
from provider.checking.transport import http_transport
from provider.clients.models import ProviderClient
from provider.clients.store import harvested_lists, harvesters
from provider.holdings.index_errors import find_problems, find_run_files
from provider.holdings.sets import collection_set_spec
from provider.holdings.status import run_statuses
from provider.indexing.browsing import find_files, list_folder
from web.archive.address import provider_address
from web.auth.access import about, needs, who_asks
from web.models import SelfTest
from web.site.background import Background
from web.site.faults import conflicts
from web.site.forms import Form
from web.site.i18n import _, error_text, mark
from web.site.keys import SETTINGS, database_of
from web.site.paging import LARGEST_BIGINT, PAGE, moment_in, moment_key, number_in, page_of, text_in
from web.site.params import NUMBER, number_of
from web.site.render import render

CHECK_COUNT: Final = len(CHECKS)
_TIMEOUT: Final = 60.0
_MOST_REQUESTS: Final = 300
_STARTING: Final = 0x7A_73_74  # "zst": key of the advisory lock that serializes starts
_TOLD_EVERY: Final = 10
_RELOADED_EVERY: Final = 5
"""Seconds after which the page of a run that is under way is loaded again."""
_GIVEN_UP: Final = timedelta(hours=1)

_log = logging.getLogger("web.self_tests")
_RUNS: Final = 20
CLIENT: Final = r"{key:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}}"


@dataclass(kw_only=True)
class SelfTests(Background):
    """Runs self-tests in background tasks, one at a time in the whole installation."""

    database: DatabaseExecutor

    async def start(self, base_url: str, *, asked_by: str | None) -> SelfTest:
        """Start checking the provider at the given base URL and return the row of the self-test.

        Raises UsageError while another self-test is in progress.
        """
        row = await self.database.run(_begin, base_url, asked_by)
        self._begin(self._run(row.self_test_id, base_url))
        return row

    async def _run(self, number: int, base_url: str) -> None:
        failure: str | None = None
        findings: list[Finding] = []
        try:
            checks = run_checks(Survey(_client(base_url)), CHECKS)
            # One `next` runs at a time and `findings` changes only between awaits, so the threads never share
            # it.
            while (finding := await asyncio.to_thread(next, checks, None)) is not None:
                findings.append(finding)
                if len(findings) % _TOLD_EVERY == 0:
                    await self.database.run(_note, number, findings)
        except ZatvaError as error:
            failure = str(error)
        except Exception:  # noqa: BLE001 a task's last resort: logged in full
            _log.exception("self-test %d", number)
            failure = mark("An internal error occurred in Zatva. See the log of the dashboard for details.")
        await self.database.run(_note, number, findings, failure=failure, ended=True)


SELF_TESTS: Final = web.AppKey("self_tests", SelfTests)


def list_self_tests(session: Session, *, limit: int, before: int | None = None) -> Sequence[SelfTest]:
    """Return self-tests, newest first, older than the one numbered `before`."""
    rows = select(SelfTest).order_by(SelfTest.self_test_id.desc()).limit(limit)
    return session.scalars(rows if before is None else rows.where(SelfTest.self_test_id < before)).all()


def _begin(session: Session, base_url: str, asked_by: str | None) -> SelfTest:
    session.execute(select(func.pg_advisory_xact_lock(_STARTING)))
    # The advisory lock, held until commit, serializes check and insert across processes: two starts cannot
    # both find no running self-test. A self-test whose process died never ends, hence the time limit.
    under_way = (SelfTest.ended.is_(None), SelfTest.started > func.now() - _GIVEN_UP)
    running = session.scalar(select(SelfTest.self_test_id).where(*under_way).limit(1))
    if running is not None:
        raise UsageError(_("self-test %(number)s is in progress; wait until it ends") % {"number": running})
    row = SelfTest(base_url=base_url, asked_by=asked_by)
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def _note(
    session: Session,
    number: int,
    findings: Sequence[Finding],
    *,
    failure: str | None = None,
    ended: bool = False,
) -> None:
    values: dict[str, Any] = {"checks": len(findings), "findings": [one.as_row() for one in findings]}
    if ended:
        values |= {"ended": func.now(), "failure": failure}
    session.execute(update(SelfTest).where(SelfTest.self_test_id == number).values(**values))


def _client(base_url: str) -> CheckClient:
    return CheckClient(
        url=base_url,
        transport=http_transport(timeout=_TIMEOUT),
        pause=0.0,
        max_requests=_MOST_REQUESTS,
        sleep=time.sleep,
    )


@needs(Right.LOOK_AROUND)
async def indexing(request: web.Request) -> web.Response:
    """Show the latest indexing runs and the unreadable places in archive files."""
    database = database_of(request)
    before = number_in(request, "before", largest=LARGEST_BIGINT)
    before_run = number_in(request, "before_run")
    runs = await database.run(run_statuses, limit=_RUNS + 1, before=before_run)
    problems = await database.run(find_problems, limit=PAGE + 1, before=before)
    return render(
        request,
        "archive_indexing.html",
        runs=page_of(runs, lambda run: run.run_id, behind=before_run, size=_RUNS),
        problems=page_of(problems, lambda one: one.id, behind=before),
    )


@needs(Right.ARCHIVE)
async def browse(request: web.Request) -> web.Response:
    """Show a folder of archive files, and what the index knows of them."""
    return await _folder(request, text_in(request, "folder"), Form(values={}))


@needs(Right.ARCHIVE)
async def queue_chosen(request: web.Request) -> web.Response:
    """Queue the chosen files, or with the button for the folder, whatever is new or changed below it.

    Enter in a field shows the form again.
    """
    posted, roots = await request.post(), request.config_dict[SETTINGS].provider.index_roots
    folder, collection = str(posted.get("folder", "")), str(posted.get("collection", "")).strip()
    chosen = [str(path) for path in posted.getall("file", [])]
    form = Form(values={"collection": collection, "file": chosen})
    all_below = posted.get("do") == "all"
    if posted.get("do") == "show":
        return await _folder(request, folder, form)
    if all_below and chosen:
        both = _("You chose files. Index only these, or clear them to index everything here and below.")
        return await _folder(request, folder, form, fault=both)
    try:
        if collection:
            collection_set_spec(collection)
    except UsageError as error:
        return await _folder(request, folder, form.with_error("collection", error_text(error)))
    try:
        files = await asyncio.to_thread(find_files, roots, [folder] if all_below else chosen)
        number = await database_of(request).run(
            queue_found, files, collection=collection or None, again=not all_below
        )
    except UsageError as error:
        return await _folder(request, folder, form, fault=error_text(error))
    if number is None:
        nothing = _("Nothing there is new or changed.") if all_below else _("Choose at least one file.")
        return await _folder(request, folder, form, fault=nothing)
    about(request, "archive", number, folder)
    raise web.HTTPSeeOther(f"/archive/indexing/{number}?done=files-queued")


async def _folder(request: web.Request, path: str, form: Form, fault: str = "") -> web.Response:
    roots, view = request.config_dict[SETTINGS].provider.index_roots, None
    if path or len(roots) == 1:
        try:
            view = await database_of(request).run(list_folder, roots, path or str(roots[0]))
        except UsageError as error:
            fault = fault or error_text(error)
    return render(
        request,
        "archive_files.html",
        status=422 if fault else form.status,
        roots=roots,
        view=view,
        fault=fault,
        form=form,
        states={
            "new": _("new"),
            "changed": _("changed"),
            "indexed": _("indexed"),
            "waiting": _("waiting"),
            "running": _("running"),
            "failed": _("failed"),
        },
    )


@needs(Right.LOOK_AROUND)
async def indexing_run(request: web.Request) -> web.Response:
    """Show the files of one run: all, or only those with faults."""
    number, after = number_of(request), number_in(request, "after", largest=LARGEST_BIGINT) or 0
    troubled = request.query.get("show") == "troubled"
    try:
        files = await database_of(request).run(
            find_run_files, number, limit=PAGE + 1, after=after, troubled=troubled
        )
    except UsageError:
        raise web.HTTPNotFound(
            text=_("Indexing run %(number)s does not exist.") % {"number": number}
        ) from None
    under_way = any(file.state in ("waiting", "running") for file in files)
    return render(
        request,
        "archive_indexing_run.html",
        headers={"Refresh": str(_RELOADED_EVERY)} if under_way else None,
        number=number,
        troubled=troubled,
        page=page_of(files, lambda file: file.id, behind=after),
    )


@needs(Right.LOOK_AROUND)
async def who_harvests(request: web.Request) -> web.Response:
    """Show the harvesters of the provider, most recent first."""
    before = moment_in(request, "before")
    found = await database_of(request).run(
        harvesters, abandoned_after=abandoned_after(request), limit=PAGE + 1, before=before
    )
    page = page_of(found, lambda one: moment_key(one.last_request, one.key), behind=before)
    return render(request, "archive_harvesters.html", page=page)


@needs(Right.LOOK_AROUND)
async def harvester(request: web.Request) -> web.Response:
    """Show one harvester, with its progress through each list."""
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
    """Show the self-tests and the button that starts one."""
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
    """Start a self-test in the background."""
    base_url = provider_address(request.config_dict[SETTINGS])
    with conflicts():
        row = await request.config_dict[SELF_TESTS].start(base_url, asked_by=who_asks(request).name)
    raise web.HTTPSeeOther(f"/archive/check/{row.self_test_id}?done=check-started")


@needs(Right.LOOK_AROUND)
async def check(request: web.Request) -> web.Response:
    """Show one self-test with its findings so far."""
    row = await self_test_of(request, number_of(request))
    failed = [finding for finding in row.findings if finding["result"] == "failed"]
    others = [finding for finding in row.findings if finding["result"] != "failed"]
    return render(request, "archive_check.html", test=row, failed=failed, others=others, of=CHECK_COUNT)


async def self_test_of(request: web.Request, number: int) -> SelfTest:
    """Return the self-test with that number; respond 404 if there is none."""
    row = await database_of(request).run(lambda session: session.get(SelfTest, number))
    if row is None:
        raise web.HTTPNotFound(text=_("Self-test %(number)s does not exist.") % {"number": number})
    return row


async def client_of(request: web.Request, name: str = "key") -> ProviderClient:
    """Return the harvester whose key is in the path under this name; respond 404 for an unknown one."""
    key = uuid.UUID(request.match_info[name])
    client = await database_of(request).run(lambda session: session.get(ProviderClient, key))
    if client is None:
        raise web.HTTPNotFound(text=_("This harvester is no longer listed."))
    return client


def abandoned_after(request: web.Request) -> timedelta:
    """Return the time without a request after which a harvester's list counts as abandoned."""
    return timedelta(hours=request.config_dict[SETTINGS].provider.abandoned_hours)


ROUTES: Final = (
    web.get("/archive/indexing", indexing),
    web.get("/archive/indexing/files", browse),
    web.post("/archive/indexing/files", queue_chosen),
    web.get(f"/archive/indexing/{NUMBER}", indexing_run),
    web.get("/archive/harvesters", who_harvests),
    web.get(f"/archive/harvesters/{CLIENT}", harvester),
    web.get("/archive/check", checks),
    web.post("/archive/check", start_check),
    web.get(f"/archive/check/{NUMBER}", check),
)
