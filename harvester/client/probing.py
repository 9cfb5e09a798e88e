"""Asks a repository a few questions, and gathers what it answers and how."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from harvester.client.protocol_client import ProtocolClient
from harvester.client.selection import Selection
from harvester.client.transport import Arguments, HttpReply, Transport
from harvester.reading.answers import FormatInfo, Identity, Page, SetPage
from harvester.reading.errors import ClientError, HttpStatusError, NoRecordsMatchError, TransportError
from oai.vocabulary import Verb

_USUAL_FORMATS = ("oai_dc", "marcxml")
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request of the probe, how long it took in seconds, and the whole answer."""

    verb: str
    seconds: float
    reply: HttpReply


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What came. What could not be had is None or empty, with the reason in `failures` by its verb."""

    base_url: str
    identity: Identity | None = None
    formats: Sequence[FormatInfo] = ()
    sets: SetPage | None = None
    """The first page of them."""
    metadata_prefix: str = _USUAL_FORMATS[0]
    """Of the records."""
    page: Page | None = None
    """The first page of ListRecords, read loosely."""
    exchanges: Sequence[Exchange] = ()
    failures: dict[str, ClientError] = field(default_factory=dict)


class Watching:
    """A transport that notes what goes through it, in a list of its own or in `exchanges`."""

    def __init__(
        self,
        transport: Transport,
        *,
        exchanges: list[Exchange] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.exchanges: list[Exchange] = [] if exchanges is None else exchanges
        self._transport = transport
        self._clock = clock

    async def __call__(self, base_url: str, arguments: Arguments) -> HttpReply:
        """Send the request on."""
        begun = self._clock()
        reply = await self._transport(base_url, arguments)
        asked = dict(arguments)
        verb = asked.get("verb") or asked.get("operation") or "searchRetrieve"
        self.exchanges.append(Exchange(verb=verb, seconds=self._clock() - begun, reply=reply))
        return reply


async def probe(client: ProtocolClient, watching: Watching | None, *, set_spec: str = "") -> Findings:
    """Ask for Identify, the formats, and the first pages of sets and of records.

    `watching` is the client's transport, where it has one; `set_spec` is of the records. A single
    question that is answered badly is a finding; where the protocol is not spoken at all, its error is
    raised: TransportError, HttpStatusError, ServerBusyError, or what was wrong with the answer to Identify.
    """
    failures: dict[str, ClientError] = {}
    identity = await _tried(client.identify(), Verb.IDENTIFY, failures)
    if isinstance(failures.get(Verb.IDENTIFY), TransportError | HttpStatusError):
        raise failures[Verb.IDENTIFY]
    formats = await _tried(client.list_metadata_formats(), Verb.LIST_METADATA_FORMATS, failures) or ()
    sets = await _tried(_first_sets(client), Verb.LIST_SETS, failures)
    for prefix in _prefixes(formats):
        failures.pop(Verb.LIST_RECORDS, None)
        page = await _tried(_first_page(client, prefix, set_spec), Verb.LIST_RECORDS, failures)
        without_answer = isinstance(failures.get(Verb.LIST_RECORDS), TransportError)
        if without_answer or (page is not None and (page.records or not page.faults)):
            break
    if identity is None and not formats and page is None:
        raise failures[Verb.IDENTIFY]
    return Findings(
        base_url=client.base_url,
        identity=identity,
        formats=formats,
        sets=sets,
        metadata_prefix=prefix,
        page=page,
        exchanges=watching.exchanges if watching else (),
        failures=failures,
    )


def _prefixes(formats: Sequence[FormatInfo]) -> Sequence[str]:
    """The formats to ask for, one after the other until there are records to be read."""
    offered = [found.metadata_prefix for found in formats]
    if not offered:
        return _USUAL_FORMATS
    return _USUAL_FORMATS[:1] if _USUAL_FORMATS[0] in offered else offered[:1]


async def _tried(asking: Awaitable[_T], verb: Verb, failures: dict[str, ClientError]) -> _T | None:
    try:
        return await asking
    except ClientError as error:
        failures[verb] = error
        return None


async def _first_sets(client: ProtocolClient) -> SetPage:
    return await anext(client.list_sets().pages())


async def _first_page(client: ProtocolClient, prefix: str, set_spec: str) -> Page:
    selection = Selection(metadata_prefix=prefix, set_spec=set_spec or None)
    try:
        return await anext(client.pages(Verb.LIST_RECORDS, selection, loose=True))
    except NoRecordsMatchError as error:
        return Page(url=error.url, response_date=error.response_date)
