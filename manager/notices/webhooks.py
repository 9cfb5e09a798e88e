"""Post JSON to a web address, signed: HMAC-SHA256 over the timestamp, a dot and the body."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from pydantic import SecretStr
from yarl import URL

from manager.notices.models import UnsentReason
from manager.notices.outbox import NotConfiguredError, NotSentError, RefusedError
from oai.errors import SettingsError, UsageError
from oai.outgoing import WebhookSettings
from oai.private_files import read_secret
from oai.reach import UnreachableZoneError, ZoneOf, check_address, guarded_connector, tls_fault, zone_of


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
    try:
        (URL.build(scheme="http", host=host).raw_host or "").encode("idna")
    except ValueError:
        raise UsageError("%(url)s is not a web address: the host name is not valid", url=repr(url)) from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "the address contains a user name or password; remove them, because lists show the address"
        )
    with contextlib.suppress(ValueError):  # a name; it is checked when it is connected to
        try:
            check_address(host, private=private_networks)
        except UnreachableZoneError:
            raise _refusal() from None


def _refusal() -> UsageError:
    # Not the address: whoever may write a rule could otherwise look up names of the private network.
    return UsageError(
        "the address is not on the public internet; to allow private networks, set webhooks.private_networks"
    )


def secret_of(given: SecretStr | None, file: Path | None, *, setting: str) -> str | None:
    """Return the secret; None if none is set. Raises NotSentError if the file is unreadable or empty."""
    try:
        return read_secret(given, file, setting=setting)
    except SettingsError as error:
        raise NotConfiguredError(str(error)) from None


logger = logging.getLogger(__name__)

_GONE: Final = 410
_GOOD: Final = range(200, 300)
_SHOWN_BYTES: Final = 200
_LONGEST_LINE: Final = 64 * 1024

BeforeSending = Callable[[], Awaitable[None]]


async def post(
    url: str,
    payload: Mapping[str, Any],
    settings: WebhookSettings,
    *,
    number: str,
    keys: Sequence[str] = (),
    before_sending: BeforeSending | None = None,
    clock: Callable[[], float] = time.time,
    zone_of: ZoneOf = zone_of,
) -> None:
    """Post the payload; a status of 200 to 299 means that it was accepted.

    `keys` are those of the webhook (`outbox.keys_of`); without any, the common one is used.
    `number` is the same for each attempt, so that a receiver can recognise repetitions. `before_sending` is
    awaited when the connection is established. Raises NotSentError, or RefusedError if another attempt is
    pointless.
    """
    try:
        check_url(url, private_networks=settings.private_networks)
    except UsageError as error:
        raise RefusedError(str(error)) from None
    body = json.dumps(payload, ensure_ascii=False, default=str).encode()
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Zatva (webhook)",
        "Zatva-Notice": number,
        **signature_headers(body, [key or signing_key(settings) for key in keys or [""]], int(clock())),
    }
    session = _session(settings, zone_of=zone_of, before_sending=before_sending)
    with _in_words(url, settings):
        async with session, session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
            # Accepted, however badly the rest of the answer may arrive: it must not be sent again.
            if answer.status not in _GOOD:
                text = await answer.content.read(_SHOWN_BYTES)
                raise _refused(url, answer.status, text.decode("utf-8", errors="replace"))


def _session(
    settings: WebhookSettings,
    *,
    zone_of: ZoneOf,
    before_sending: BeforeSending | None,
) -> aiohttp.ClientSession:
    trace = aiohttp.TraceConfig()
    if before_sending is not None:
        trace.on_connection_create_end.append(_when_connected(before_sending))
    return aiohttp.ClientSession(
        connector=guarded_connector(private=settings.private_networks, zone_of=zone_of),
        timeout=aiohttp.ClientTimeout(total=settings.timeout),
        trace_configs=[trace],
        # A long header, such as a cookie or a policy, does not make an accepted message unsent.
        max_line_size=_LONGEST_LINE,
        max_field_size=_LONGEST_LINE,
    )


@contextlib.contextmanager
def _in_words(url: str, settings: WebhookSettings) -> Iterator[None]:
    """Translate what aiohttp raises into a NotSentError.

    What it says about our network (addresses of names, which ports are open) is logged, not shown to the
    users who may write rules.
    """
    try:
        yield
    except TimeoutError:
        words = UnsentReason.NO_ANSWER % {"number": f"{settings.timeout:g}"}
        raise NotSentError(f"{url}: {words}") from None
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, UnreachableZoneError):
            raise NotSentError(f"{url}: {_refusal()}") from None
        logger.warning("%s: %s", url, tls_fault(error) or error)
        raise NotSentError(f"{url}: {UnsentReason.NO_CONNECTION}") from None
    except aiohttp.ClientError as error:
        logger.warning("%s: %s", url, error)
        raise NotSentError(f"{url}: {UnsentReason.NO_WHOLE_ANSWER}") from None


def signature_headers(body: bytes, keys: Sequence[str], timestamp: int) -> dict[str, str]:
    """Return `Zatva-Timestamp`, seconds since 1970, and `Zatva-Signature`, `sha256=` and hex digits.

    `Zatva-Signature-Next` has the signature with the second key, which is about to replace the first one.
    """
    signed = f"{timestamp}.".encode() + body
    codes = [hmac.new(key.encode(), signed, hashlib.sha256).hexdigest() for key in keys]
    names = ("Zatva-Signature", "Zatva-Signature-Next")
    return {
        "Zatva-Timestamp": str(timestamp),
        **{name: f"sha256={code}" for name, code in zip(names, codes, strict=False)},
    }


def signing_key(settings: WebhookSettings) -> str:
    """Return the key of the settings, which signs hooks. Raises NotSentError if there is none."""
    secret = secret_of(settings.secret, settings.secret_file, setting="webhooks.secret_file")
    if not secret:
        raise NotSentError("no signing key is set; set webhooks.secret_file")
    return secret


def _refused(url: str, status: int, answer: str) -> NotSentError:
    # The answer is logged, not shown: it could be that of a service in our network.
    logger.warning("%s: HTTP status %d: %s", url, status, " ".join(answer.split()))
    words = (UnsentReason.GONE if status == _GONE else UnsentReason.STATUS) % {"number": status}
    return (RefusedError if status == _GONE else NotSentError)(f"{url}: {words}")


def _when_connected(before_sending: BeforeSending) -> Callable[..., Awaitable[None]]:
    async def connected(*_: object) -> None:
        await asyncio.shield(before_sending())

    return connected
