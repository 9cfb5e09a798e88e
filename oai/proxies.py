"""Whose request it is: the client's address, from the connection or from what our own proxies say."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LIMITED_PREFIX: Final = {4: 32, 6: 64}
"""Bits by which clients are told apart for limits: one IPv6 host has a /64 to itself."""
_KEPT_PREFIX: Final = {4: 24, 6: 48}


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Who sent a request."""

    address: Address | None
    """None where nobody knows, as behind a Unix socket."""
    ours: bool
    """One of our own proxies, which did not say for whom it asks."""

    @property
    def limited_as(self) -> str | None:
        """By what requests are counted for limits; None for one that is not limited."""
        return None if self.ours or self.address is None else _masked(self.address, _LIMITED_PREFIX)

    def kept_as(self, how: str) -> str:
        """The address as it is kept: `whole`, `truncated` (to a network), or nothing."""
        if self.address is None or how == "none":
            return ""
        return str(self.address) if how == "whole" else _masked(self.address, _KEPT_PREFIX)


def visitor(peer: str | None, forwarded: Iterable[str], trusted: Iterable[Network]) -> Visitor:
    """The client of a connection from `peer`.

    `forwarded` are the values of X-Forwarded-For, to which each proxy adds the address it was asked from.
    They are believed from the right, as far as each was written by a proxy in `trusted`; what stands further
    left anybody may have made up.
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
    """Whether a connection from `peer` is one of our own proxies'."""
    return _within(_address(peer or ""), tuple(trusted))


def _within(address: Address | None, networks: tuple[Network, ...]) -> bool:
    return address is not None and any(address in network for network in networks)


def _address(text: str) -> Address | None:
    """The address in `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`."""
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
