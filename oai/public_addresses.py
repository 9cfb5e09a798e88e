"""Which IP addresses are on the public internet."""

import ipaddress
from typing import Final

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_REFUSED: Final = (
    ipaddress.IPv6Network("::/96"),  # embed an IPv4 address in an obsolete form
    ipaddress.IPv6Network("64:ff9b:1::/48"),  # NAT64 within a network
    ipaddress.IPv6Network("fec0::/10"),  # site-local, the predecessor of private addresses
)
"""Networks that not all supported versions of Python know to be private."""
_IPV4_BITS: Final = 0xFFFF_FFFF


def is_public(address: str) -> bool:
    """Return whether an IP address is public; an address that embeds an IPv4 address counts as that one.

    Raises ValueError if `address` is not an IP address.
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
