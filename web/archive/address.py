"""Where our provider answers, as the settings tell it; `zatva serve` has put there what it serves."""

import ipaddress
from typing import Final
from urllib.parse import urljoin, urlsplit
from uuid import UUID

from oai.settings import Settings

_USUAL: Final = "http://127.0.0.1:8080/oai"


def provider_address(settings: Settings) -> str:
    """The provider's base URL: as set, or the address at which it listens unless it is told another."""
    return settings.provider.base_url or _USUAL


def is_local(address: str) -> bool:
    """Whether only programs of this machine reach the address."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def aggregate_address(settings: Settings) -> str:
    """The base URL of the aggregate; below the provider's."""
    return f"{provider_address(settings).rstrip('/')}/aggregate"


def document_address(settings: Settings, key: object) -> str:
    """Where the provider gives an archived document; beside the base URL."""
    return urljoin(provider_address(settings), f"archive/{UUID(str(key)).hex}")
