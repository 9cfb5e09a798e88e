"""Fetches schemas over HTTP with the client's transport: the same limits, patience and manners.

Addresses of schemas come from strangers. So they lead to http and https only, and from a repository in the
world never into our own network.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from harvester.client.exchange import HttpRequest, RawReply, Send
from harvester.client.retrying import Retrying
from harvester.client.transport import open_transport
from harvester.reading.errors import HttpStatusError, TransportError, TransportKind
from oai.sections import HarvesterSettings

MAX_BYTES: Final = 8 * 1024**2
"""Size of the largest schema file."""
_SUCCESS: Final = 200


@dataclass(frozen=True, kw_only=True)
class SchemaReply:
    """A document that was fetched; `url` is where it came from after all redirects."""

    url: str
    body: bytes


Fetch = Callable[[str], Awaitable[SchemaReply]]
"""Fetches a document from an http or https address. Raises ClientError and TryLaterError."""


@dataclass(frozen=True, kw_only=True)
class SchemaFetcher:
    """Fetches the schemas that a repository, or one of its records, names."""

    settings: HarvesterSettings
    base_url: str
    """The repository's."""
    retrying: Retrying

    async def __call__(self, url: str) -> SchemaReply:
        """Fetch a document; nothing but an HTTP status of 200 will do."""
        limited = self.settings.model_copy(
            update={"max_answer_bytes": min(MAX_BYTES, self.settings.max_answer_bytes)}
        )
        async with open_transport(limited, around=self._guarded) as transport:
            reply = await self.retrying.fetch(lambda: transport(url, ()))
        if reply.status != _SUCCESS:
            raise HttpStatusError(url, reply.status)
        return SchemaReply(url=reply.hops[-1] if reply.hops else url, body=reply.body)

    def _guarded(self, send: Send) -> Send:
        async def guarded(request: HttpRequest) -> RawReply:
            own = urlsplit(self.base_url).hostname
            host = urlsplit(request.url).hostname
            if host != own and await _is_private(host) and not await _is_private(own):
                reason = (
                    "the address is in our own network but named by a repository outside it; it is not "
                    "requested"
                )
                raise TransportError(request.url, TransportKind.ADDRESS, reason)
            return await send(request)

        return guarded


def schema_fetcher(settings: HarvesterSettings, base_url: str) -> SchemaFetcher:
    """Give the fetcher for the repository at a base URL, as patient as the settings say."""
    retrying = Retrying(
        retries=settings.retries,
        max_wait=settings.max_wait,
        max_wait_total=settings.max_wait_total,
        first_delay=settings.first_delay,
    )
    return SchemaFetcher(settings=settings, base_url=base_url, retrying=retrying)


async def _is_private(host: str | None) -> bool:
    """Whether a host is one of our own network, by any of its addresses; one that is not known is none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host or "", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(not ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_global for each in found)
