"""Normalisation of URLs, so that links find the captured documents."""

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from oai.errors import UsageError

_OWN_PORTS: Final = {"http": 80, "https": 443}
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_NOT_IN_URL: Final = re.compile(r"[^!#$%&'()*+,/:;=?@\[\]A-Za-z0-9_.~-]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LEFT_OUT: Final = re.compile(r"[\t\r\n]+")
_BLANKS: Final = "".join(map(chr, range(33)))
_WEB: Final = frozenset({"http", "https"})
_NOT_IN_LABEL: Final = re.compile(rb"[^A-Za-z0-9_-]")
_NOT_IN_ADDRESS: Final = re.compile(rb"[^A-Za-z0-9.]")


@lru_cache(maxsize=16_384)
def canonical(url: str, query_charset: str = "utf-8") -> str:
    """Return the URL without fragment, in ASCII, minimally escaped; other than web URLs stay unchanged.

    Non-ASCII letters are escaped as browsers do: those of a query in the page's character set (URL Standard,
    section 4.4), all others in UTF-8.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    scheme = parts.scheme.lower()
    if scheme not in _WEB or not parts.hostname:
        return url
    host = _host(parts)
    at = host if port is None or port == _OWN_PORTS[scheme] else f"{host}:{port}"
    path = _escaped(parts.path, "utf-8") or "/"
    return urlunsplit((scheme, at, path, _escaped(parts.query, query_charset), ""))


def without_scheme(url: str) -> str:
    """Return a canonical URL from its host on."""
    return url.partition("://")[2] or url


def loosened(url: str) -> str:
    """Drop the parts that seldom make a difference: scheme, `www.`, a slash at the end of the path."""
    at, slash, rest = without_scheme(url).partition("/")
    path, mark, query = rest.partition("?")
    return f"{at.removeprefix('www.')}{slash}{path.rstrip('/')}{mark}{query}"


def joined(base: str, link: str) -> str | None:
    """Return the absolute web URL of a link, with its fragment; None if it is not a web URL."""
    link = _LEFT_OUT.sub("", link.strip(_BLANKS))
    scheme = _SCHEME.match(link)
    if scheme is not None and scheme[1].lower() not in _WEB:
        return None
    try:
        whole = urljoin(base, _forward(link))
        parts = urlsplit(whole)
    except ValueError:
        return None
    return whole if parts.scheme.lower() in _WEB and parts.netloc else None


def escaped_whole(url: str) -> str:
    """Escape the characters that are not allowed in a URL, and change nothing else."""
    return _NOT_IN_URL.sub(_as_utf8, url).replace("'", "%27")


def _forward(link: str) -> str:
    """Replace a path's backslashes with slashes, as browsers do."""
    end = min((place for mark in "?#" if (place := link.find(mark)) >= 0), default=len(link))
    return link[:end].replace("\\", "/") + link[end:]


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            host = _NOT_IN_URL.sub(_as_utf8, host)
    return f"[{host}]" if ":" in host else host.removesuffix(".")


def _escaped(text: str, charset: str) -> str:
    plain = _ESCAPE.sub(_needless, text)
    return _NOT_IN_URL.sub(lambda found: _as_bytes(found[0], charset), plain)


def _needless(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()


def _as_utf8(found: re.Match[str]) -> str:
    return _as_bytes(found[0], "utf-8")


def _as_bytes(character: str, charset: str) -> str:
    try:
        raw = character.encode(charset)
    except UnicodeEncodeError:
        raw = f"&#{ord(character)};".encode("ascii")  # as browsers do
    return "".join(f"%{byte:02X}" for byte in raw)


@dataclass(frozen=True, kw_only=True)
class RestoreScope:
    """The scope of a restore."""

    asked: str
    """The scope as the user wrote it."""
    set_spec: str
    """The setSpec that is requested from the provider."""
    beginnings: tuple[str, ...] = ()
    """Prefixes of the URLs, without scheme; empty for the whole set."""

    def holds(self, url: str) -> bool:
        """Return whether a URL of the set is to be restored."""
        return not self.beginnings or without_scheme(canonical(url)).startswith(self.beginnings)


def read_scope(asked: str) -> RestoreScope:
    """Parse the scope that a user names: a setSpec, or a URL, which contains a slash.

    `http` and `https` are equivalent. A host without `www.` includes the one with it. Raises UsageError.
    """
    if "/" not in asked:
        return RestoreScope(asked=asked, set_spec=asked)
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
    return RestoreScope(asked=asked, set_spec=host_set_spec(host), beginnings=both)


def host_set_spec(host: str) -> str:
    """Return a host's setSpec at a Zatva provider: `www.webarchiv.cz` is `domain:cz:webarchiv:www`."""
    host = host.removesuffix(".")
    if _is_address(host):
        return f"domain:~ip:{_spec_part(host, _NOT_IN_ADDRESS)}"
    labels = [_spec_part(label, _NOT_IN_LABEL) if label else "~" for label in reversed(host.split("."))]
    return ":".join(("domain", *labels))


def _spec_part(name: str, forbidden: re.Pattern[bytes]) -> str:
    return forbidden.sub(lambda found: b"!%02X" % found[0][0], name.encode()).decode("ascii")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
