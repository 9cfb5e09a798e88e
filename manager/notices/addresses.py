"""Web addresses that users type: which may be asked, looked at again when their names are resolved."""

import ipaddress
import socket
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from manager.notices.refusals import NotSentError
from oai.errors import UsageError
from oai.public_addresses import is_public


class PrivateAddressError(NotSentError, OSError):
    """A name leads to an address that is not on the public internet."""


def check_url(url: str, *, private_networks: bool) -> None:
    """Raises UsageError unless it is a web address, and, as far as one sees without DNS, a public one."""
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
    """Resolves names for the connection itself, and refuses those that lead to a private network.

    So a name cannot be public when it is looked at and private when it is connected to.
    """

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The host's addresses; raises PrivateAddressError where one of them is not public."""
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            if not is_public(each["host"]):
                raise PrivateAddressError(_refusal(host, each["host"]))
        return found

    async def close(self) -> None:
        """Nothing is held open."""
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
