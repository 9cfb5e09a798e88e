"""A look at a repository over any supported protocol: its answers, and what is unusual about them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from harvester.access import access_of
from harvester.client.exchange import HttpRequest, RawReply, Send
from harvester.client.probe import ProbeExchange, ProbeFindings, Watching, faults, oddities, probe
from harvester.protocols import open_protocol_client
from harvester.reading.errors import ClientError, TransportError
from harvester.vocabulary import AccessProtocol
from oai.datestamps import utc_now
from oai.errors import TryLaterError
from oai.sections import HarvesterSettings
from oai.settings import Settings

_RETRIES = 1


@dataclass(frozen=True, kw_only=True)
class LookFindings:
    """The findings, and what is unusual about them, in words."""

    findings: ProbeFindings
    odd: Sequence[str]


async def look(
    base_url: str,
    settings: Settings,
    *,
    protocol: str = AccessProtocol.OAI_PMH,
    set_spec: str = "",
    on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None,
) -> LookFindings:
    """Request the identity, the formats and sets, and the first records of the set or query.

    Raises UsageError for an invalid query, SettingsError if a program that the protocol needs is missing, and
    otherwise as `probe` does.
    """
    exchanges: list[ProbeExchange] = []
    watched = partial(Watching, exchanges=exchanges)
    opened = open_protocol_client(
        protocol, base_url, settings.harvester, retries=_RETRIES, on_wait=on_wait, over=watched
    )
    async with opened as client:
        found = replace(await probe(client, None, set_spec=set_spec), exchanges=exchanges)
    by_query = access_of(protocol).query is not None
    return LookFindings(findings=found, odd=list(_odd(found) if by_query else oddities(found, now=utc_now())))


def _odd(found: ProbeFindings) -> Iterator[str]:
    """Yield what is not available and, if a query found records, what is unusual about them."""
    yield from dict.fromkeys(f"{error}" for error in found.failures.values())
    if found.page is not None:
        yield from found.page.notes
        yield from faults(found.page)


@dataclass(frozen=True, kw_only=True)
class FirstAnswer:
    """The first request and its answer; both None if the answer was not a single HTTP answer."""

    request: HttpRequest | None = None
    reply: RawReply | None = None

    def around(self, send: Send) -> Send:
        """Return a `send` that answers the very first request with this answer, if it is the same request."""
        left = [] if self.reply is None else [self.reply]

        async def given(request: HttpRequest) -> RawReply:
            # Offered only once, because the answer would be out of date later.
            reply = left.pop() if left else None
            return reply if reply is not None and request == self.request else await send(request)

        return given


class _AnsweredError(Exception):
    """Raised when an answer has arrived, to end the attempts."""


async def ask_first(
    base_url: str, protocol: str, settings: HarvesterSettings, *, on_wait: Callable[[float, str], None]
) -> FirstAnswer:
    """Ask for the repository's identity, with the configured retries, until any answer arrives.

    Raises TransportError if none does.
    """
    answers: list[FirstAnswer] = []

    def around(send: Send) -> Send:
        async def noted(request: HttpRequest) -> RawReply:
            answers.append(FirstAnswer(request=request, reply=await send(request)))
            raise _AnsweredError

        return noted

    asking = open_protocol_client(protocol, base_url, settings, on_wait=on_wait, around=around)
    async with asking as client:
        try:
            await client.identify(loose=True)
        except TransportError:
            raise
        except (_AnsweredError, ClientError, TryLaterError):
            return answers[0] if answers else _NO_HTTP
    return _NO_HTTP


_NO_HTTP: Final = FirstAnswer()
