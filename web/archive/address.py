"""Addresses of the provider from the settings, in which `zatva serve` stores the address it serves."""

import ipaddress
from typing import Final
from urllib.parse import urljoin, urlsplit
from uuid import UUID

from oai.settings import Settings

_USUAL: Final = "http://127.0.0.1:8080/oai"


def provider_address(settings: Settings) -> str:
    """Return the provider's base URL: the configured one, or that of its default address."""
    return settings.provider.base_url or _USUAL


def is_local(address: str) -> bool:
    """Return whether the address is reachable only from this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def aggregate_address(settings: Settings) -> str:
    """Return the base URL of the aggregate, which is below the provider's."""
    return f"{provider_address(settings).rstrip('/')}/aggregate"


def document_address(settings: Settings, key: object) -> str:
    """Return the URL at which the provider serves an archived document, beside the base URL."""
    return urljoin(provider_address(settings), f"archive/{UUID(str(key)).hex}")
