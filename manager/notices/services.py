"""Notices to chat and push services (Slack, Teams, Matrix, ntfy, …) by Apprise, in a process of their own.

Apprise opens its connections itself, to an address that may have been typed wrongly, so the process lets its
sockets connect only where `oai.reach` allows. The service's address holds its secrets: it comes by stdin, not
as an argument, and no message repeats it.
"""

import asyncio
import json
import logging
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable
from typing import Any, Final

from manager.notices.letters import Letter
from manager.notices.outbox import NotSentError, RefusedError
from oai.child import module_command
from oai.errors import SettingsError
from oai.outgoing import ServiceSettings, WebhookSettings
from oai.private_files import read_secret
from oai.reach import UnreachableZoneError, check_address

_log = logging.getLogger(__name__)
_SHOWN: Final = 300
_LEAST_SECRET: Final = 4
"""Parts of an address that are shorter are not secret, and would hide words of the message."""


async def send(
    name: str, letter: Letter, services: Iterable[ServiceSettings], settings: WebhookSettings
) -> None:
    """Send a notice to the service of that name. Raises NotSentError, or RefusedError if it is gone."""
    service = next((service for service in services if service.name == name), None)
    if service is None:
        raise RefusedError(f"no service named {name!r} in manager.services")
    address = _address(service)
    wanted = {
        "url": address,
        "title": letter.subject,
        "body": letter.body,
        "private": settings.private_networks,
    }
    process = await asyncio.create_subprocess_exec(
        *module_command(__name__), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(json.dumps(wanted).encode()), settings.timeout)
    except TimeoutError:
        raise NotSentError(f"{name}: no answer in {settings.timeout:g} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    _judge(name, said, address)


def _address(service: ServiceSettings) -> str:
    try:
        address = read_secret(service.url, service.url_file, setting=f"manager.services: {service.name}")
    except SettingsError as error:
        raise NotSentError(str(error)) from None
    scheme = (address or "").partition(":")[0].lower()
    if not address or scheme not in SCHEMES:
        raise RefusedError(
            f"{service.name}: {scheme!r} is not a service that Zatva uses: {', '.join(SCHEMES)}"
        )
    return address


def _judge(name: str, said: bytes, address: str) -> None:
    try:
        answer = json.loads(said)
    except ValueError:
        raise NotSentError(f"{name}: the process that sends ended without a result") from None
    if answer["sent"]:
        return
    reason = _without_secrets(str(answer["reason"]), address)[:_SHOWN]
    raise NotSentError(f"{name}: {reason}")


def _without_secrets(text: str, address: str) -> str:
    for sign in ":@?&=/":
        address = address.replace(sign, " ")
    for part in sorted(address.split(), key=len, reverse=True):
        if len(part) >= _LEAST_SECRET and part not in SCHEMES:
            text = text.replace(part, "…")
    return " ".join(text.split())


SCHEMES: Final = (
    "bark", "barks", "discord", "gchat", "gotify", "gotifys", "matrix", "matrixs", "mmost", "mmosts",
    "msteams", "ntfy", "ntfys", "opsgenie", "pagerduty", "pover", "rocket", "rockets", "signal", "signals",
    "slack", "tgram", "webex", "wxteams", "workflow", "workflows", "zulip",
)  # fmt: skip
"""Schemes of Apprise's addresses of services in the network; others run programs or write files."""


def _main() -> None:
    """Send what stdin says, and print whether it was accepted; the process's whole work."""
    wanted = json.loads(sys.stdin.read())
    _guard(private=wanted["private"])
    try:
        import apprise  # noqa: PLC0415 after the guard, and only in this process: it takes long
    except ImportError:
        _say(sent=False, reason="Apprise is not installed; pip install 'zatva[services]'")
        return
    heard: list[str] = []
    logger = logging.getLogger("apprise")
    logger.addHandler(_Hearing(heard))
    logger.propagate = False
    service = apprise.Apprise()
    if not service.add(wanted["url"]):
        _say(sent=False, reason="the address is incomplete; see Apprise's documentation of the service")
        return
    sent = service.notify(title=wanted["title"], body=wanted["body"], body_format=apprise.NotifyFormat.TEXT)
    _say(sent=bool(sent), reason="; ".join(heard) or "the service did not accept the message")


class _Hearing(logging.Handler):
    """Collects what Apprise complains about."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(record.getMessage())


def _guard(*, private: bool) -> None:
    """Let this process's sockets connect only where they may, by the address they really connect to."""

    class Guarded(socket.socket):
        def connect(self, address: Any) -> None:  # noqa: ANN401 as declared
            _check(self, address, private=private)
            super().connect(address)

        def connect_ex(self, address: Any) -> int:  # noqa: ANN401 as declared
            _check(self, address, private=private)
            return super().connect_ex(address)

    socket.socket = Guarded  # type: ignore[misc]


def _check(one: socket.socket, address: Any, *, private: bool) -> None:  # noqa: ANN401 a socket's
    if one.family in (socket.AF_INET, socket.AF_INET6):
        check_address(str(address[0]), private=private)
    else:
        raise UnreachableZoneError


def _say(*, sent: bool, reason: str) -> None:
    sys.stdout.write(json.dumps({"sent": sent, "reason": reason}))


if __name__ == "__main__":
    _main()
