"""An asynchronous OAI-PMH client: the six verbs as coroutines and iterators, with patience for real servers.

It needs no database, no manager and no files::

    async with open_client("https://repository.example/oai") as client:
        async for record in client.records("oai_dc"):
            print(record.header.identifier)
"""

import asyncio
import contextlib
import hashlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from harvester.client import replies
from harvester.client.answers import FormatInfo, Header, Identity, Page, Record, SetInfo
from harvester.client.errors import (
    EndlessListError,
    HttpStatusError,
    MalformedAnswerError,
    OaiError,
    ServerBusyError,
    TransportError,
    TransportKind,
)
from harvester.client.transport import Arguments, HttpReply, Transport, open_transport
from oai.sections import HarvesterSettings
from oai.vocabulary import ErrorCode, Verb

_BUSY = frozenset({429, 503})
_WORTH_ANOTHER_TRY = frozenset({408, 429, 500, 502, 503, 504})
_HOPELESS = frozenset({TransportKind.ADDRESS, TransportKind.REDIRECT, TransportKind.TLS})
_SUCCESS = 200
_FIRST_DELAY = 0.5
_LONGEST_DELAY = 60.0
_MOST_EMPTY_PAGES = 1000


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a list request selects (section 3.5): format, set, and the bounds of the datestamps."""

    metadata_prefix: str = "oai_dc"
    set_spec: str | None = None
    from_: str | None = None
    until: str | None = None

    def arguments(self) -> Arguments:
        """The request's arguments; those that select nothing are left out."""
        pairs = (
            ("metadataPrefix", self.metadata_prefix),
            ("from", self.from_),
            ("until", self.until),
            ("set", self.set_spec),
        )
        return [(name, value) for name, value in pairs if value]


@dataclass(kw_only=True)
class Traffic:
    """What a client has sent and received so far."""

    requests: int = 0
    bytes: int = 0


class Client:
    """A client of one repository.

    `retries` is the number of further tries of a request that failed in a way that may pass; between them
    it waits 0.5, 1, 2, … seconds, by chance up to a half less, or as long as the server's Retry-After says,
    unless that is more than `max_wait` seconds. `on_wait` is told how long and why. `clock` gives seconds
    since 1970, `sleep` waits.
    """

    def __init__(
        self,
        base_url: str,
        transport: Transport,
        *,
        retries: int = 5,
        max_wait: float = 3600,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None,
    ) -> None:
        self.base_url = base_url
        self.traffic = Traffic()
        self._transport = transport
        self._retries = retries
        self._max_wait = max_wait
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._on_wait = on_wait

    async def identify(self) -> Identity:
        """Who the repository is."""
        reply = await self._fetch(Verb.IDENTIFY, [])
        return replies.read_identity(reply.body, url=reply.url)

    async def list_metadata_formats(self, identifier: str | None = None) -> tuple[FormatInfo, ...]:
        """The formats that the repository offers, or those of one item."""
        reply = await self._fetch(
            Verb.LIST_METADATA_FORMATS, [("identifier", identifier)] if identifier else []
        )
        return replies.read_formats(reply.body, url=reply.url)

    async def list_sets(self) -> AsyncIterator[SetInfo]:
        """The repository's sets, page after page; none where it has no set hierarchy."""
        seen: set[str] = set()
        arguments: Arguments = []
        while True:
            try:
                reply = await self._fetch(Verb.LIST_SETS, arguments)
                sets, token = replies.read_sets(reply.body, url=reply.url)
            except OaiError as error:
                if error.code == ErrorCode.NO_SET_HIERARCHY:
                    return
                raise
            for found in sets:
                yield found
            if token is None or not token.value:
                return
            if token.value in seen:
                raise EndlessListError(reply.url, f"the resumptionToken {token.value!r} came a second time")
            seen.add(token.value)
            arguments = [("resumptionToken", token.value)]

    async def get_record(self, identifier: str, metadata_prefix: str = "oai_dc") -> Record:
        """One record. A deleted one comes as a header alone."""
        arguments = [("identifier", identifier), ("metadataPrefix", metadata_prefix)]
        page = await self._page(Verb.GET_RECORD, arguments, loose=False)
        if len(page.records) != 1:
            raise MalformedAnswerError(page.url, f"{len(page.records)} records in answer to GetRecord")
        return page.records[0]

    async def records(
        self, metadata_prefix: str = "oai_dc", **selection: str | None
    ) -> AsyncIterator[Record]:
        """All records that the selection names (`set_spec`, `from_`, `until`); broken pages raise."""
        chosen = Selection(metadata_prefix=metadata_prefix, **selection)
        async for page in self.pages(Verb.LIST_RECORDS, chosen):
            for record in page.records:
                yield record

    async def headers(
        self, metadata_prefix: str = "oai_dc", **selection: str | None
    ) -> AsyncIterator[Header]:
        """All headers that the selection names; broken pages raise."""
        chosen = Selection(metadata_prefix=metadata_prefix, **selection)
        async for page in self.pages(Verb.LIST_IDENTIFIERS, chosen):
            for header in page.headers:
                yield header

    async def pages(
        self, verb: Verb, selection: Selection, *, resumption_token: str = "", loose: bool = False
    ) -> AsyncIterator[Page]:
        """The pages of a ListRecords or ListIdentifiers, from the token on where one is given.

        A page that is broken is asked for once more; then it raises, or, with `loose`, comes with what could
        be read and with its faults. A page that breaks off before the list's end is the last one.
        Raises EndlessListError where the list goes in circles, or 1,000 pages in a row are empty.
        """
        circles = _Circles()
        arguments = [("resumptionToken", resumption_token)] if resumption_token else selection.arguments()
        while True:
            page = await self._page(verb, arguments, loose=loose)
            circles.check(page)
            yield page
            if not page.next_token or page.cut_off:
                return
            arguments = [("resumptionToken", page.next_token)]

    async def _page(self, verb: Verb, arguments: Arguments, *, loose: bool) -> Page:
        reply = await self._fetch(verb, arguments)
        try:
            return await asyncio.to_thread(replies.read_page, reply.body, verb, url=reply.url)
        except MalformedAnswerError:
            # What broke may have broken on the way.
            reply = await self._fetch(verb, arguments)
        return await asyncio.to_thread(replies.read_page, reply.body, verb, url=reply.url, loose=loose)

    async def _fetch(self, verb: Verb, arguments: Arguments) -> HttpReply:
        """Send a request until it succeeds or further tries are in vain."""
        request = [("verb", verb.value), *arguments]
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                reply = await self._send(request)
            except TransportError as error:
                if last or error.kind in _HOPELESS:
                    raise
                await self._wait(self._delay(attempt), str(error))
                continue
            if reply.status == _SUCCESS or _is_answer(reply):
                return reply
            await self._wait(self._delay_after(reply, attempt, last=last), f"HTTP status {reply.status}")
        raise AssertionError("unreachable: the last try returns or raises")

    async def _send(self, request: Arguments) -> HttpReply:
        self.traffic.requests += 1
        reply = await self._transport(self.base_url, request)
        self.traffic.bytes += len(reply.body)
        return reply

    async def _wait(self, seconds: float, reason: str) -> None:
        self._on_wait(seconds, reason)
        await self._sleep(seconds)

    def _delay(self, attempt: int) -> float:
        return min(_FIRST_DELAY * 2.0**attempt, _LONGEST_DELAY) * (1 - self._chance() / 2)

    def _delay_after(self, reply: HttpReply, attempt: int, *, last: bool) -> float:
        """Seconds to wait after a status that is no success, or its error."""
        if reply.status not in _WORTH_ANOTHER_TRY:
            raise HttpStatusError(reply.url, reply.status)
        asked = retry_after(reply.headers.get("Retry-After"), self._clock())
        if reply.status in _BUSY and (last or (asked is not None and asked > self._max_wait)):
            raise ServerBusyError(reply.url, reply.status, asked)
        if last:
            raise HttpStatusError(reply.url, reply.status, f"after {attempt + 1} tries")
        return self._delay(attempt) if asked is None else asked


@contextlib.asynccontextmanager
async def open_client(
    base_url: str,
    settings: HarvesterSettings | None = None,
    *,
    retries: int | None = None,
    on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None,
) -> AsyncIterator[Client]:
    """A client with an HTTP session of its own, closed at the end of the block."""
    chosen = settings or HarvesterSettings()
    async with open_transport(chosen) as transport:
        yield Client(
            base_url,
            transport,
            retries=chosen.retries if retries is None else retries,
            max_wait=chosen.max_wait,
            on_wait=on_wait,
        )


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks to wait, written as seconds or as a date (RFC 9110, 10.2.3)."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - datetime.fromtimestamp(now, UTC)).total_seconds(), 0.0)


def _is_answer(reply: HttpReply) -> bool:
    """Whether an answer with an error status is OAI-PMH all the same; a busy server's never is."""
    return reply.status not in _WORTH_ANOTHER_TRY and replies.looks_like_oai_pmh(reply.body)


class _Circles:
    """Notices a list that goes in circles.

    A token that comes again is no proof, for some servers use one token for a whole list; a token that comes
    again with the same records is.
    """

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._empty = 0

    def check(self, page: Page) -> None:
        self._empty = 0 if page.headers else self._empty + 1
        if self._empty > _MOST_EMPTY_PAGES:
            raise EndlessListError(page.url, f"{self._empty:,} empty pages in a row, each with a token")
        if not page.next_token:
            return
        names = "\n".join(header.identifier for header in page.headers)
        mark = hashlib.sha256(f"{page.next_token}\n{names}".encode()).digest()[:16]
        if mark in self._seen:
            raise EndlessListError(
                page.url,
                f"the list goes in circles: the resumptionToken {page.next_token!r} came a second time",
            )
        self._seen.add(mark)
