"""Which failed requests are tried again, how often, and how long to wait before each."""

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self, TypedDict
from urllib.parse import urlsplit

from harvester.client.transport import HttpReply
from harvester.reading.errors import HttpStatusError, ServerBusyError, TransportError, TransportKind
from harvester.reading.replies import looks_like_oai_pmh
from oai.errors import TryLaterError
from oai.failures import Failure, FailureCode

_SUCCESS = 200
_BUSY = frozenset({429, 503})
# 52x are those of a proxy before the server: it is down, or slow.
_WORTH_ANOTHER_TRY = frozenset({408, 425, 429, 500, 502, 503, 504, *range(520, 525)})
_HOPELESS = frozenset(
    {TransportKind.ADDRESS, TransportKind.PRIVATE, TransportKind.REDIRECT, TransportKind.TLS}
)
_LONGEST_DELAY = 60.0
_LEAST_COUNTED = 1.0
_LONGEST_ASKED = 366 * 86_400.0
_ENDING = b"OAI-PMH>"
_TAIL_BYTES = 4096


class WaitReason(str):
    """Why a client waits, in technical words; `failure` says the same as a code with facts."""

    __slots__ = ("failure",)
    failure: Failure | None

    def __new__(cls, words: str, failure: Failure | None) -> Self:
        """The words with their failure."""
        reason = super().__new__(cls, words)
        reason.failure = failure
        return reason


class WaitingTooLongError(ServerBusyError):
    """The server has asked to wait again and again; `failure` has the limit that was met."""

    def __init__(self, reply: HttpReply, seconds: float | None, limit: float) -> None:
        facts = {"limit": round(limit), "setting": "harvester.max_wait_total"}
        self.failure = Failure(code=FailureCode.WAITING_TIME, facts=facts)
        # The words of the class between, which ask to come back in so many seconds, are for a single wait.
        TryLaterError.__init__(self, f"{reply.url}: {self.failure.sentence()}")
        self.url = reply.url
        self.status = reply.status
        self.seconds = seconds


class Patience(TypedDict, total=False):
    """How patient a client is to be; what is left out is as `Retrying` has it."""

    retries: int
    max_wait: float
    max_wait_total: float
    first_delay: float
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    chance: Callable[[], float]
    on_wait: Callable[[float, str], None]


@dataclass(frozen=True, kw_only=True)
class Retrying:
    """How patient a client is.

    A request that failed in a way that may pass is tried `retries` more times. Between the tries it waits
    `first_delay` seconds, then twice as long each time, up to a minute, by chance up to a half less, or as
    long as the server's Retry-After says, unless that is more than `max_wait` seconds. A busy server (503 or
    429) that asks for some time and is given it uses up no try; after `max_wait_total` seconds of such waits
    for one request it is given up. `on_wait` is told how long and why. `clock` gives seconds since 1970,
    `sleep` waits, `chance` gives a figure from 0 to 1.
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
    """Hosts that have answered; further ones with other patience (`replace`) share them."""

    async def fetch(self, attempt: Callable[[], Awaitable[HttpReply]], *, loose: bool = False) -> HttpReply:
        """Make the attempt until it succeeds or further ones are in vain.

        An answer that broke off counts as failed; with `loose`, its last try comes as far as it came.
        Raises TransportError, HttpStatusError, ServerBusyError, and what else the attempt raises.
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
            if reply.status == _SUCCESS or _is_answer(reply):
                return reply
            # Once only: what a date asks for is less each time that it is looked at.
            asked = retry_after(reply.headers.get("Retry-After"), self.clock())
            kept = reply.status in _BUSY and bool(asked)
            delay = self._delay_after(reply, asked, number, last=last and not kept)
            if reply.status in _BUSY:
                waited = self._waited(reply, asked, waited, delay)
            failure = HttpStatusError(reply.url, reply.status).failure
            await self._wait(delay, f"HTTP status {reply.status}", failure)
            number += not kept

    def _is_unknown_host(self, error: TransportError) -> bool:
        """Whether there is no host of that name, as far as one can tell.

        One that has answered before is there; and a name server that cannot be asked may be a moment later.
        """
        if error.kind is not TransportKind.DNS or urlsplit(error.url).netloc in self.answered:
            return False
        lookup = getattr(error.__cause__, "os_error", None)
        return getattr(lookup, "errno", None) != socket.EAI_AGAIN

    async def _wait(self, seconds: float, reason: str, failure: Failure | None) -> None:
        self.on_wait(seconds, WaitReason(reason, failure))
        await self.sleep(seconds)

    def _delay(self, number: int) -> float:
        return float(min(self.first_delay * 2.0 ** min(number, 10), _LONGEST_DELAY) * (1 - self.chance() / 2))

    def _delay_after(self, reply: HttpReply, asked: float | None, number: int, *, last: bool) -> float:
        """Seconds to wait after a status that is no success, or its error."""
        if reply.status not in _WORTH_ANOTHER_TRY:
            raise HttpStatusError(reply.url, reply.status)
        too_long = asked is not None and asked > self.max_wait
        if too_long or (last and reply.status in _BUSY):
            raise ServerBusyError(reply.url, reply.status, asked)
        if last:
            raise HttpStatusError(reply.url, reply.status, f"after {number + 1} attempts")
        # A server that says 0 and stays busy would be asked in vain within a moment.
        return max(asked or 0.0, self._delay(number))

    def _waited(self, reply: HttpReply, asked: float | None, waited: float, delay: float) -> float:
        """Seconds waited for the request, this wait included. Raises WaitingTooLongError beyond the total.

        How long a single wait may be is for `max_wait` to say, so the first one never is beyond it.
        """
        # At least a second counts: a server that asks for less and less must come to an end as well.
        total = waited + max(delay, _LEAST_COUNTED)
        if waited and total > self.max_wait_total:
            raise WaitingTooLongError(reply, asked, self.max_wait_total)
        return total


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks to wait, written as seconds or as a date (RFC 9110, 10.2.3).

    At most a year; None where there is none, or it says nothing of the kind. `now` is in seconds since 1970.
    """
    text = (value or "").strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), _LONGEST_ASKED)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - datetime.fromtimestamp(now, UTC)).total_seconds(), 0.0), _LONGEST_ASKED)


def _check_whole(reply: HttpReply, *, loose: bool) -> None:
    """Raise what broke the answer off, unless it is whole all the same, or a part of it is welcome.

    A server that counts the bytes of its answer wrongly breaks off every one of them, whole or not.
    """
    ended = reply.content[-_TAIL_BYTES:].rstrip().endswith(_ENDING)
    if reply.cut is None or reply.status != _SUCCESS or ended:
        return
    if not (loose and looks_like_oai_pmh(reply.content)):
        raise reply.cut


def _is_answer(reply: HttpReply) -> bool:
    """Whether an answer with an error status is OAI-PMH all the same; a busy server's never is."""
    return reply.status not in _WORTH_ANOTHER_TRY and looks_like_oai_pmh(reply.content)
