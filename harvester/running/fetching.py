"""The records of a harvest, page by page, by either method (UIUC, `harvestMethod`)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from harvester.client.answers import Header, Page
from harvester.client.errors import MalformedAnswerError, OaiError
from harvester.client.repository_client import Client, Selection
from harvester.running.parameters import HarvestRequest, Method
from harvester.running.preparing import Entry, Level
from oai.vocabulary import Verb

_AT_ONCE = 4


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A page with its records; `refused` says why others are not among them."""

    page: Page
    entries: Sequence[Entry]
    refused: Sequence[str]
    sample_full: bool = False


async def fetched_pages(
    client: Client, request: HarvestRequest, selection: Selection, *, resumption_token: str, already: int
) -> AsyncIterator[Fetched]:
    """The list's pages with their records, up to the request's `max_records`, of which `already` are here."""
    verb = Verb.LIST_RECORDS if request.method is Method.RECORDS else Verb.LIST_IDENTIFIERS
    loose = request.validation is Level.LOOSE
    async for page in client.pages(verb, selection, resumption_token=resumption_token, loose=loose):
        left = None if request.max_records is None else request.max_records - already
        refused = [_fault_words(page, index) for index in range(len(page.faults))]
        entries: list[Entry]
        if request.method is Method.RECORDS:
            entries = [(record.header, record.element) for record in page.records[:left]]
        else:
            entries, missing = await _each(client, request, page.headers[:left])
            refused += missing
        already += len(entries)
        full = request.max_records is not None and already >= request.max_records
        yield Fetched(page=page, entries=entries, refused=refused, sample_full=full)
        if full:
            return


async def _each(
    client: Client, request: HarvestRequest, headers: Sequence[Header]
) -> tuple[list[Entry], list[str]]:
    """Fetch the records that the headers name, a few at a time; deletions need no fetching."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def fetch(header: Header) -> Entry | str:
        if header.deleted:
            return header, None
        async with limit:
            return await _one(client, request, header)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(fetch(header)) for header in headers]
    results = [task.result() for task in tasks]
    entries = [result for result in results if not isinstance(result, str)]
    return entries, [result for result in results if isinstance(result, str)]


async def _one(client: Client, request: HarvestRequest, header: Header) -> Entry | str:
    try:
        record = await client.get_record(header.identifier, request.metadata_prefix)
    except OaiError as error:
        return f"record {header.identifier!r}: {error}"
    except MalformedAnswerError as error:
        if request.validation is not Level.LOOSE:
            raise
        return f"record {header.identifier!r}: {error}"
    if record.header.identifier != header.identifier:
        return f"record {header.identifier!r}: the answer was {record.header.identifier!r}"
    return record.header, record.element


def _fault_words(page: Page, index: int) -> str:
    fault = page.faults[index]
    where = f", byte {fault.offset:,}" if fault.offset >= 0 else ""
    return f"{page.url}{where}: {fault.reason}"
