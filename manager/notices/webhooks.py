"""Posts JSON to a web address, signed: HMAC-SHA256 over the time, a dot and the body."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

import aiohttp

from manager.notices.addresses import PrivateAddressError, PublicResolver, check_url
from manager.notices.refusals import NotSentError, RefusedError
from manager.notices.secrets import secret_of
from oai.errors import UsageError
from oai.outgoing import WebhookSettings

_GONE: Final = 410
_GOOD: Final = range(200, 300)
_SHOWN_BYTES: Final = 200

BeforeSending = Callable[[], Awaitable[None]]


async def post(
    url: str,
    payload: Mapping[str, Any],
    settings: WebhookSettings,
    *,
    number: str,
    private_networks: bool | None = None,
    before_sending: BeforeSending | None = None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Post the payload; an answer of 200 to 299 says that it was taken.

    `number` is the same at each try, so that a receiver can tell them. `before_sending` is awaited when the
    connection stands. Raises NotSentError, or RefusedError where trying again is of no use.
    """
    allowed = settings.private_networks if private_networks is None else private_networks
    try:
        check_url(url, private_networks=allowed)
    except UsageError as error:
        raise RefusedError(str(error)) from None
    body = json.dumps(payload, ensure_ascii=False, default=str).encode()
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Zatva (webhook)",
        "Zatva-Notice": number,
        **signature_headers(body, _secret(settings), int(clock())),
    }
    session = _session(settings, private_networks=allowed, before_sending=before_sending)
    with _in_words(url, settings):
        async with session, session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
            said = (await answer.content.read(_SHOWN_BYTES)).decode("utf-8", errors="replace")
            _judge(url, answer.status, said)


def _session(
    settings: WebhookSettings, *, private_networks: bool, before_sending: BeforeSending | None
) -> aiohttp.ClientSession:
    trace = aiohttp.TraceConfig()
    if before_sending is not None:
        trace.on_connection_create_end.append(_told(before_sending))
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=None if private_networks else PublicResolver()),
        timeout=aiohttp.ClientTimeout(total=settings.timeout),
        trace_configs=[trace],
    )


@contextlib.contextmanager
def _in_words(url: str, settings: WebhookSettings) -> Iterator[None]:
    """Tell what aiohttp raises as a NotSentError."""
    try:
        yield
    except TimeoutError:
        raise NotSentError(f"{url}: no answer in {settings.timeout:g} seconds") from None
    except aiohttp.ClientConnectorError as error:
        private = error.os_error if isinstance(error.os_error, PrivateAddressError) else None
        raise NotSentError(f"{url}: {private or error}") from None
    except aiohttp.ClientError as error:
        raise NotSentError(f"{url}: {error}") from None


def signature_headers(body: bytes, secret: str, timestamp: int) -> dict[str, str]:
    """`Zatva-Timestamp`, seconds since 1970, and `Zatva-Signature`: `sha256=` and hexadecimal digits."""
    code = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Zatva-Timestamp": str(timestamp), "Zatva-Signature": f"sha256={code}"}


def _secret(settings: WebhookSettings) -> str:
    secret = secret_of(settings.secret, settings.secret_file, setting="webhooks.secret_file")
    if not secret:
        raise NotSentError("no signing key is set; set webhooks.secret_file")
    return secret


def _judge(url: str, status: int, said: str) -> None:
    if status in _GOOD:
        return
    words = " ".join(said.split())
    message = f"{url}: HTTP status {status}" + (f": {words}" if words else "")
    raise (
        RefusedError(f"{message}; the receiver does not accept further messages")
        if status == _GONE
        else NotSentError(message)
    )


def _told(before_sending: BeforeSending) -> Callable[..., Awaitable[None]]:
    async def connected(*_: object) -> None:
        await asyncio.shield(before_sending())

    return connected
