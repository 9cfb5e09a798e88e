"""What trusted proxies before the dashboard say: who asks from where, and whom they have signed in."""

import ipaddress
from functools import cache

from aiohttp import web

from oai.proxies import Network, is_trusted, visitor
from web.keys import SETTINGS


def client_address(request: web.Request) -> str | None:
    """The address of whoever asks: of the connection, or before the last trusted proxy."""
    forwarded = request.headers.getall("X-Forwarded-For", [])
    address = visitor(request.remote, forwarded, _trusted(request)).address
    return str(address) if address is not None else request.remote


def proxied_user(request: web.Request) -> str | None:
    """The user's name as a trusted proxy gives it, where `web.proxy_user_header` is set; else None."""
    header = request.config_dict[SETTINGS].web.proxy_user_header
    if header is None or not is_trusted(request.remote, _trusted(request)):
        return None
    given = request.headers.getall(header, [])
    # Two such headers: somebody tries to come in beside the one that the proxy wrote.
    if len(given) != 1:
        return None
    return given[0].encode(errors="replace").decode().strip() or None


def _trusted(request: web.Request) -> tuple[Network, ...]:
    return _networks(request.config_dict[SETTINGS].web.trusted_proxies)


@cache
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
