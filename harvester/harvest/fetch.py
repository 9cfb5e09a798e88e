"""Fetching the records of a list, page by page, by either method (UIUC, `harvestMethod`)."""

import asyncio
import contextlib
import math
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple
from xml.sax.saxutils import unescape

from harvester.client.protocol_client import ProtocolClient
from harvester.client.repository_client import Selection
from harvester.harvest.page_reader_process import PageOfDocuments, RecordDocument
from harvester.harvest.seen_identifiers import Known
from harvester.harvest.transform import Entry, RecordBatch, Refusal
from harvester.harvest.verdict import End
from harvester.reading.answers import Fault, Header, Page
from harvester.reading.errors import (
    AnswerTooLargeError,
    ClientError,
    HttpStatusError,
    MalformedAnswerError,
    NotOaiPmhError,
    OaiError,
    TransportError,
    TransportKind,
)
from oai.errors import failure_of
from oai.failures import Failure, FailureCode
from oai.vocabulary import Verb

_AT_ONCE = 4
_MOST_NAMES = 20
_NAME_IN_HEADER = re.compile(
    rb"<(?:[\w.-]+:)?header(?=[\s>])[^<>]*+>[^<]*+<(?:[\w.-]+:)?identifier>([^<]*+)</"
)
_LONGEST_NAME = 2000
_OF_THE_WAY = frozenset({TransportKind.TIMEOUT, TransportKind.DISCONNECTED, TransportKind.HTTP})
_PAGE_BYTES = 16 * 1024
"""Bytes that a page counts for besides its records, so that empty pages reach the limit, too."""


class FaultStart(NamedTuple):
    """Where work around a fault begins."""

    seconds: float
    resent: int


_NO_FAULT = FaultStart(0, 0)


@dataclass(kw_only=True)
class RequestBudget:
    """How many requests a run may spend on isolating a faulty answer, and how long it may work around it.

    Both limits are per process: a resumed run gets them again, or it could never get past its fault. Waits
    between retries, which repositories ask for, do not count. `clock` returns monotonic seconds. For use in
    one thread only.
    """

    left: int
    spent: int = 0
    seconds: float = math.inf
    clock: Callable[[], float] = time.monotonic
    resent: Callable[[], int] = lambda: 0
    """Returns how many requests the run has sent again because an answer broke the rules of HTTP."""
    _worked: float = 0
    _under_way: int = 0
    _since: FaultStart = _NO_FAULT
    _waits_until: float = -math.inf
    _waited: float = 0

    def spend(self) -> bool:
        """Count one more request; return whether it is allowed."""
        if self.left <= 0 or self.is_late:
            return False
        self.left -= 1
        self.spent += 1
        return True

    @property
    def is_late(self) -> bool:
        """Whether the time is used up."""
        under_way = max(self._now() - self._since.seconds, 0) if self._under_way else 0
        return self._worked + under_way >= self.seconds

    def begin(self) -> FaultStart:
        """Return what `count_since` counts from."""
        return FaultStart(self._now(), self.resent())

    def count_since(self, begun: FaultStart) -> None:
        """Count the time since `begun`, and what was sent again since, as spent on a fault."""
        self._worked += max(self._now() - begun.seconds, 0)
        again = self.resent() - begun.resent
        self.spent += again
        self.left = max(self.left - again, 0)

    def _now(self) -> float:
        """Return the clock's time, less all waits."""
        return self.clock() - self._waited

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Count the block's time and what it sends again; overlapping blocks count once."""
        if not self._under_way:
            self._since = self.begin()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self.count_since(self._since)

    def note_wait(self, seconds: float) -> None:
        """Exclude a wait that begins now from the counted time; overlapping waits count once."""
        now = self.clock()
        until = now + seconds
        self._waited += max(until - max(now, self._waits_until), 0)
        self._waits_until = max(until, self._waits_until)


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A page with its records."""

    page: Page
    entries: Sequence[Entry]
    refused: Sequence[Refusal] = ()
    """The records that are not among the entries, and why."""
    mended: Sequence[Header] = ()
    """Entries that were fetched one by one, because their parts of the page could not be read."""
    sample_full: bool = False
    gave_up: bool = False
    """Fetching the remaining records of the page would have taken more requests than allowed."""

    @property
    def is_raw(self) -> bool:
        """Whether the page has no parsed elements, which are large."""
        return isinstance(self.page, PageOfDocuments)

    def bare(self) -> "Fetched":
        """Return the page without its parsed elements, which are large and no longer needed."""
        if self.is_raw:
            return self
        page = replace(self.page, records=())
        return replace(self, page=page, entries=[(header, None) for header, _ in self.entries])


@dataclass(frozen=True, kw_only=True)
class PageFetcher:
    """How the records of one list are fetched."""

    client: ProtocolClient
    no_retry_client: ProtocolClient
    """A client of the same repository with few retries, for requests of which many fail."""
    metadata_prefix: str
    verb: Verb
    loose: bool
    budget: RequestBudget
    around_fault: bool = False
    """The list, or a longer one, broke before: time spent waiting in vain counts as work around a fault."""
    one_by_one: bool = False
    """Fetch each record by itself, because a page cannot be read; these requests are counted."""
    skip: Known = field(default_factory=Known)
    """Identifiers of records that have already been received."""
    most: int | None = None
    """Maximum number of records of a sample."""

    async def pages(self, selection: Selection, *, resumption_token: str) -> AsyncIterator[Fetched]:
        """Yield the list's pages with their records."""
        client = self.no_retry_client if self.one_by_one else self.client
        verb = Verb.LIST_IDENTIFIERS if self.one_by_one else self.verb
        left = self.most
        pages = client.pages(verb, selection, resumption_token=resumption_token, loose=self.loose)
        while (page := await self._next(pages)) is not None:
            fetched = await self._fetched(page, verb, left)
            yield fetched
            if left is not None:
                left -= len(fetched.entries)
            if fetched.sample_full or fetched.gave_up:
                return

    async def _next(self, pages: AsyncIterator[Page]) -> Page | None:
        """Return the next page, or None after the last one."""
        begun = self.budget.begin()
        try:
            page = await anext(pages, None)
        except ClientError:
            self._spend_on_fault(begun)
            raise
        if page is not None and page.cut_off:
            self._spend_on_fault(begun)
        return page

    def _spend_on_fault(self, begun: FaultStart) -> None:
        if self.around_fault:
            self.budget.count_since(begun)

    async def _fetched(self, page: Page, verb: Verb, left: int | None) -> Fetched:
        refused: list[Refusal] = []
        mended: list[Entry] = []
        notes: list[str] = []
        # Broken parts of a truncated page are fetched again together with its missing part.
        if page.faults and not (page.cut_off and self.budget.left):
            refused, mended = await self._mend(page, notes)
        entries: list[Entry]
        gave_up = False
        if verb is Verb.LIST_RECORDS:
            entries = _entries(page)[:left]
        else:
            wanted = [header for header in page.headers[:left] if header.identifier not in self.skip]
            entries, missing, gave_up = await self._each(wanted, notes)
            refused += missing
        entries += mended
        return Fetched(
            page=replace(page, notes=(*page.notes, *dict.fromkeys(notes))) if notes else page,
            entries=entries,
            refused=refused,
            mended=[header for header, _ in mended],
            sample_full=left is not None and len(entries) >= left,
            gave_up=gave_up,
        )

    async def _mend(self, page: Page, notes: list[str]) -> tuple[list[Refusal], list[Entry]]:
        """Fetch the records that broken parts of a page name, each by itself."""
        refused: list[Refusal] = []
        mended: list[Entry] = []
        for fault in page.faults:
            names = list(dict.fromkeys(names_in(fault.raw)))[:_MOST_NAMES]
            # A record that is too large within a page is also too large by itself.
            all_refused = page.cut_off or fault.failure.is_limit
            results = [] if all_refused else [await self._try(name, notes) for name in names]
            entries = [result for result in results if isinstance(result, tuple)]
            mended += entries
            if not results or len(entries) < len(results):
                refused.append(_refusal(page, fault, names))
        return refused, mended

    async def _try(self, identifier: str, notes: list[str]) -> Entry | Refusal | None:
        if not self.budget.spend():
            return None
        with self.budget.working():
            return await self._one(identifier, self.no_retry_client, notes)

    async def _each(
        self, headers: Sequence[Header], notes: list[str]
    ) -> tuple[list[Entry], list[Refusal], bool]:
        """Fetch the records of the headers, a few at a time; deleted ones need no request."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def fetch(header: Header) -> Entry | Refusal | None:
            if header.deleted:
                return header, None
            async with limit:
                if self.one_by_one:
                    return await self._try(header.identifier, notes)
                return await self._one(header.identifier, self.client, notes)

        try:
            # The tasks share `notes` and the budget; both change only between awaits, on one event loop, so
            # no lock.
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(fetch(header)) for header in headers]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        results = [task.result() for task in tasks]
        return (
            [result for result in results if isinstance(result, tuple)],
            [result for result in results if isinstance(result, Refusal)],
            None in results,
        )

    async def _one(self, identifier: str, client: ProtocolClient, notes: list[str]) -> Entry | Refusal:
        """Return the record, or why it is not available; add oddities of its answer to the notes."""
        try:
            record = await client.get_record(identifier, self.metadata_prefix, loose=self.loose)
        except OaiError as error:
            failure = failure_of(error)
            return Refusal(reason=str(error), url=error.url, identifier=identifier, failure=failure)
        except ClientError as error:
            if not self.loose or not is_of_the_answer(error):
                raise
            await check_alive(self.no_retry_client, error)
            url, raw = where(error)
            failure = failure_of(error)
            return Refusal(reason=str(error), url=url, identifier=identifier, raw=raw, failure=failure)
        if record.header.identifier != identifier:
            reason = f"the answer has the record {record.header.identifier!r}"
            facts = {"found": record.header.identifier}
            failure = Failure(code=FailureCode.RECORD_MISMATCH, facts=facts)
            return Refusal(reason=reason, url=client.base_url, identifier=identifier, failure=failure)
        notes += record.notes
        return record.header, record.element


def _entries(page: Page) -> list[Entry]:
    if isinstance(page, PageOfDocuments):
        return [(header, RecordDocument(page.documents, place)) for place, header in enumerate(page.headers)]
    return [(record.header, record.element) for record in page.records]


def is_of_the_answer(error: Exception) -> bool:
    """Return whether a single record may have caused the error, rather than the server or the network."""
    if isinstance(error, TransportError):
        return error.kind in _OF_THE_WAY
    return isinstance(error, (AnswerTooLargeError, HttpStatusError, MalformedAnswerError, NotOaiPmhError))


async def check_alive(client: ProtocolClient, error: ClientError) -> None:
    """Raise the error again if the repository answers neither Identify nor ListMetadataFormats."""
    # Some repositories serve lists, but answer Identify with broken XML.
    for ask in (partial(client.identify, loose=True), client.list_metadata_formats):
        with contextlib.suppress(ClientError):
            await ask()
            return
    raise error


def where(error: ClientError) -> tuple[str, bytes]:
    """Return the failed request's URL and the bytes received, as far as the error has them."""
    raw = getattr(error, "raw", b"") or getattr(error, "found", b"")
    return getattr(error, "url", ""), raw


def names_in(raw: bytes) -> Iterator[str]:
    """Yield the identifiers in the headers of broken records: worth requesting, but not trusted."""
    for match in _NAME_IN_HEADER.finditer(raw):
        name = match.group(1).strip()
        if 0 < len(name) <= _LONGEST_NAME:
            yield unescape(name.decode("utf-8", errors="replace"))


def _refusal(page: Page, fault: Fault, names: Sequence[str]) -> Refusal:
    return Refusal(
        reason=fault.reason,
        url=page.url,
        identifier=names[0] if names else None,
        offset=fault.offset if fault.offset >= 0 else None,
        raw=fault.raw,
        size=fault.size,
        failure=fault.failure,
    )


@dataclass(frozen=True, kw_only=True)
class PreparedPage:
    """A page as fetched, and as prepared for the store."""

    fetched: Fetched
    batch: RecordBatch

    @cached_property
    def weight(self) -> int:
        """Approximate number of bytes of memory that the page takes."""
        return _PAGE_BYTES + sum(len(data) for _, _, data, _ in self.batch.records if data is not None)

    @property
    def end(self) -> End | None:
        """How the list ended with this page, or None if it continues."""
        page = self.fetched.page
        if self.fetched.gave_up:
            return End.GAVE_UP
        if self.fetched.sample_full:
            return End.SAMPLE
        if page.cut_off:
            return End.BROKEN_OFF
        if page.rest is not None:
            return None
        if page.token is None:
            return End.NO_TOKEN
        return None if page.next_token else End.EMPTY_TOKEN

    @property
    def refused(self) -> Sequence[Refusal]:
        """What is not stored because it could not be read, or the rules could not decide on it."""
        return [*self.fetched.refused, *self.batch.refused]

    def counts(self) -> Counter[str]:
        """Return the counts that are known before the page is stored."""
        return Counter(
            pages=int(self.fetched.page.rest is None),
            records=len(self.fetched.entries) - len(self.batch.refused),
            filtered=self.batch.filtered,
            invalid=len(self.refused),
            schema_checked=self.batch.sample.checked,
            schema_invalid=self.batch.sample.invalid,
            undated=sum([header.undated for header, _ in self.fetched.entries]),
        )
