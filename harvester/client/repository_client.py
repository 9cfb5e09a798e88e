"""An asynchronous OAI-PMH client: the six verbs as coroutines and iterators, robust with real servers.

It needs no database, no manager and no files::

    async with open_client("https://repository.example/oai") as client:
        async for record in client.records("oai_dc"):
            print(record.header.identifier)
"""

import asyncio
import contextlib
import copy
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar, Unpack

import aiohttp

from harvester.client.exchange import Method
from harvester.client.listing import Listing, PrefetchedAnswers
from harvester.client.loops import ListLimits, LoopDetector, list_limits
from harvester.client.politeness import Politeness
from harvester.client.retries import Retrying, RetryOptions, retry_options
from harvester.client.selection import Bound, Selection, as_datestamp
from harvester.client.transport import Arguments, HttpReply, Transport, check_http_url, open_transport
from harvester.reading import facts, replies
from harvester.reading.answers import FormatInfo, FormatPage, Header, Identity, Page, Record, SetInfo, SetPage
from harvester.reading.errors import (
    AnswerTooLargeError,
    MalformedAnswerError,
    NoMetadataFormatsError,
    NoRecordsMatchError,
    NoSetHierarchyError,
    NotOaiPmhError,
)
from harvester.reading.repairs import Repair
from oai.failures import FailureCode
from oai.limits import DEFAULT_LIMITS, AnswerLimits
from oai.reach import without_credentials
from oai.sections import HarvesterSettings
from oai.vocabulary import Verb

__all__ = ["Client", "Selection", "Traffic", "open_client"]

ReadPage = Callable[[replies.Unread, replies.OnToken], Awaitable[Page]]
"""Reads an answer; raises as `replies.read_page` does. It may report the token before it returns."""

_KEPT_BYTES = 1_000_000
"""Bytes of an unreadable answer that are kept for diagnosis."""
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


@dataclass(kw_only=True)
class Traffic:
    """What a client has sent and received so far; the bytes are those of the decompressed answers.

    Only the event loop adds to it; other threads may read single figures.
    """

    requests: int = 0
    resent: int = 0
    """Those of the requests that were sent again because the first answer broke the rules of HTTP."""
    bytes: int = 0
    public: bool = False
    """Whether an answer came from the public internet; it is then not trusted with private addresses."""
    moved: str = ""
    """Where the base URL redirected permanently at the last request; empty if it did not."""

    def note(self, reply: HttpReply) -> None:
        """Count an answer."""
        self.bytes += len(reply.content)
        self.public |= reply.public
        self.moved = reply.moved

    def resend(self) -> None:
        """Count a request that is sent again."""
        self.requests += 1
        self.resent += 1


class Client:
    """A client of one repository; usually made by `open_client`.

    Requests go to `address`; `base_url`, for messages and reports, is without its credentials.
    The transport is any function that sends arguments to a base URL, `read_page` any function that reads
    pages; the default reads them in threads. `limits` apply to each answer, `lists` says when a list counts
    as endless, and `repairs` what is repaired in broken records; `traffic` is where the transport counts what
    it sends again. For the other arguments see `Retrying`. Each
    method raises ClientError or TryLaterError (the tree: `reading/errors.py`).
    """

    def __init__(
        self,
        base_url: str,
        transport: Transport,
        *,
        read_page: ReadPage | None = None,
        limits: AnswerLimits = DEFAULT_LIMITS,
        lists: ListLimits | None = None,
        repairs: tuple[Repair, ...] = (),
        traffic: Traffic | None = None,
        **retry_options: Unpack[RetryOptions],
    ) -> None:
        self.base_url = without_credentials(base_url)
        self.address = base_url
        self._lists = lists or ListLimits()
        self._read_page = read_page or _read_in_thread
        self._limits = limits
        self._repairs = repairs
        self.traffic = traffic or Traffic()
        self._transport = transport
        self._retrying = Retrying(**retry_options)

    def with_retries(self, retries: int) -> "Client":
        """Return a client of the same repository with other retries; both share their traffic counts."""
        other = copy.copy(self)
        other._retrying = replace(self._retrying, retries=retries)  # noqa: SLF001 our own
        return other

    async def identify(self, *, loose: bool = False) -> Identity:
        """Return the repository's identity (section 4.2); with `loose`, also if the answer is irregular."""
        return await self._read(Verb.IDENTIFY, [], partial(facts.read_identity, loose=loose))

    async def get_record(
        self, identifier: str, metadata_prefix: str = "oai_dc", *, loose: bool = False
    ) -> Record:
        """Return one record (section 4.1). A deleted record consists of a header only.

        With `loose`, an answer that is broken around the record is accepted.
        """
        arguments = [("identifier", identifier), ("metadataPrefix", metadata_prefix)]
        async with contextlib.aclosing(self._prefetched(Verb.GET_RECORD, loose=loose)) as prefetched:
            page = await self._page(Verb.GET_RECORD, arguments, prefetched, loose=loose)
        if not page.records and page.faults:
            raise MalformedAnswerError(page.url, page.faults[0].reason)
        if len(page.records) != 1:
            raise MalformedAnswerError(page.url, f"the answer to GetRecord has {len(page.records)} records")
        alone = page.records[0]
        return replace(alone, notes=page.notes) if page.notes else alone

    def records(
        self,
        metadata_prefix: str = "oai_dc",
        *,
        set_spec: str | None = None,
        from_: Bound = None,
        until: Bound = None,
        resumption_token: str = "",
        loose: bool = False,
    ) -> Listing[Page, Record]:
        """Return the selected records (section 4.5), or those from the token on; empty if none match.

        A broken page raises an error; with `loose`, it yields what can be read, and `progress.faults` counts
        the rest.
        """
        chosen = _selection(metadata_prefix, set_spec, from_, until)
        pages = self._matching(Verb.LIST_RECORDS, chosen, resumption_token, loose=loose)
        return Listing(pages, lambda page: page.records)

    def headers(
        self,
        metadata_prefix: str = "oai_dc",
        *,
        set_spec: str | None = None,
        from_: Bound = None,
        until: Bound = None,
        resumption_token: str = "",
        loose: bool = False,
    ) -> Listing[Page, Header]:
        """Return the headers of the selected records (section 4.3); otherwise as `records`."""
        chosen = _selection(metadata_prefix, set_spec, from_, until)
        pages = self._matching(Verb.LIST_IDENTIFIERS, chosen, resumption_token, loose=loose)
        return Listing(pages, lambda page: page.headers)

    def list_sets(self, *, loose: bool = False) -> Listing[SetPage, SetInfo]:
        """Return the repository's sets (section 4.6); empty if it has no set hierarchy."""
        return Listing(self._set_pages(loose=loose), lambda page: page.sets)

    def formats(
        self, identifier: str | None = None, *, loose: bool = False
    ) -> Listing[FormatPage, FormatInfo]:
        """Return the formats that the repository offers, or those of one item (section 4.4)."""
        return Listing(self._format_pages(identifier, loose=loose), lambda page: page.formats)

    async def list_metadata_formats(
        self, identifier: str | None = None, *, loose: bool = False
    ) -> tuple[FormatInfo, ...]:
        """Return the formats that the repository offers, or those of one item, as a tuple."""
        return tuple([found async for found in self.formats(identifier, loose=loose)])

    async def pages(
        self, verb: Verb, selection: Selection, *, resumption_token: str = "", loose: bool = False
    ) -> AsyncIterator[Page]:
        """Yield the pages of a ListRecords or ListIdentifiers, from the token on if one is given.

        A broken page is requested a second time. If it is still broken, it raises an error; with `loose`, it
        is returned with its readable parts and its faults. A page truncated before the end of the list is the
        last one. Raises EndlessListError if the list is circular, or if too many consecutive pages have no
        records or only repeated ones, and NoRecordsMatchError if nothing is selected.
        """
        detector = LoopDetector(self._lists)
        arguments = [("resumptionToken", resumption_token)] if resumption_token else selection.arguments()
        async with contextlib.aclosing(self._prefetched(verb, loose=loose)) as prefetched:
            while True:
                page = await self._page(verb, arguments, prefetched, loose=loose)
                while page.rest is not None:  # an answer so large that it is read in parts
                    yield page
                    page = await page.rest()
                detector.look_at(page)
                yield page
                if not page.next_token or page.cut_off:
                    return
                arguments = [("resumptionToken", page.next_token)]

    async def _matching(
        self, verb: Verb, selection: Selection, resumption_token: str, *, loose: bool
    ) -> AsyncIterator[Page]:
        """Yield the pages; if nothing is selected, one without records, because it has the responseDate."""
        begun = bool(resumption_token)
        try:
            async for page in self.pages(verb, selection, resumption_token=resumption_token, loose=loose):
                begun = True
                yield page
        except NoRecordsMatchError as error:
            if begun:
                raise
            yield Page(url=error.url, response_date=error.response_date)

    async def _set_pages(self, *, loose: bool) -> AsyncIterator[SetPage]:
        detector = LoopDetector(self._lists)
        arguments: Arguments = []
        while True:
            try:
                page = await self._read(Verb.LIST_SETS, arguments, partial(facts.read_sets, loose=loose))
            except NoSetHierarchyError as error:
                if arguments:
                    raise
                page = SetPage(url=error.url, response_date=error.response_date)
            detector.check(page.url, page.token, [found.set_spec for found in page.sets])
            yield page
            if page.token is None or not page.token.value:
                return
            arguments = [("resumptionToken", page.token.value)]

    async def _format_pages(self, identifier: str | None, *, loose: bool) -> AsyncIterator[FormatPage]:
        arguments = [("identifier", identifier)] if identifier else []
        read = partial(facts.read_formats, loose=loose)
        try:
            yield await self._read(Verb.LIST_METADATA_FORMATS, arguments, read)
        except NoMetadataFormatsError as error:
            yield FormatPage(url=error.url, response_date=error.response_date)

    def _prefetched(self, verb: Verb, *, loose: bool) -> PrefetchedAnswers:
        return PrefetchedAnswers(partial(self._fetch, verb, loose=loose))

    async def _page(
        self, verb: Verb, arguments: Arguments, prefetched: PrefetchedAnswers, *, loose: bool
    ) -> Page:
        for again in (False, True):
            reply = await prefetched.answer(arguments)
            unread = replies.Unread(
                reply.content,
                verb,
                reply.url,
                reply.content_type,
                loose,
                self._limits,
                reply.date,
                self._repairs,
            )
            try:
                page = await self._read_page(unread, prefetched.ask)
            except (MalformedAnswerError, NotOaiPmhError) as error:
                error.raw = reply.content[:_KEPT_BYTES]
                if again or prefetched.asked:
                    raise
                continue  # the transfer may have caused the fault
            # A truncated answer has already been requested repeatedly.
            if again or prefetched.asked or reply.cut is not None or not (page.faults or page.cut_off):
                return page
        raise AssertionError("unreachable: the last pass returns or raises")

    async def _read(self, verb: Verb, arguments: Arguments, read: "_Read[_T]") -> _T:
        """Return an answer of one page; request it a second time if it is broken."""
        reply = await self._fetch(verb, arguments)
        try:
            return await asyncio.to_thread(self._parsed, read, reply)
        except (MalformedAnswerError, NotOaiPmhError):
            reply = await self._fetch(verb, arguments)
        return await asyncio.to_thread(self._parsed, read, reply)

    def _parsed(self, read: "_Read[_T]", reply: HttpReply) -> _T:
        most = self._limits.part_bytes
        if len(reply.content) > most:
            raise AnswerTooLargeError(reply.url, self._limits.failure(FailureCode.PART_BYTES, most, offset=0))
        body = reply.content[:]
        return read(body, url=reply.url, content_type=reply.content_type, limits=self._limits)

    async def _fetch(self, verb: Verb, arguments: Arguments, *, loose: bool = False) -> HttpReply:
        """Send a request until it succeeds or further attempts are pointless."""
        request = [("verb", verb.value), *arguments]
        return await self._retrying.fetch(lambda: self._send(request), loose=loose)

    async def _send(self, request: Arguments) -> HttpReply:
        self.traffic.requests += 1
        reply = await self._transport(self.address, request)
        self.traffic.note(reply)
        return reply


async def _read_in_thread(unread: replies.Unread, _on_token: replies.OnToken) -> Page:
    if isinstance(unread.body, bytes):
        return await asyncio.to_thread(unread.read)
    parts = (await asyncio.to_thread(unread.split)).parts

    async def following() -> Page:
        part = await asyncio.to_thread(next, parts)
        page = await asyncio.to_thread(unread.of(part).read)
        return replies.with_rest(page, part, following)

    return await following()


class _Read(Protocol[_T_co]):
    """A function that reads answers."""

    def __call__(self, body: bytes, *, url: str, content_type: str, limits: AnswerLimits) -> _T_co: ...


@contextlib.asynccontextmanager
async def open_client(
    base_url: str,
    settings: HarvesterSettings | None = None,
    *,
    session: aiohttp.ClientSession | None = None,
    method: Method = "GET",
    retries: int | None = None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None,
) -> AsyncIterator[Client]:
    """Provide a client over the given HTTP session, or over its own, closed at the end of the block.

    `settings` has the limits, retries and politeness; `retries` overrides it. `clock` returns seconds since
    1970, `sleep` waits: between attempts, and between requests to a host. Raises UsageError if the base URL
    is not one of HTTP.
    """
    check_http_url(base_url)
    chosen = settings or HarvesterSettings()
    politeness = Politeness(per_host=chosen.per_host, delay=chosen.delay, sleep=sleep)
    traffic = Traffic()
    opened = open_transport(
        chosen, session=session, method=method, politeness=politeness, spool=True, on_resend=traffic.resend
    )
    async with opened as transport:
        yield Client(
            base_url,
            transport,
            limits=chosen.limits,
            lists=list_limits(chosen),
            traffic=traffic,
            **retry_options(chosen, retries=retries, clock=clock, sleep=sleep, on_wait=on_wait),
        )


def _selection(metadata_prefix: str, set_spec: str | None, from_: Bound, until: Bound) -> Selection:
    return Selection(
        metadata_prefix=metadata_prefix,
        set_spec=set_spec,
        from_=as_datestamp(from_),
        until=as_datestamp(until),
    )
