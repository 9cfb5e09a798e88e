"""Sends a repository a few requests, and gathers the answers and their properties."""

import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from harvester.client.protocol_client import ProtocolClient
from harvester.client.selection import Selection
from harvester.client.transport import Arguments, HttpReply, Transport
from harvester.reading.answers import FormatInfo, Identity, Page, SetPage
from harvester.reading.errors import ClientError, HttpStatusError, NoRecordsMatchError, TransportError
from oai.datestamps import parse_datestamp
from oai.vocabulary import PROTOCOL_VERSION, DeletedRecord, Granularity, Verb

_USUAL_FORMATS = ("oai_dc", "marcxml")
_T = TypeVar("_T")
_SLOW_SECONDS = 5.0
_CLOCK_SECONDS = 300
_LONG_TOKEN = 1000
_SUCCESS = 200
_NEEDS_ENCODING = re.compile(r"[^A-Za-z0-9._~!*'()-]")
_SET_SPEC = re.compile(r"[A-Za-z0-9\-_.!~*'()]+(?::[A-Za-z0-9\-_.!~*'()]+)*")


@dataclass(frozen=True, kw_only=True)
class ProbeExchange:
    """A request of the probe, its duration in seconds, and the whole answer."""

    verb: str
    seconds: float
    reply: HttpReply


@dataclass(frozen=True, kw_only=True)
class ProbeFindings:
    """The answers. What is not available is None or empty, with the reason in `failures` by its verb."""

    base_url: str
    identity: Identity | None = None
    formats: Sequence[FormatInfo] = ()
    sets: SetPage | None = None
    """The first page of the sets."""
    metadata_prefix: str = _USUAL_FORMATS[0]
    """The format of the records."""
    page: Page | None = None
    """The first page of ListRecords, read leniently."""
    exchanges: Sequence[ProbeExchange] = ()
    failures: dict[str, ClientError] = field(default_factory=dict)


class Watching:
    """A transport that records its exchanges, in its own list or in `exchanges`."""

    def __init__(
        self,
        transport: Transport,
        *,
        exchanges: list[ProbeExchange] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.exchanges: list[ProbeExchange] = [] if exchanges is None else exchanges
        self._transport = transport
        self._clock = clock

    async def __call__(self, base_url: str, arguments: Arguments) -> HttpReply:
        """Send the request, and record the exchange."""
        begun = self._clock()
        reply = await self._transport(base_url, arguments)
        asked = dict(arguments)
        verb = asked.get("verb") or asked.get("operation") or "searchRetrieve"
        self.exchanges.append(ProbeExchange(verb=verb, seconds=self._clock() - begun, reply=reply))
        return reply


async def probe(client: ProtocolClient, watching: Watching | None, *, set_spec: str = "") -> ProbeFindings:
    """Request Identify, the formats, and the first pages of sets and of records; read them leniently.

    `watching` is the client's transport, if it has one; `set_spec` selects the records. A single request with
    a bad answer is a finding; if the protocol is not spoken at all, its error is raised: TransportError,
    HttpStatusError, ServerBusyError, or what was wrong with the answer to Identify.
    """
    failures: dict[str, ClientError] = {}
    identity = await _tried(client.identify(loose=True), Verb.IDENTIFY, failures)
    if isinstance(failures.get(Verb.IDENTIFY), TransportError | HttpStatusError):
        raise failures[Verb.IDENTIFY]
    asking = client.list_metadata_formats(loose=True)
    formats = await _tried(asking, Verb.LIST_METADATA_FORMATS, failures) or ()
    sets = await _tried(_first_sets(client), Verb.LIST_SETS, failures)
    for prefix in _prefixes(formats):
        failures.pop(Verb.LIST_RECORDS, None)
        page = await _tried(_first_page(client, prefix, set_spec), Verb.LIST_RECORDS, failures)
        without_answer = isinstance(failures.get(Verb.LIST_RECORDS), TransportError)
        if without_answer or (page is not None and (page.records or not page.faults)):
            break
    if identity is None and not formats and page is None:
        raise failures[Verb.IDENTIFY]
    return ProbeFindings(
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
    """Return the formats to request, one after the other until records can be read."""
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
    return await anext(client.list_sets(loose=True).pages())


async def _first_page(client: ProtocolClient, prefix: str, set_spec: str) -> Page:
    selection = Selection(metadata_prefix=prefix, set_spec=set_spec or None)
    try:
        return await anext(client.pages(Verb.LIST_RECORDS, selection, loose=True))
    except NoRecordsMatchError as error:
        return Page(url=error.url, response_date=error.response_date)


def oddities(findings: ProbeFindings, *, now: datetime) -> Sequence[str]:
    """Return what a harvester should know before it begins, most general first; `now` has a time zone."""
    found = [words for look in _LOOKS for words in look(findings)]
    return [*found, *_clock(findings, now)]


def faults(page: Page) -> Iterator[str]:
    """Yield what cannot be read on the first page, if anything."""
    if len(page.faults) == 1:
        yield f"Part of the first page cannot be read: {page.faults[0].reason}."
    elif page.faults:
        first = page.faults[0].reason
        yield f"{len(page.faults):,} parts of the first page cannot be read; the first: {first}."


def _failures(findings: ProbeFindings) -> Iterator[str]:
    for verb, error in findings.failures.items():
        yield f"{verb} was not answered correctly: {_without_url(error)}"


def _redirects(findings: ProbeFindings) -> Iterator[str]:
    hops = next((exchange.reply.hops for exchange in findings.exchanges if exchange.reply.hops), ())
    if hops:
        yield f"The address redirects to {hops[-1].partition('?')[0]}; use that as the base URL."
    identity = findings.identity
    if identity is not None and identity.base_url != findings.base_url:
        yield f"Identify declares a different base URL: {identity.base_url!r}."


def _statuses(findings: ProbeFindings) -> Iterator[str]:
    for exchange in findings.exchanges:
        reply = exchange.reply
        if reply.status != _SUCCESS:
            yield f"{exchange.verb} was answered with HTTP status {reply.status}, not 200."
        if reply.cut is not None:
            yield f"{exchange.verb}: the answer is truncated, or its declared length is wrong."
    if any(exchange.reply.method == "POST" for exchange in findings.exchanges):
        yield "Long addresses are rejected (HTTP status 414); POST is used instead."


def _content(findings: ProbeFindings) -> Iterator[str]:
    kinds = {exchange.reply.headers.get("Content-Type", "") for exchange in findings.exchanges}
    for kind in sorted(kinds):
        if not kind.lower().startswith("text/xml"):
            yield f"The Content-Type is {kind!r}, not 'text/xml'."


def _compression(findings: ProbeFindings) -> Iterator[str]:
    for announced, found in dict.fromkeys(map(_compressions, findings.exchanges)):
        if announced and not found:
            yield f"Content-Encoding says {announced!r}, but the answer is not compressed."
        elif found and not announced:
            yield f"The answer is compressed ({', '.join(found)}), but no Content-Encoding says so."
        elif len(found) > 1:
            yield f"The answer is compressed more than once ({', '.join(found)})."
    if not any(exchange.reply.compression for exchange in findings.exchanges):
        yield "Answers are not compressed, although gzip was requested."


def _compressions(exchange: ProbeExchange) -> tuple[str, tuple[str, ...]]:
    announced = exchange.reply.headers.get("Content-Encoding", "")
    return announced if announced != "identity" else "", tuple(exchange.reply.compression)


def _identity(findings: ProbeFindings) -> Iterator[str]:
    identity = findings.identity
    if identity is None:
        return
    yield from (f"Identify: {note}." for note in identity.notes)
    if identity.protocol_version != PROTOCOL_VERSION:
        yield f"The protocol version is {identity.protocol_version!r}, not {PROTOCOL_VERSION!r}."
    if not any(identity.admin_emails):
        yield "No adminEmail is declared."
    if identity.deleted_record not in set(DeletedRecord):
        yield f"deletedRecord is {identity.deleted_record!r}, not no, transient or persistent."
    elif identity.deleted_record != DeletedRecord.PERSISTENT:
        yield (
            f"deletedRecord is {identity.deleted_record!r}: only a full harvest finds all records "
            "that disappeared."
        )


def _granularity(findings: ProbeFindings) -> Iterator[str]:
    identity = findings.identity
    if identity is None:
        return
    if identity.granularity not in set(Granularity):
        yield f"The granularity is {identity.granularity!r}, not day or second."
        return
    if words := _wrong_date(identity.earliest_datestamp, identity.granularity):
        yield f"earliestDatestamp {words}."
    headers = [header for header in findings.page.headers if not header.undated] if findings.page else []
    wrong = [header for header in headers if _wrong_date(header.datestamp, identity.granularity)]
    if wrong:
        words = _wrong_date(wrong[0].datestamp, identity.granularity)
        count = f"{len(wrong):,} of {len(headers):,}"
        yield f"{count} datestamps are wrong; that of {wrong[0].identifier!r} {words}."
    older = [header for header in headers if header.datestamp[:10] < identity.earliest_datestamp[:10]]
    if older:
        yield f"{len(older):,} of {len(headers):,} records are older than earliestDatestamp."


def _wrong_date(text: str, granularity: str) -> str:
    try:
        found = parse_datestamp(text)
    except ValueError:
        return f"is {text!r}, which is not a datestamp"
    return "" if found.granularity == granularity else f"is {text!r}, but the granularity is {granularity}"


def _response_dates(findings: ProbeFindings) -> Iterator[str]:
    dates = [findings.identity.response_date] if findings.identity else []
    dates += [page.response_date for page in (findings.sets, findings.page) if page is not None]
    odd = [date for date in dates if _wrong_date(date, Granularity.SECOND)]
    if odd:
        yield f"responseDate is {odd[0]!r}, not UTC written as {Granularity.SECOND}."


def _clock(findings: ProbeFindings, now: datetime) -> Iterator[str]:
    date = findings.identity.response_date if findings.identity else ""
    if _wrong_date(date, Granularity.SECOND):
        return
    off = (parse_datestamp(date).moment - now).total_seconds()
    if abs(off) > _CLOCK_SECONDS:
        yield (
            f"The server's clock is {abs(off):,.0f} seconds {'ahead of' if off > 0 else 'behind'} this "
            "machine's."
        )


def _sets(findings: ProbeFindings) -> Iterator[str]:
    sets = findings.sets.sets if findings.sets else ()
    odd = [found.set_spec for found in sets if not _SET_SPEC.fullmatch(found.set_spec)]
    if odd:
        yield (
            f"{len(odd):,} of {len(sets):,} setSpecs have characters that are not allowed, such as "
            f"{odd[0]!r}."
        )


def _formats(findings: ProbeFindings) -> Iterator[str]:
    prefixes = [found.metadata_prefix for found in findings.formats]
    if prefixes and "oai_dc" not in prefixes:
        yield "The required format oai_dc is missing."


def _records(findings: ProbeFindings) -> Iterator[str]:
    page = findings.page
    if page is None:
        return
    yield from (f"ListRecords: {note}." for note in page.notes)
    yield from faults(page)
    if undated := sum(header.undated for header in page.headers):
        count = f"{undated:,} of {len(page.headers):,}"
        yield f"{count} records have no datestamp; a lenient harvest stores them with the date of the answer."
    if not page.records and not page.faults:
        yield f"No records in {findings.metadata_prefix}."


def _tokens(findings: ProbeFindings) -> Iterator[str]:
    token = findings.page.token if findings.page else None
    if token is None or not token.value:
        return
    if token.complete_list_size is None:
        yield "completeListSize is missing, so it cannot be checked whether all records were received."
    if odd := sorted(set(_NEEDS_ENCODING.findall(token.value))):
        yield f"The resumption token has characters that must be encoded in addresses: {''.join(odd)!r}."
    if len(token.value) > _LONG_TOKEN:
        yield f"The resumption token has {len(token.value):,} characters."
    if token.expiration_date:
        yield f"Resumption tokens expire; the first one at {token.expiration_date!r}."


def _speed(findings: ProbeFindings) -> Iterator[str]:
    for exchange in findings.exchanges:
        if exchange.seconds > _SLOW_SECONDS:
            yield f"{exchange.verb} took {exchange.seconds:,.1f} seconds."


def _without_url(error: ClientError) -> str:
    return re.sub(r"^https?://\S+: ", "", str(error))


_LOOKS: tuple[Callable[[ProbeFindings], Iterator[str]], ...] = (
    _failures,
    _redirects,
    _statuses,
    _content,
    _compression,
    _identity,
    _granularity,
    _response_dates,
    _formats,
    _sets,
    _records,
    _tokens,
    _speed,
)
