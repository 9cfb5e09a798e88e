"""Which network addresses are on the public internet."""

import ipaddress
from typing import Final

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_BITS: Final = 0xFFFF_FFFF


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
        if ip.teredo is not None:
            return False
    return ip.is_global and not ip.is_multicast
