"""A look at any repository by whatever protocol it speaks: what it answers, and what is odd about it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from harvester.access import access_of
from harvester.client.exchange import HttpRequest, RawReply, Send
from harvester.client.probe import Exchange, ProbeFindings, Watching, faults, oddities, probe
from harvester.protocols import open_protocol_client
from harvester.reading.errors import ClientError, TransportError
from harvester.vocabulary import AccessProtocol
from oai.datestamps import utc_now
from oai.errors import TryLaterError
from oai.sections import HarvesterSettings
from oai.settings import Settings

_RETRIES = 1


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What was found, and what is odd about it in words."""

    findings: ProbeFindings
    odd: Sequence[str]


async def look(
    base_url: str,
    settings: Settings,
    *,
    protocol: str = AccessProtocol.OAI_PMH,
    set_spec: str = "",
    on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None,
) -> Looked:
    """Ask who it is, for its formats and sets, and for the first records of the set or query.

    Raises UsageError for no query, SettingsError where a program that the protocol needs is missing, and
    otherwise as `probe` does.
    """
    exchanges: list[Exchange] = []
    watched = partial(Watching, exchanges=exchanges)
    opened = open_protocol_client(
        protocol, base_url, settings.harvester, retries=_RETRIES, on_wait=on_wait, over=watched
    )
    async with opened as client:
        found = replace(await probe(client, None, set_spec=set_spec), exchanges=exchanges)
    by_query = access_of(protocol).query is not None
    return Looked(findings=found, odd=list(_odd(found) if by_query else oddities(found, now=utc_now())))


def _odd(found: ProbeFindings) -> Iterator[str]:
    """What could not be had, and what was odd about the records, where a query found them."""
    yield from dict.fromkeys(f"{error}" for error in found.failures.values())
    if found.page is not None:
        yield from found.page.notes
        yield from faults(found.page)


@dataclass(frozen=True, kw_only=True)
class FirstAnswer:
    """What came, and what was asked; neither where it did not come as one HTTP answer."""

    request: HttpRequest | None = None
    reply: RawReply | None = None

    def around(self, send: Send) -> Send:
        """`send`, but the very first request is answered by this where it is the same one."""
        left = [] if self.reply is None else [self.reply]

        async def given(request: HttpRequest) -> RawReply:
            # What is not wanted at once is out of date later.
            reply = left.pop() if left else None
            return reply if reply is not None and request == self.request else await send(request)

        return given


class _AnsweredError(Exception):
    """An answer came, so the asking ends."""


async def ask_first(
    base_url: str, protocol: str, settings: HarvesterSettings, *, on_wait: Callable[[float, str], None]
) -> FirstAnswer:
    """Ask who the repository is, as patiently as the settings say, until anything comes.

    Raises TransportError where nothing does.
    """
    came: list[FirstAnswer] = []

    def around(send: Send) -> Send:
        async def noted(request: HttpRequest) -> RawReply:
            came.append(FirstAnswer(request=request, reply=await send(request)))
            raise _AnsweredError

        return noted

    asking = open_protocol_client(protocol, base_url, settings, on_wait=on_wait, around=around)
    async with asking as client:
        try:
            await client.identify(loose=True)
        except TransportError:
            raise
        except (_AnsweredError, ClientError, TryLaterError):
            return came[0] if came else _NO_HTTP
    return _NO_HTTP


_NO_HTTP: Final = FirstAnswer()
