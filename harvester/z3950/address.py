"""Where a Z39.50 server is: `z3950://host:port/database`."""

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
    """A database at a server."""

    host: str
    port: int
    database: str

    def target(self, host: str | None = None) -> str:
        """As `yaz-client` takes it; `host` may be an address that the name was found to have."""
        name = host or self.host
        return f"tcp:{f'[{name}]' if ':' in name else name}:{self.port}/{self.database}"


def read_address(url: str) -> Address:
    """The address that a URL names. Raises UsageError where it is none."""
    if re.search(r"[\s\x00-\x1f\x7f]", url):
        raise _no_address(url)  # what follows would leave some of these out
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    database = unquote(parts.path.removeprefix("/")) or _USUAL_DATABASE
    # What is let through stands in a line of commands, so it is told letter by letter.
    fits = parts.scheme == SCHEME and _HOST.fullmatch(host) and _DATABASE.fullmatch(database)
    if not fits or port == 0 or parts.username or parts.query or parts.fragment:
        raise _no_address(url)
    return Address(host=host, port=port or _USUAL_PORT, database=database)


def _no_address(url: str) -> UsageError:
    return UsageError(
        "%(url)s is not a Z39.50 address; write it as z3950://host:port/database", url=repr(url)
    )
