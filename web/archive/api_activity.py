"""REST API: indexing runs, harvesters of the provider, and self-tests."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from pydantic import Field

from manager.index_queue import queue_found
from oai.errors import UsageError
from oai.rights import Right
from provider.clients.store import HarvestedList, Harvester, harvested_lists, harvesters
from provider.holdings.index_errors import find_problems, find_run_files
from provider.holdings.status import RunFile, RunStatus, run_statuses
from provider.indexing.browsing import FileKnown, find_files, list_folder
from web.api.faults import ApiError
from web.api.operations import Call, Operations
from web.api.paging import after, list_page, page_of
from web.api.shapes import Flag, In, Out, Page, Paged
from web.archive.address import provider_address
from web.archive.pages_activity import (
    CHECK_COUNT,
    SELF_TESTS,
    abandoned_after,
    client_of,
    list_self_tests,
    self_test_of,
)
from web.auth.access import about, who_asks
from web.site.i18n import _
from web.site.paging import LARGEST_BIGINT

OPERATIONS: Final = Operations("archive")

_MOMENT_KEY: Final = tuple[datetime, uuid.UUID]


class IndexRunOut(Out, RunStatus):
    """An indexing run and its progress."""


class FileQuery(Paged):
    """Filters for files."""

    troubled: Flag = Field(default=False, description="Only files that failed or have unreadable locations.")


class FileOut(Out, RunFile):
    """A file of an indexing run."""

    failure_code: str | None = Field(description="Failure code; see the reference of failure codes.")
    failure_facts: Mapping[str, Any] | None = Field(description="Facts that belong to the failure code.")


class TroubleOut(Out):
    """A place in an archive file that could not be read or indexed."""

    id: int
    file: str
    offset: int
    reason: str
    failure_code: str = Field(description="Failure code; see the reference of failure codes.")
    failure_facts: dict[str, Any] = Field(description="Facts that belong to the failure code.")


class HarvesterOut(Out, Harvester):
    """A harvester of the provider."""


class HarvestedListOut(Out):
    """A list that a harvester reads, and its progress."""

    verb: str
    metadata_prefix: str
    set_spec: str
    from_date: datetime | None
    until_date: datetime | None
    started: datetime
    last_request: datetime
    requests: int
    passed: int
    complete_size: int | None
    state: str


class SelfTestLine(Out):
    """A self-test of the provider against the specification."""

    self_test_id: int
    base_url: str
    asked_by: str | None
    started: datetime
    ended: datetime | None
    checks: int
    failure: str | None


class FindingOut(Out):
    """The result of one check."""

    id: str
    title: str
    section: str
    severity: str
    result: str
    sent: str
    came: str
    expected: str
    advice: str


class SelfTestOut(SelfTestLine):
    """A self-test with what was found."""

    of: int = Field(CHECK_COUNT, description="Number of checks in a complete self-test.")
    findings: list[FindingOut]


@OPERATIONS.add("GET /archive/indexing", "listIndexRuns", Right.LOOK_AROUND, query=Paged)
async def _index_runs(call: Call) -> Page[IndexRunOut]:
    """List indexing runs, newest first."""
    return await list_page(call, run_statuses, IndexRunOut.model_validate, before=lambda run: run.run_id)


class EntryOut(Out):
    """An archive file or a folder below the configured folders."""

    name: str
    path: str
    is_folder: bool
    size: int
    modified: datetime | None
    known: FileKnown | None = Field(description="What the index knows of a file; null if it is not indexed.")
    reason: str | None
    run_id: int | None


class FolderQuery(In):
    """The folder to list."""

    folder: str = Field(
        min_length=1, max_length=4000, description="Below a folder of `provider.index_roots`."
    )


class FolderOut(Out):
    """A folder of archive files."""

    path: str
    above: str | None
    entries: Sequence[EntryOut]
    more: int = Field(description="Entries that are not listed.")


class IndexBody(In):
    """Files and folders to index."""

    paths: list[str] = Field(min_length=1, max_length=1000, description="Below `provider.index_roots`.")
    collection: str | None = Field(None, max_length=1000, description="setSpec for the new documents.")
    again: bool = Field(default=False, description="Also read files that have not changed.")


class QueuedOut(Out):
    """The indexing run that was queued."""

    run_id: int | None = Field(description="Null if no file is new or changed.")


@OPERATIONS.add(
    "GET /archive/indexing/files", "listArchiveFiles", Right.ARCHIVE, query=FolderQuery, faults={409}
)
async def _list_files(call: Call) -> FolderOut:
    """List archive files and folders below `provider.index_roots`, and what the index knows of them."""
    roots = call.settings.provider.index_roots
    return FolderOut.model_validate(
        await call.database.run(list_folder, roots, call.asked(FolderQuery).folder)
    )


@OPERATIONS.add("POST /archive/indexing", "queueIndexing", Right.ARCHIVE, body=IndexBody, faults={409})
async def _queue(call: Call) -> QueuedOut:
    """Queue archive files for indexing; without `again`, those that are new or changed."""
    asked = call.sent(IndexBody)
    files = await asyncio.to_thread(find_files, call.settings.provider.index_roots, asked.paths)
    number = await call.database.run(queue_found, files, collection=asked.collection, again=asked.again)
    about(call.request, "archive", number or 0, asked.paths[0])
    return QueuedOut(run_id=number)


@OPERATIONS.add(
    "GET /archive/indexing/{index_run}/files",
    "listIndexFiles",
    Right.LOOK_AROUND,
    query=FileQuery,
    faults={409},
)
async def _index_files(call: Call) -> Page[FileOut]:
    """List the files of an indexing run."""
    query, number = call.asked(FileQuery), call.place["index_run"]
    try:
        found = await call.database.run(
            find_run_files,
            number,
            limit=query.limit + 1,
            after=after(call, int, largest=LARGEST_BIGINT) or 0,
            troubled=query.troubled,
        )
    except UsageError:
        raise ApiError(404, _("Indexing run %(number)s does not exist.") % {"number": number}) from None
    return page_of(call, found, FileOut.model_validate, lambda file: file.id)


@OPERATIONS.add("GET /archive/problems", "listIndexProblems", Right.LOOK_AROUND, query=Paged)
async def _troubles(call: Call) -> Page[TroubleOut]:
    """List unreadable locations in archive files, newest first."""
    shown = TroubleOut.model_validate
    return await list_page(call, find_problems, shown, largest=LARGEST_BIGINT, before=lambda one: one.id)


@OPERATIONS.add("GET /archive/harvesters", "listHarvesters", Right.LOOK_AROUND, query=Paged)
async def _harvesters(call: Call) -> Page[HarvesterOut]:
    """List harvesters of the archive, most recently active first."""
    find = partial(harvesters, abandoned_after=abandoned_after(call.request))
    return await list_page(call, find, HarvesterOut.model_validate, kind=_MOMENT_KEY, before=_place)


@OPERATIONS.add(
    "GET /archive/harvesters/{client}/lists", "listHarvestedLists", Right.LOOK_AROUND, query=Paged
)
async def _lists(call: Call) -> Page[HarvestedListOut]:
    """Show a harvester's progress through its lists."""
    client = await client_of(call.request, "client")
    find = partial(harvested_lists, abandoned_after=abandoned_after(call.request), client=client.key)
    return await list_page(call, find, HarvestedListOut.model_validate, kind=_MOMENT_KEY, before=_place)


def _place(row: Harvester | HarvestedList) -> tuple[str, str]:
    return row.last_request.isoformat(), str(row.key)


@OPERATIONS.add("POST /archive/checks", "startSelfTest", Right.ARCHIVE, status=202)
async def _start_check(call: Call) -> SelfTestLine:
    """Start a self-test of the provider against the specification, in the background."""
    who = who_asks(call.request)
    tests = call.request.config_dict[SELF_TESTS]
    row = await tests.start(provider_address(call.settings), asked_by=who.name)
    return SelfTestLine.model_validate(row)


@OPERATIONS.add("GET /archive/checks", "listSelfTests", Right.LOOK_AROUND, query=Paged)
async def _checks(call: Call) -> Page[SelfTestLine]:
    """List self-tests, newest first."""
    shown = SelfTestLine.model_validate
    return await list_page(call, list_self_tests, shown, before=lambda row: row.self_test_id)


@OPERATIONS.add("GET /archive/checks/{check}", "getSelfTest", Right.LOOK_AROUND)
async def _check(call: Call) -> SelfTestOut:
    """Show a self-test with its findings."""
    return SelfTestOut.model_validate(await self_test_of(call.request, call.place["check"]))
