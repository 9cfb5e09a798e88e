"""Post JSON to a web address, signed: HMAC-SHA256 over the timestamp, a dot and the body."""

import asyncio
import contextlib
import hashlib
import hmac
import ipaddress
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from pydantic import SecretStr

from manager.notices.outbox import NotSentError, RefusedError
from oai.errors import UsageError
from oai.outgoing import WebhookSettings
from oai.proxies import is_public


class PrivateAddressError(NotSentError, OSError):
    """A name resolves to an address that is not on the public internet."""


def check_url(url: str, *, private_networks: bool) -> None:
    """Raise UsageError unless this is a web address and, as far as visible without DNS, a public one."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError("%(url)s is not a web address: %(fault)s", url=repr(url), fault=str(error)) from None
    if parts.scheme not in ("http", "https") or not host or any(map(str.isspace, url)):
        raise UsageError(
            "%(url)s is not a web address; give one that begins with https:// or http://", url=repr(url)
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "the address contains a user name or password; remove them, because lists show the address"
        )
    if not private_networks and _is_literal(host) and not is_public(host):
        raise UsageError(_refusal(host, host))


class PublicResolver(AbstractResolver):
    """Resolves names for the connection itself, and refuses names that lead to a private network.

    So a name cannot resolve to a public address when it is checked and to a private one when it is connected
    to.
    """

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the host's addresses; raises PrivateAddressError if one of them is not public."""
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            if not is_public(each["host"]):
                raise PrivateAddressError(_refusal(host, each["host"]))
        return found

    async def close(self) -> None:
        """Do nothing: this resolver holds no resources."""
        await self._resolver.close()


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _refusal(host: str, address: str) -> str:
    return (
        f"{host!r} resolves to {address}, which is not on the public internet; to allow it, set "
        "webhooks.private_networks"
    )


def secret_of(given: SecretStr | None, file: Path | None, *, setting: str) -> str | None:
    """Return the secret; None if none is set. Raises NotSentError if the file is unreadable or empty."""
    if file is None:
        return given.get_secret_value() if given is not None else None
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NotSentError(
            f"setting {setting}: {file}: {error}; make the file readable for the manager's user"
        ) from None
    if not lines or not lines[0].strip():
        raise NotSentError(f"setting {setting}: {file}: its first line is empty; write the secret there")
    return lines[0].strip()


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
    """Post the payload; a status of 200 to 299 means that it was accepted.

    `number` is the same for each attempt, so that a receiver can recognise repetitions. `before_sending` is
    awaited when the connection is established. Raises NotSentError, or RefusedError if another attempt is
    pointless.
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
    """Translate what aiohttp raises into a NotSentError."""
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
    """Return `Zatva-Timestamp`, seconds since 1970, and `Zatva-Signature`, `sha256=` and hex digits."""
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
