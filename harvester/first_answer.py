"""The first request to a repository that is not known yet: without any answer, nothing is written down.

An answer is whatever comes, an error as well. The harvest that follows is given it and does not ask again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harvester.client.exchange import HttpRequest, RawReply, Send
from harvester.protocols import open_protocol_client
from harvester.reading.errors import ClientError, TransportError
from oai.errors import TryLaterError
from oai.sections import HarvesterSettings


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
