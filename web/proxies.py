"""What trusted proxies before the dashboard say: who asks from where, and whom they have signed in."""

import ipaddress
from functools import cache

from aiohttp import web

from web.keys import SETTINGS

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def client_address(request: web.Request) -> str | None:
    """The address of whoever asks: of the connection, or before the last trusted proxy."""
    address = request.remote
    if not _is_trusted(request, address):
        return address
    hops = [hop.strip() for hop in ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")]
    for hop in reversed([hop for hop in hops if hop]):
        if not _is_address(hop):
            break
        address = hop
        if not _is_trusted(request, hop):
            break
    return address


def proxied_user(request: web.Request) -> str | None:
    """The user's name as a trusted proxy gives it, where `web.proxy_user_header` is set; else None."""
    header = request.config_dict[SETTINGS].web.proxy_user_header
    if header is None or not _is_trusted(request, request.remote):
        return None
    given = request.headers.getall(header, [])
    # Two such headers: somebody tries to come in beside the one that the proxy wrote.
    if len(given) != 1:
        return None
    return given[0].encode(errors="replace").decode().strip() or None


def _is_trusted(request: web.Request, address: str | None) -> bool:
    networks = _networks(request.config_dict[SETTINGS].web.trusted_proxies)
    if not networks or address is None or not _is_address(address):
        return False
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return any(ip in network for network in networks)


@cache
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
