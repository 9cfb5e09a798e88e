"""HTTP sessions that know which address sent an answer, and connect only where they may."""

import aiohttp
from aiohttp.connector import Connection

from oai.reach import Zone, ZoneOf, guarded_connector


class _Answer(aiohttp.ClientResponse):
    """An answer that knows which address sent it."""

    peer: str | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        # The connection is given back as soon as the body is complete, which may be before this returns.
        name = connection.transport.get_extra_info("peername") if connection.transport else None
        self.peer = name[0] if name else None
        return await super().start(connection)


def new_session(zone_of: ZoneOf, *, private: bool) -> aiohttp.ClientSession:
    """Return a session that connects to public addresses, and with `private` also to private ones."""
    connector = guarded_connector(private=private, zone_of=zone_of)
    return aiohttp.ClientSession(connector=connector, response_class=_Answer)


def is_from_public(answer: aiohttp.ClientResponse, zone_of: ZoneOf) -> bool:
    """Return whether the answer came from the public internet, or from an unknown address."""
    peer = answer.peer if isinstance(answer, _Answer) else None
    return peer is None or zone_of(peer) is Zone.PUBLIC
