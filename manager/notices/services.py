"""Notices to chat and push services (Slack, Teams, Matrix, ntfy, …) by Apprise, in a process of their own.

The process (`service_process`) lets its sockets connect only where it may. The service's address holds its
secrets: it comes by stdin, not as an argument, and no message repeats it.
"""

import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable
from typing import Final

from manager.notices.letters import Letter
from manager.notices.models import UnsentReason
from manager.notices.outbox import NotConfiguredError, NotSentError, RefusedError
from oai.child import module_command
from oai.errors import SettingsError
from oai.outgoing import ServiceSettings, WebhookSettings
from oai.private_files import read_secret

_PROCESS: Final = "manager.notices.service_process"
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
        *module_command(_PROCESS), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(json.dumps(wanted).encode()), settings.timeout)
    except TimeoutError:
        words = UnsentReason.NO_ANSWER % {"number": f"{settings.timeout:g}"}
        raise NotSentError(f"{name}: {words}") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    _judge(name, output, address)


def _address(service: ServiceSettings) -> str:
    try:
        address = read_secret(service.url, service.url_file, setting=f"manager.services: {service.name}")
    except SettingsError as error:
        raise NotConfiguredError(str(error)) from None
    if not address or address.partition(":")[0].lower() not in SCHEMES:
        # Without what the address begins with: it may be a secret in the wrong place.
        raise RefusedError(
            f"{service.name}: its address is not of a service that Zatva uses: {', '.join(SCHEMES)}"
        )
    return address


def _judge(name: str, output: bytes, address: str) -> None:
    try:
        answer = json.loads(output)
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
