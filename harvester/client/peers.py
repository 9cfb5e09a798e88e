"""HTTP sessions that know which address sent an answer, and connect only where they may."""

import contextlib
from collections.abc import AsyncIterator

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


@contextlib.asynccontextmanager
async def open_sessions(
    given: aiohttp.ClientSession | None, zone_of: ZoneOf, *, private: bool
) -> AsyncIterator[tuple[aiohttp.ClientSession, aiohttp.ClientSession]]:
    """Provide a session, which with `private` may connect to private addresses, and one that may not.

    A given session is used for both, and not closed.
    """
    if given is not None:
        yield given, given
        return
    async with _new_session(zone_of, private=False) as public:
        if not private:
            yield public, public
            return
        async with _new_session(zone_of, private=True) as every:
            yield every, public


def _new_session(zone_of: ZoneOf, *, private: bool) -> aiohttp.ClientSession:
    connector = guarded_connector(private=private, zone_of=zone_of)
    return aiohttp.ClientSession(connector=connector, response_class=_Answer)


def is_from_public(answer: aiohttp.ClientResponse, zone_of: ZoneOf) -> bool:
    """Return whether the answer came from the public internet, or from an unknown address."""
    peer = answer.peer if isinstance(answer, _Answer) else None
    return peer is None or zone_of(peer) is Zone.PUBLIC
