"""Addresses: where connections may lead, which URLs are the same place, credentials, proxies, TLS faults.

Where a connection may lead is decided by the address that is really connected to.

Names are no basis: they may resolve to something else a moment later (DNS rebinding), and an IPv4 address
has many spellings. So the check is made with the socket, after the name was resolved.
"""

import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from oai.proxies import is_public

if TYPE_CHECKING:
    import aiohttp

_NEVER: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16",  # link-local; the metadata services of most clouds
            "fe80::/10",
            "fd00:ec2::/32",  # metadata: Amazon
            "fd20:ce::/32",  # Google
            "100.100.100.200/32",  # Alibaba
            "168.63.129.16/32",  # Azure
            "192.0.0.192/32",  # Oracle
        ),
    )
)
_CARRIERS: Final = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"))
)
"""Networks whose addresses have an IPv4 address in their last four bytes."""
_IPV4_BITS: Final = 0xFFFF_FFFF
CREDENTIALS: Final = r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@"
"""Matches a URL up to its host, for Python and for PostgreSQL; the group is what stays."""
_CREDENTIALS: Final = re.compile(CREDENTIALS)
_PLAIN: Final = ("WRONG_VERSION_NUMBER", "record layer failure")
"""What OpenSSL reports for an answer in plain text, by version."""
NO_TLS: Final = "the server does not use TLS on this port"
_PROXIES: Final = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"})


class Zone(Enum):
    """The part of the network to which an address belongs."""

    PUBLIC = "public"
    PRIVATE = "private"
    NEVER = "never"
    """Link-local networks and the metadata services of clouds, which hand out credentials."""


def without_credentials(url: str) -> str:
    """Return the URL without user name and password, for messages and for everybody.

    >>> without_credentials("https://me:secret@repository.example/oai?verb=Identify")
    'https://repository.example/oai?verb=Identify'
    """
    return _CREDENTIALS.sub(r"\1", url)


def is_same_place(url: str, other: str) -> bool:
    """Return whether two addresses differ only in http or https, a slash at the end, or credentials.

    >>> is_same_place("http://repository.example/oai/", "https://repository.example:443/oai")
    True
    """
    return _place(url) == _place(other)


def _place(url: str) -> tuple[str, str, str, str]:
    parts = urlsplit(without_credentials(url))
    scheme = "http" if parts.scheme == "https" else parts.scheme
    usual = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    host = parts.netloc.lower().removesuffix(usual).removesuffix(":")
    return scheme, host, parts.path.rstrip("/"), parts.query


def proxy_variables() -> list[str]:
    """Return the names of the environment variables of proxies that are set; only object stores use them."""
    return [name for name in sorted(os.environ) if name.upper() in _PROXIES and os.environ[name]]


def tls_fault(error: object) -> str | None:
    """Return why there is no TLS connection, from OpenSSL's error or aiohttp's around it; else None."""
    fault = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    if not isinstance(fault, ssl.SSLError):
        return None
    if any(sign in str(fault) for sign in _PLAIN):
        return NO_TLS
    detail = getattr(fault, "verify_message", None) or fault.reason or fault
    return f"no secure connection; the server's certificate or TLS configuration is invalid ({detail})"


ZoneOf = Callable[[str], Zone]
"""Returns the zone of an IP address. Raises ValueError for anything else."""


def zone_of(address: str) -> Zone:
    """Return the zone of an IP address; those that carry an IPv4 address count as that, too."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if any(each in network for each in (ip, _carried(ip)) for network in _NEVER):
        return Zone.NEVER
    return Zone.PUBLIC if is_public(address) else Zone.PRIVATE


def _carried(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.sixtofour is not None:
            return ip.sixtofour
        if any(ip in network for network in _CARRIERS):
            return ipaddress.IPv4Address(int(ip) & _IPV4_BITS)
    return ip


class UnreachableZoneError(OSError):
    """A connection would lead to an address to which it may not lead."""

    def __init__(self) -> None:
        # The same text for each address of a host: then aiohttp passes the first error on unchanged.
        super().__init__("the address is not on the public internet")


def check_address(address: str, *, private: bool, zone_of: ZoneOf = zone_of) -> Zone:
    """Return the zone of an address; raise UnreachableZoneError unless connections may lead there."""
    zone = zone_of(address)
    if zone is Zone.NEVER or (zone is Zone.PRIVATE and not private):
        raise UnreachableZoneError
    return zone


def guarded_connector(
    *, private: bool, zone_of: ZoneOf = zone_of, kind: "type[aiohttp.TCPConnector] | None" = None
) -> "aiohttp.TCPConnector":
    """Return a connector to public addresses, and with `private` also to private and loopback ones."""

    def make_socket(where: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _name, address = where
        check_address(str(address[0]), private=private, zone_of=zone_of)
        return socket.socket(family=family, type=kind, proto=protocol)

    import aiohttp  # noqa: PLC0415 takes long, and small processes check addresses alone

    return (kind or aiohttp.TCPConnector)(socket_factory=make_socket)
