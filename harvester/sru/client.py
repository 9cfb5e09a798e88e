"""An asynchronous SRU client that delivers a result as OAI-PMH delivers a list of records."""

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self, TypeVar, Unpack
from urllib.parse import urlsplit

from harvester.client.loops import ListLimits, LoopDetector
from harvester.client.query_results import (
    QueryClient,
    QueryCursor,
    no_records_match,
    page_of,
    read_place,
    wrapped,
)
from harvester.client.repository_client import Traffic
from harvester.client.retries import Retrying, RetryOptions
from harvester.client.selection import Selection
from harvester.client.transport import Arguments, HttpReply, Transport
from harvester.reading.answers import Fault, FormatInfo, Identity, Page
from harvester.reading.errors import (
    AnswerTooLargeError,
    ClientError,
    HttpStatusError,
    MalformedAnswerError,
    OaiError,
    TransportError,
    TransportKind,
)
from harvester.sru.answers import (
    VERSION_DIAGNOSTICS,
    Explanation,
    NotSruError,
    SruFormatError,
    SruResult,
    as_oai_dc,
    choose_schema,
    read_explanation,
    read_result,
)
from harvester.sru.steps import Step, announces_more, next_step
from oai.errors import UsageError, failure_of
from oai.reach import without_credentials
from oai.vocabulary import Verb

EVERYTHING: Final = "cql.allRecords=1"
"""The query for all records (CQL context set 1.2)."""
_AT_ONCE: Final = 100
_VERSIONS: Final = ("1.2", "1.1", "2.0")
_RETRIES_WHILE_SEARCHING: Final = 1
_T = TypeVar("_T")


_MOST_UNREADABLE: Final = 20
_SERVER_ERROR: Final = 500
_BEYOND_LIMIT: Final = "diagnostic 61"
_OUT_OF_RANGE: Final = frozenset({"diagnostic 6", _BEYOND_LIMIT})
"""How servers reject a position: unsupported parameter value, first record position out of range."""
_OUT_OF_RANGE_STATUSES: Final = frozenset({400, 404})

Search = Callable[[int, int], Awaitable[tuple[SruResult, str]]]
"""Requests records, given the first position and their number; returns the answer and its address."""


class UnreadableResultError(ClientError):
    """So many records in a row fail, even singly, that no further ones are requested."""

    def __init__(self, url: str, position: int, error: ClientError) -> None:
        super().__init__(
            f"{url}: the records up to position {position:,} cannot be read, not even one by one "
            f"({error}); narrow the query to exclude them"
        )
        self.url = url


@dataclass(kw_only=True)
class Reader:
    """Reads the pages of one result."""

    url: str
    """The address of the service."""
    prefix: str
    """The prefix of the records' identifiers."""
    as_dc: bool
    search: Search
    with_few_retries: Search
    """The same with few retries, for requests of which many fail."""
    place: QueryCursor
    loose: bool
    most: int | None = None
    """The reduced page size, if larger pages failed."""
    unreadable: int = 0
    """Records in a row that could not be read."""
    announces: bool | None = None
    """Whether an answer announced a next position; None before the first answer."""

    async def page(self, usual: int) -> Page:
        """Return the next page; `usual` is the page size when there are no errors."""
        search = self.with_few_retries if self.unreadable else self.search
        while True:
            most = min(self.most or usual, usual)
            try:
                result, url = await search(self.place.position, most)
            except ClientError as error:
                if self._is_end(error):
                    return self._taken(SruResult(version="", size=self.place.size), self.url)
                if self.loose and self.place.position > 1 and _code(error) == _BEYOND_LIMIT:
                    return self.place.cut_off(error, self.url)
                if not self.loose or not _may_be_one_record(error):
                    raise
                search, self.most = self.with_few_retries, max(most // 2, 1)
                if most == 1:
                    return self._passed_over(error)
                continue
            self.most = None if self.most is None or self.most * 2 >= usual else self.most * 2
            self.unreadable = 0
            return self._taken(result, url)

    def _is_end(self, error: ClientError) -> bool:
        """Return whether the server rejects the position because the list has no further record."""
        if self.place.is_past_end:
            return _is_out_of_range(error)
        return self.place.size is None and self.announces is False and _code(error) in _OUT_OF_RANGE

    def _taken(self, result: SruResult, url: str) -> Page:
        start = self.place
        if result.size == 0 and not result.records and not start.is_past_end:
            raise no_records_match(url)
        step = next_step(start, result, announces=bool(self.announces))
        self.announces = bool(self.announces) or announces_more(result, step.place.position)
        self.place = step.place
        page = self._page(result, url, start, step)
        if page.faults and not self.loose:
            raise MalformedAnswerError(url, page.faults[0].reason)
        return page

    def _page(self, result: SruResult, url: str, start: QueryCursor, step: Step) -> Page:
        records = tuple(
            wrapped(
                as_oai_dc(found.metadata) if self.as_dc else found.metadata,
                prefix=self.prefix,
                own=found.identifier,
            )
            for found in result.records
            if found.metadata is not None
        )
        said = (f"the server says: {diagnostic.in_words()}" for diagnostic in result.diagnostics)
        token = step.place.token_after(start, ended=step.ended)
        return page_of(records, url=url, token=token, faults=step.faults, notes=(*step.notes, *said))

    def _passed_over(self, error: ClientError) -> Page:
        """Return a page that contains only the fault of the one record that failed."""
        self.unreadable += 1
        start = self.place
        # An outage also fails for all of them, but an answer that cannot be read may be due to its record.
        is_outage = not isinstance(error, (AnswerTooLargeError, MalformedAnswerError))
        at_beginning = start.size is None and start.position == 1
        if self.unreadable > _MOST_UNREADABLE or (at_beginning and is_outage):
            raise UnreadableResultError(self.url, start.position, error) from error
        self.place = replace(start, position=start.position + 1)
        reason = f"record at position {start.position:,} is not available: {error}"
        token = self.place.token_after(start, ended=self.place.is_past_end)
        fault = Fault(offset=-1, reason=reason, raw=error.raw, failure=failure_of(error))
        return page_of((), url=self.url, token=token, faults=(fault,))


def _may_be_one_record(error: ClientError) -> bool:
    """Return whether a single record may be the cause of the failure."""
    if isinstance(error, TransportError):
        return error.kind in {TransportKind.TIMEOUT, TransportKind.DISCONNECTED, TransportKind.HTTP}
    if isinstance(error, HttpStatusError):
        return error.status >= _SERVER_ERROR
    return isinstance(error, (AnswerTooLargeError, MalformedAnswerError))


def _is_out_of_range(error: ClientError) -> bool:
    """Return whether the server rejects the position; an outage says nothing about it."""
    if isinstance(error, HttpStatusError):
        return error.status in _OUT_OF_RANGE_STATUSES
    return _code(error) in _OUT_OF_RANGE


def _code(error: ClientError) -> str:
    return error.code if isinstance(error, OaiError) else ""


@dataclass(frozen=True, kw_only=True)
class Question:
    """The parameters of a list."""

    query: str
    schema: str
    """The server's name of the schema."""
    as_oai_dc: bool


class SruClient(QueryClient):
    """A client of one SRU service; its transport and its retries are those of the OAI-PMH client."""

    _by_name = "rec.identifier="
    """An index of the context set "rec", which not all servers have."""

    def __init__(
        self,
        base_url: str,
        transport: Transport,
        *,
        lists: ListLimits | None = None,
        traffic: Traffic | None = None,
        **retry_options: Unpack[RetryOptions],
    ) -> None:
        self.base_url = without_credentials(base_url)
        self._address = base_url
        self._lists = lists or ListLimits()
        self.traffic = traffic or Traffic()
        self._transport = transport
        self._retrying = Retrying(**retry_options)
        self._explanation: Explanation | None = None
        self._version = ""

    def with_retries(self, retries: int) -> Self:
        """Return a client of the same service with another number of retries.

        Both share the traffic counters.
        """
        other = copy.copy(self)
        other._retrying = replace(self._retrying, retries=retries)  # noqa: SLF001 same class
        return other

    async def identify(self, *, loose: bool = False) -> Identity:  # noqa: ARG002 explain is not a list of records
        """Return the service's identity from explain; SRU does not describe deletions or dates."""
        explained = await self._explain()
        return self._identity(
            explained.title or (urlsplit(self.base_url).hostname or ""),
            f"SRU {explained.version}".rstrip(),
            *filter(None, (explained.contact,)),
        )

    async def list_metadata_formats(self, *, loose: bool = False) -> tuple[FormatInfo, ...]:  # noqa: ARG002 the interface
        """Return the record schemas listed by explain."""
        return (await self._explain()).schemas

    async def pages(
        self, verb: Verb, selection: Selection, *, resumption_token: str = "", loose: bool = False
    ) -> AsyncIterator[Page]:
        """Yield the pages of a query's result; the query is the selection's set, by default all records.

        With `loose`, a page that fails is requested in ever smaller parts, and a single record that fails is
        reported as a fault. Raises SruError, NoRecordsMatchError, UnreadableResultError and EndlessListError.
        """
        question = await self._question(selection)
        reader = Reader(
            url=self.base_url,
            prefix=self._prefix,
            as_dc=question.as_oai_dc,
            search=partial(self._search, question),
            with_few_retries=partial(self.with_retries(_RETRIES_WHILE_SEARCHING)._search, question),  # noqa: SLF001 same class
            place=read_place(resumption_token),
            loose=loose,
        )
        detector = LoopDetector(self._lists)
        while True:
            page = await reader.page(await self._most_at_once())
            detector.look_at(page)
            yield replace(page, records=()) if verb is Verb.LIST_IDENTIFIERS else page
            if not page.next_token:
                return

    async def _search(self, question: Question, start: int, most: int) -> tuple[SruResult, str]:
        """Return an answer to searchRetrieve, and its address. Raises SruError if it has only diagnostics."""
        untried = list(_VERSIONS)
        while True:
            version = self._version or _VERSIONS[0]
            untried.remove(version)
            arguments = _search_arguments(version, question, start, most)
            result, url = await self._read(arguments, partial(read_result, start=start))
            if result.records or not result.diagnostics:
                return result, url
            diagnostic = result.diagnostics[0]
            if diagnostic.code not in VERSION_DIAGNOSTICS or not untried:
                raise diagnostic.error(url)
            # The details name a version that the server supports, but are often empty.
            self._version = diagnostic.details if diagnostic.details in untried else untried[0]

    @property
    def _prefix(self) -> str:
        """Return the prefix of the records' identifiers."""
        parts = urlsplit(self.base_url)
        path = [part for part in parts.path.split("/") if part]
        return ":".join(["sru", parts.hostname or "", *path])

    async def _question(self, selection: Selection) -> Question:
        if selection.from_ or selection.until:
            raise UsageError("SRU selects by query, not by datestamps; add the dates to the query")
        wanted = selection.metadata_prefix
        offered = (await self._explained()).schemas
        schema = choose_schema(wanted, offered)
        if schema is None:
            names = ", ".join(found.metadata_prefix for found in offered)
            raise SruFormatError(
                self.base_url, "diagnostic 66", f"{wanted!r} is not among the schemas offered: {names}"
            )
        return Question(
            query=selection.set_spec or EVERYTHING,
            schema=schema,
            as_oai_dc=wanted.lower() in {"oai_dc", "dc"},
        )

    async def _most_at_once(self) -> int:
        return min(_AT_ONCE, (await self._explained()).most_at_once or _AT_ONCE)

    async def _explained(self) -> Explanation:
        """Return the explain answer; an empty one if the server has no explain, as is common."""
        if self._explanation is None:
            try:
                return await self._explain()
            except (HttpStatusError, MalformedAnswerError, NotSruError):
                self._explanation = Explanation()
        return self._explanation

    async def _explain(self) -> Explanation:
        if self._explanation is not None and self._explanation != Explanation():
            return self._explanation
        arguments = [("operation", "explain"), ("version", _VERSIONS[0])]
        found, _ = await self._read(arguments, read_explanation)
        self._explanation = found
        self._version = found.version if found.version in _VERSIONS else self._version
        return found

    async def _read(self, arguments: Arguments, read: Callable[..., _T]) -> tuple[_T, str]:
        """Request and read an answer, with one repetition if it is broken."""
        for last in (False, True):
            reply = await self._retrying.fetch(partial(self._send, arguments))
            try:
                found = await asyncio.to_thread(
                    read, reply.body, url=reply.url, content_type=reply.content_type
                )
            except (MalformedAnswerError, NotSruError) as error:
                error.raw = reply.body
                if last:
                    raise
            else:
                return found, reply.url
        raise AssertionError("unreachable: the last pass returns or raises")

    async def _send(self, arguments: Arguments) -> HttpReply:
        self.traffic.requests += 1
        reply = await self._transport(self._address, arguments)
        self.traffic.note(reply)
        return reply


def _search_arguments(version: str, question: Question, start: int, most: int) -> Arguments:
    what = [
        ("query", question.query),
        ("startRecord", str(start)),
        ("maximumRecords", str(most)),
        ("recordSchema", question.schema),
    ]
    if version == "2.0":
        return [*what, ("recordXMLEscaping", "xml")]
    return [("operation", "searchRetrieve"), ("version", version), *what, ("recordPacking", "xml")]
