"""Which failed requests are retried, how often, and how long to wait before each attempt."""

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self, TypedDict, Unpack
from urllib.parse import urlsplit

from harvester.client.transport import HttpReply
from harvester.reading.envelope import error_answer
from harvester.reading.errors import HttpStatusError, ServerBusyError, TransportError, TransportKind
from harvester.reading.replies import looks_like_oai_pmh
from oai.errors import TryLaterError
from oai.failures import Failure, FailureCode
from oai.guarded_http import retry_after
from oai.sections import HarvesterSettings

_SUCCESS = 200
_SERVER_ERROR = 500
_BUSY = frozenset({429, 503})
# A proxy in front of the server sends 52x if the server is down or slow.
_WORTH_ANOTHER_TRY = frozenset({408, 425, 429, 500, 502, 503, 504, *range(520, 525)})
_HOPELESS = frozenset(
    {
        TransportKind.ADDRESS,
        TransportKind.HTTP,
        TransportKind.NO_TLS,
        TransportKind.PRIVATE,
        TransportKind.REDIRECT,
        TransportKind.TLS,
    }
)
_LONGEST_DELAY = 60.0
_LEAST_COUNTED = 1.0
_ENDING = b"OAI-PMH>"
_TAIL_BYTES = 4096


class ClientWait(str):
    """Why a client waits, as technical text; `failure` is the same as a code with facts."""

    __slots__ = ("failure",)
    failure: Failure | None

    def __new__(cls, words: str, failure: Failure | None) -> Self:
        """Create the text with its failure."""
        reason = super().__new__(cls, words)
        reason.failure = failure
        return reason


class WaitingTooLongError(ServerBusyError):
    """The server has repeatedly asked to wait; `failure` has the limit that was reached."""

    def __init__(self, reply: HttpReply, seconds: float | None, limit: float) -> None:
        facts = {"limit": round(limit), "setting": "harvester.max_wait_total"}
        self.failure = Failure(code=FailureCode.WAITING_TIME, facts=facts)
        # Not the text of the class in between, which names the seconds to wait: that is for a single wait.
        TryLaterError.__init__(self, f"{reply.url}: {self.failure.sentence()}")
        self.url = reply.url
        self.status = reply.status
        self.seconds = seconds


class _OtherOptions(TypedDict, total=False):
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    chance: Callable[[], float]
    on_wait: Callable[[float, str], None]


class RetryOptions(_OtherOptions, total=False):
    """The retry settings of a client; for those left out, the defaults of `Retrying` apply."""

    retries: int
    max_wait: float
    max_wait_total: float
    first_delay: float


def retry_options(
    settings: HarvesterSettings, *, retries: int | None = None, **others: Unpack[_OtherOptions]
) -> RetryOptions:
    """Return the retry options from the settings, with the others; `retries` overrides the setting."""
    return {
        "retries": settings.retries if retries is None else retries,
        "max_wait": settings.max_wait,
        "max_wait_total": settings.max_wait_total,
        "first_delay": settings.first_delay,
        **others,
    }


@dataclass(frozen=True, kw_only=True)
class Retrying:
    """The retry settings of a client.

    A request that failed temporarily is repeated up to `retries` times. Before the first retry it waits
    `first_delay` seconds, then twice as long each time, up to a minute, each time reduced at random by up to
    one half; or as long as the server's Retry-After says, unless that is more than `max_wait` seconds. A wait
    that a busy server (503 or 429) asks for and gets does not count as a retry; after `max_wait_total`
    seconds of such waits for one request it is given up. `on_wait` is called with the duration and the
    reason. `clock` returns seconds since 1970, `sleep` waits, `chance` returns a number from 0 to 1.
    """

    retries: int = 5
    max_wait: float = 3600
    max_wait_total: float = 6 * 3600
    first_delay: float = 0.5
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None
    answered: set[str] = field(default_factory=set)
    """Hosts that have answered; copies with other retries (`replace`) share the set."""

    async def fetch(self, attempt: Callable[[], Awaitable[HttpReply]], *, loose: bool = False) -> HttpReply:
        """Make the attempt until it succeeds or further ones are pointless.

        A truncated answer counts as failed; with `loose`, the one of the last attempt is returned as far as
        it was received. Raises TransportError, HttpStatusError, ServerBusyError, and what else the attempt
        raises.
        """
        number, waited = 0, 0.0
        while True:
            last = number == self.retries
            try:
                reply = await attempt()
                _check_whole(reply, loose=loose and last)
            except TransportError as error:
                if last or error.kind in _HOPELESS or self._is_unknown_host(error):
                    raise
                await self._wait(self._delay(number), str(error), error.failure)
                number += 1
                continue
            self.answered.update(urlsplit(address).netloc for address in (reply.url, *reply.hops))
            if reply.status == _SUCCESS or _is_answer(reply, last=last):
                return reply
            # Evaluated once: the time until a given date shrinks with each evaluation.
            asked = retry_after(reply.headers.get("Retry-After"), self.clock())
            kept = reply.status in _BUSY and bool(asked)
            delay = self._delay_after(reply, asked, number, last=last and not kept)
            if reply.status in _BUSY:
                waited = self._waited(reply, asked, waited, delay)
            failure = HttpStatusError(reply.url, reply.status).failure
            await self._wait(delay, f"HTTP status {reply.status}", failure)
            number += not kept

    def _is_unknown_host(self, error: TransportError) -> bool:
        """Return whether the host does not exist, as far as can be determined.

        A host that has answered before exists; and a name server that is unreachable may answer a moment
        later.
        """
        if error.kind is not TransportKind.DNS or urlsplit(error.url).netloc in self.answered:
            return False
        lookup = getattr(error.__cause__, "os_error", None)
        return getattr(lookup, "errno", None) != socket.EAI_AGAIN

    async def _wait(self, seconds: float, reason: str, failure: Failure | None) -> None:
        self.on_wait(seconds, ClientWait(reason, failure))
        await self.sleep(seconds)

    def _delay(self, number: int) -> float:
        return float(min(self.first_delay * 2.0 ** min(number, 10), _LONGEST_DELAY) * (1 - self.chance() / 2))

    def _delay_after(self, reply: HttpReply, asked: float | None, number: int, *, last: bool) -> float:
        """Return the seconds to wait after an unsuccessful status, or raise its error."""
        if reply.is_bot_check or reply.status not in _WORTH_ANOTHER_TRY:
            raise HttpStatusError(reply.url, reply.status, reply.redirection, bot_check=reply.is_bot_check)
        too_long = asked is not None and asked > self.max_wait
        if too_long or (last and reply.status in _BUSY):
            raise ServerBusyError(reply.url, reply.status, asked)
        if last:
            reason = f"{reply.redirection} after {number + 1} attempts".lstrip()
            raise HttpStatusError(reply.url, reply.status, reason)
        # A server that says 0 and stays busy would otherwise be retried without effect within a moment.
        return max(asked or 0.0, self._delay(number))

    def _waited(self, reply: HttpReply, asked: float | None, waited: float, delay: float) -> float:
        """Return the seconds waited for the request, including this wait.

        Raises WaitingTooLongError beyond the total. `max_wait` limits a single wait, so the first one never
        exceeds the total.
        """
        # At least a second counts, so that a server that asks for shorter and shorter waits reaches the
        # limit, too.
        total = waited + max(delay, _LEAST_COUNTED)
        if waited and total > self.max_wait_total:
            raise WaitingTooLongError(reply, asked, self.max_wait_total)
        return total


def _check_whole(reply: HttpReply, *, loose: bool) -> None:
    """Raise the reason for a truncated answer, unless it is complete anyway, or a part is accepted.

    A server that miscounts the bytes of its answers truncates every one of them, complete or not.
    """
    ended = reply.content[-_TAIL_BYTES:].rstrip().endswith(_ENDING)
    if reply.cut is None or reply.status != _SUCCESS or ended:
        return
    if not (loose and looks_like_oai_pmh(reply.content)):
        raise reply.cut


def _is_answer(reply: HttpReply, *, last: bool) -> bool:
    """Return whether an answer with an error status is still OAI-PMH; one of a busy server never is.

    With status 500, some servers send the protocol's errors, but it may also be a temporary failure.
    """
    if reply.status == _SERVER_ERROR:
        return last and error_answer(reply.content) is not None
    return reply.status not in _WORTH_ANOTHER_TRY and looks_like_oai_pmh(reply.content)
