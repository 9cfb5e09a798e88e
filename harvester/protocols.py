"""Maps each protocol to its client: a new protocol is a new module, and an entry here."""

import contextlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Unpack

from harvester.client.exchange import Send
from harvester.client.loops import ListLimits, list_limits
from harvester.client.protocol_client import ProtocolClient
from harvester.client.repository_client import Client, ReadPage, Traffic
from harvester.client.retries import RetryOptions, retry_options
from harvester.client.transport import Transport, open_transport
from harvester.reading.repairs import Repair
from harvester.vocabulary import AccessProtocol
from harvester.z3950.session import SCHEME
from oai.errors import UsageError
from oai.limits import DEFAULT_LIMITS, AnswerLimits
from oai.sections import HarvesterSettings

_SRU_ADDRESS: Final = re.compile(r"[/.]sr[uw]([./?:_-]|$)", re.IGNORECASE)


def protocol_of(base_url: str, given: str | None = None) -> AccessProtocol:
    """Return the protocol for an address: the given one, or the one that the address indicates.

    Raises UsageError if the two do not match.
    """
    declared = AccessProtocol.Z3950 if base_url.lower().startswith(f"{SCHEME}:") else None
    chosen = AccessProtocol(given) if given else declared or AccessProtocol.OAI_PMH
    if (chosen is AccessProtocol.Z3950) != (declared is AccessProtocol.Z3950):
        raise UsageError(
            "%(base_url)s is not a valid address for the protocol %(protocol)s; Z39.50 has "
            "z3950://host:port/database, the others http:// or https://",
            base_url=repr(base_url),
            protocol=chosen.value,
        )
    return chosen


def protocols_at(base_url: str) -> Sequence[AccessProtocol]:
    """Return the protocols that an address may support, the more likely ones first."""
    declared = protocol_of(base_url)
    if declared is AccessProtocol.Z3950:
        return (declared,)
    over_http = (AccessProtocol.OAI_PMH, AccessProtocol.SRU)
    return over_http[::-1] if _SRU_ADDRESS.search(base_url) else over_http


def http_client(
    protocol: str,
    base_url: str,
    transport: Transport,
    *,
    read_page: ReadPage | None = None,
    limits: AnswerLimits = DEFAULT_LIMITS,
    lists: ListLimits | None = None,
    repairs: tuple[Repair, ...] = (),
    traffic: Traffic | None = None,
    **retry_options: Unpack[RetryOptions],
) -> ProtocolClient:
    """Return a client of a protocol over HTTP.

    `read_page`, `limits` and `repairs` apply to OAI-PMH (see `Client`).
    """
    if protocol == AccessProtocol.SRU:
        # A harvest is a process of its own, and most need only one protocol.
        from harvester.sru.client import SruClient  # noqa: PLC0415

        return SruClient(base_url, transport, lists=lists, traffic=traffic, **retry_options)
    return Client(
        base_url,
        transport,
        read_page=read_page,
        limits=limits,
        lists=lists,
        repairs=repairs,
        traffic=traffic,
        **retry_options,
    )


@contextlib.asynccontextmanager
async def open_protocol_client(  # noqa: PLR0913 options by name
    protocol: str,
    base_url: str,
    settings: HarvesterSettings,
    *,
    retries: int | None = None,
    on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None,
    around: Callable[[Send], Send] = lambda send: send,
    over: Callable[[Transport], Transport] = lambda transport: transport,
    read_page: ReadPage | None = None,
    repairs: tuple[Repair, ...] = (),
) -> AsyncIterator[ProtocolClient]:
    """Provide a client of the protocol; `settings` has limits, retries and politeness.

    `retries` overrides the setting. `around` wraps the function that sends requests to the network, as the
    raw capture does; `over` wraps the transport, as a watch does.
    """
    if protocol == AccessProtocol.Z3950:
        from harvester.z3950.client import Z3950Client  # noqa: PLC0415 as above

        yield Z3950Client(base_url, settings, retries=retries, on_wait=on_wait)
        return
    # Only with OAI-PMH does the client not choose the size of the answers.
    traffic, spool = Traffic(), protocol == AccessProtocol.OAI_PMH
    async with open_transport(settings, around=around, spool=spool, on_resend=traffic.resend) as transport:
        yield http_client(
            protocol,
            base_url,
            over(transport),
            read_page=read_page,
            limits=settings.limits,
            lists=list_limits(settings),
            repairs=repairs,
            traffic=traffic,
            **retry_options(settings, retries=retries, on_wait=on_wait),
        )
