"""Keeps requests on the public internet, whatever a name or a redirect leads to.

The address is looked at when the socket to it is made: names that lead elsewhere the second time they are
looked up, addresses written as numbers, and redirects are all caught there.
"""

import socket
from typing import Any

import aiohttp

from oai.public_addresses import is_public


class PrivateAddressError(OSError):
    """A connection would lead to an address that is not on the public internet."""

    def __init__(self) -> None:
        # Of one host's addresses each gives the same text: then aiohttp hands on the first error as it is.
        super().__init__("the address is not on the public internet")


def public_connector() -> aiohttp.TCPConnector:
    """A connector that makes no connection to private, loopback, link-local and other special addresses."""
    return aiohttp.TCPConnector(socket_factory=_public_socket)


def _public_socket(where: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _name, address = where
    if not is_public(str(address[0])):
        raise PrivateAddressError
    return socket.socket(family=family, type=kind, proto=protocol)
