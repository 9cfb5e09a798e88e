"""The address of a Z39.50 server: `z3950://host:port/database`."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from oai.errors import UsageError

SCHEME: Final = "z3950"
_USUAL_PORT: Final = 210
_USUAL_DATABASE: Final = "Default"
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+|[0-9A-Fa-f:.]+")
_DATABASE: Final = re.compile(r"[A-Za-z0-9._+-]+")


@dataclass(frozen=True, kw_only=True)
class Address:
    """A database on a server."""

    host: str
    port: int
    database: str

    def target(self, host: str | None = None) -> str:
        """Return the address for `yaz-client`; `host` may be a resolved address of the host name."""
        name = host or self.host
        return f"tcp:{f'[{name}]' if ':' in name else name}:{self.port}/{self.database}"


def read_address(url: str) -> Address:
    """Parse the address from a URL. Raises UsageError if it is invalid."""
    if re.search(r"[\s\x00-\x1f\x7f]", url):
        raise _no_address(url)  # the parsing below would silently drop some of these
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    database = unquote(parts.path.removeprefix("/")) or _USUAL_DATABASE
    # The parts become a line of commands, so every permitted character is listed.
    fits = parts.scheme == SCHEME and _HOST.fullmatch(host) and _DATABASE.fullmatch(database)
    if not fits or port == 0 or parts.username or parts.query or parts.fragment:
        raise _no_address(url)
    return Address(host=host, port=port or _USUAL_PORT, database=database)


def _no_address(url: str) -> UsageError:
    return UsageError(
        "%(url)s is not a Z39.50 address; write it as z3950://host:port/database", url=repr(url)
    )
