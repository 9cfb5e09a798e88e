"""The client's address of a request, from the connection or from the headers of trusted proxies."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK: Final[tuple[Network, ...]] = (
    ipaddress.IPv4Network("127.0.0.0/8"),
    ipaddress.IPv6Network("::1/128"),
)
_LIMITED_PREFIX: Final = {4: 32, 6: 64}
"""Prefix lengths that distinguish clients for limits: one IPv6 host has a whole /64."""
_KEPT_PREFIX: Final = {4: 24, 6: 48}
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_REFUSED: Final = (
    ipaddress.IPv6Network("::/96"),  # carry an IPv4 address in a way long out of use
    ipaddress.IPv6Network("64:ff9b:1::/48"),  # NAT64 within a network
    ipaddress.IPv6Network("fec0::/10"),  # site-local, as private addresses were called first
)
"""What the versions of Python that we run on do not all know to be private."""
_IPV4_BITS: Final = 0xFFFF_FFFF


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """The client that sent a request."""

    address: Address | None
    """None if unknown, as behind a Unix socket."""
    ours: bool
    """Whether it is a trusted proxy that did not name its client."""

    @property
    def limited_as(self) -> str | None:
        """The key by which requests are counted for limits; None if the client is not limited."""
        return None if self.ours or self.address is None else _masked(self.address, _LIMITED_PREFIX)

    def kept_as(self, how: str) -> str:
        """Return the address as it is stored: `whole`, `truncated` (to a network), or empty."""
        if self.address is None or how == "none":
            return ""
        return str(self.address) if how == "whole" else _masked(self.address, _KEPT_PREFIX)


def visitor(peer: str | None, forwarded: Iterable[str], trusted: Iterable[Network]) -> Visitor:
    """Return the client of a connection from `peer`.

    `forwarded` are the values of X-Forwarded-For, to which each proxy appends the address of its client.
    They are trusted from the right, as long as each was written by a proxy in `trusted`; anything further
    left may be forged.
    """
    networks = tuple(trusted)
    found = _address(peer or "")
    hops = [hop for value in forwarded for hop in value.split(",")]
    while hops and _within(found, networks):
        further = _address(hops.pop())
        if further is None:
            break
        found = further
    return Visitor(address=found, ours=found is None or _within(found, networks))


def is_trusted(peer: str | None, trusted: Iterable[Network]) -> bool:
    """Return whether a connection from `peer` comes from a trusted proxy."""
    return _within(_address(peer or ""), tuple(trusted))


def _within(address: Address | None, networks: tuple[Network, ...]) -> bool:
    return address is not None and any(address in network for network in networks)


def _address(text: str) -> Address | None:
    """Parse the address in `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _masked(address: Address, prefixes: dict[int, int]) -> str:
    length = prefixes[address.version]
    if length == address.max_prefixlen:
        return str(address)
    return str(ipaddress.ip_network((address, length), strict=False))


def is_public(address: str) -> bool:
    """Whether an IP address is on the public internet; those that carry an IPv4 address count as that.

    Raises ValueError for what is no IP address.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & _IPV4_BITS)
        if inner is not None:
            return is_public(str(inner))
        if ip.teredo is not None or any(ip in network for network in _REFUSED):
            return False
    return ip.is_global and not ip.is_multicast
