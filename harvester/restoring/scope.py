"""What is to be restored: a set of the provider, or what lies below a URL."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from harvester.restoring.addresses import canonical, without_scheme
from oai.errors import UsageError

_NOT_IN_LABEL: Final = re.compile(rb"[^A-Za-z0-9_-]")
_NOT_IN_ADDRESS: Final = re.compile(rb"[^A-Za-z0-9.]")


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What is to be restored."""

    asked: str
    """As the user wrote it."""
    set_spec: str
    """What is asked of the provider."""
    beginnings: tuple[str, ...] = ()
    """How the URLs begin, without their scheme; none for all of the set."""

    def holds(self, url: str) -> bool:
        """Whether a URL of the set is to be restored."""
        return not self.beginnings or without_scheme(canonical(url)).startswith(self.beginnings)


def read_scope(asked: str) -> Scope:
    """The scope that a user names: a setSpec, or anything with a slash in it, which is a URL.

    `http` and `https` are the same here. A host without `www.` is meant with it, too. Raises UsageError.
    """
    if "/" not in asked:
        return Scope(asked=asked, set_spec=asked)
    url = asked.removesuffix("*")
    if "://" not in url:
        url = f"http://{url}"
    try:
        host = urlsplit(canonical(url)).hostname or ""
    except ValueError:
        host = ""
    if not host:
        raise UsageError(f"{asked!r} is not a setSpec or a URL such as http://www.example.cz/news/")
    beginning = without_scheme(canonical(url))
    both = (beginning,) if host.startswith("www.") else (beginning, f"www.{beginning}")
    return Scope(asked=asked, set_spec=host_set_spec(host), beginnings=both)


def host_set_spec(host: str) -> str:
    """The set of a host as a Zatva provider spells it: `www.webarchiv.cz` is `domain:cz:webarchiv:www`."""
    host = host.removesuffix(".")
    if _is_address(host):
        return f"domain:~ip:{_escaped(host, _NOT_IN_ADDRESS)}"
    labels = [_escaped(label, _NOT_IN_LABEL) if label else "~" for label in reversed(host.split("."))]
    return ":".join(("domain", *labels))


def _escaped(name: str, forbidden: re.Pattern[bytes]) -> str:
    return forbidden.sub(lambda found: b"!%02X" % found[0][0], name.encode()).decode("ascii")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
