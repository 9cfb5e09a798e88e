"""An asynchronous SRU client that delivers a result as OAI-PMH delivers a list of records.

A list's set is its query, in CQL; its resumption token is the position from which to continue. Sources: SRU
1.1 and 1.2 (Library of Congress); searchRetrieve 2.0 (OASIS).
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self, TypeVar, Unpack
from urllib.parse import urlsplit

from harvester.client.listing import Listing
from harvester.client.loops import Circles, ListPatience
from harvester.client.query_results import no_sets, only_record, quoted, read_place
from harvester.client.repository_client import Traffic
from harvester.client.retries import Patience, Retrying
from harvester.client.selection import Selection
from harvester.client.transport import Arguments, HttpReply, Transport
from harvester.reading.answers import FormatInfo, Identity, Page, Record, SetInfo, SetPage
from harvester.reading.errors import HttpStatusError, MalformedAnswerError
from harvester.sru.answers import (
    UNSUPPORTED_VERSION,
    Explanation,
    NotSruError,
    SruFormatError,
    SruResult,
    choose_schema,
    read_explanation,
    read_result,
)
from harvester.sru.paging import Reader
from oai.datestamps import format_datestamp, utc_now
from oai.errors import UsageError
from oai.vocabulary import DeletedRecord, Granularity, Verb

EVERYTHING: Final = "cql.allRecords=1"
"""The query for all records (CQL context set 1.2)."""
_AT_ONCE: Final = 100
_VERSIONS: Final = ("1.2", "1.1", "2.0")
_RETRIES_WHILE_SEARCHING: Final = 1
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Question:
    """The parameters of a list."""

    query: str
    schema: str
    """The server's name of the schema."""
    as_oai_dc: bool


class SruClient:
    """A client of one SRU service; its transport and its retries are those of the OAI-PMH client."""

    def __init__(
        self,
        base_url: str,
        transport: Transport,
        *,
        lists: ListPatience | None = None,
        **patience: Unpack[Patience],
    ) -> None:
        self.base_url = base_url
        self._lists = lists or ListPatience()
        self.traffic = Traffic()
        self._transport = transport
        self._retrying = Retrying(**patience)
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
        return Identity(
            repository_name=explained.title or (urlsplit(self.base_url).hostname or ""),
            base_url=self.base_url,
            protocol_version=f"SRU {explained.version}".rstrip(),
            admin_emails=(explained.contact,) if explained.contact else (),
            earliest_datestamp="",
            deleted_record=DeletedRecord.NO.value,
            granularity=Granularity.SECOND.value,
            response_date=format_datestamp(utc_now()),
        )

    async def list_metadata_formats(self) -> tuple[FormatInfo, ...]:
        """Return the record schemas listed by explain."""
        return (await self._explain()).schemas

    def list_sets(self) -> Listing[SetPage, SetInfo]:
        """Return no sets: a query selects the records."""
        return no_sets()

    async def get_record(
        self, identifier: str, metadata_prefix: str = "oai_dc", *, loose: bool = False
    ) -> Record:
        """Return one record, by the index rec.identifier (context set "rec"), which not all servers have."""
        own = quoted(identifier.removeprefix(self._prefix + ":"))
        selection = Selection(metadata_prefix=metadata_prefix, set_spec=f"rec.identifier={own}")
        page = await anext(self.pages(Verb.GET_RECORD, selection, loose=loose))
        return only_record(page, identifier)

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
            brisk=partial(self.with_retries(_RETRIES_WHILE_SEARCHING)._search, question),  # noqa: SLF001 same class
            place=read_place(resumption_token),
            loose=loose,
        )
        circles = Circles(self._lists)
        while True:
            page = await reader.page(await self._most_at_once())
            circles.look_at(page)
            yield replace(page, records=()) if verb is Verb.LIST_IDENTIFIERS else page
            if not page.next_token:
                return

    async def _search(self, question: Question, start: int, most: int) -> tuple[SruResult, str]:
        """Return an answer to searchRetrieve, and its address. Raises SruError if it has only diagnostics."""
        for tries_left in (1, 0):
            arguments = _search_arguments(self._version or _VERSIONS[0], question, start, most)
            read = partial(read_result, start=start)
            result, url = await self._read(arguments, read)
            told = result.diagnostics
            if result.records or not told:
                return result, url
            if not (
                tries_left and told[0].code == UNSUPPORTED_VERSION and self._other_version(told[0].details)
            ):
                raise told[0].error(url)
        raise AssertionError("unreachable: the last try returns or raises")

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

    def _other_version(self, supported: str) -> bool:
        """Switch to the version that the server supports, or to the next one; False if there is none."""
        tried = self._version or _VERSIONS[0]
        others = [version for version in _VERSIONS if version != tried]
        self._version = supported if supported in others else others[0]
        return True

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
        reply = await self._transport(self.base_url, arguments)
        self.traffic.bytes += len(reply.body)
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
