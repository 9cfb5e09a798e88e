"""URLs as links write them, brought to one spelling: so a link finds what was captured."""

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


@lru_cache(maxsize=16_384)
def canonical(url: str, query_charset: str = "utf-8") -> str:
    """The URL without fragment, in ASCII, with no more escapes than needed; what is no web URL as it is.

    Other letters than ASCII are escaped as browsers do: those of a query in the page's character set (URL
    Standard, section 4.4), all others in UTF-8.
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
    """A canonical URL from its host on."""
    return url.partition("://")[2] or url


def loosened(url: str) -> str:
    """A canonical URL without what seldom makes a difference: scheme, `www.`, a slash at the path's end."""
    at, slash, rest = without_scheme(url).partition("/")
    path, mark, query = rest.partition("?")
    return f"{at.removeprefix('www.')}{slash}{path.rstrip('/')}{mark}{query}"


def joined(base: str, link: str) -> str | None:
    """The absolute web URL that a link leads to, with its fragment; None where it leads to none."""
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
    """A URL in which whatever may not stand there is escaped, and nothing else is changed."""
    return _NOT_IN_URL.sub(_as_utf8, url).replace("'", "%27")


def _forward(link: str) -> str:
    """A path's backslashes are slashes to browsers."""
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


_NOT_IN_LABEL: Final = re.compile(rb"[^A-Za-z0-9_-]")
_NOT_IN_ADDRESS: Final = re.compile(rb"[^A-Za-z0-9.]")


@dataclass(frozen=True, kw_only=True)
class RestoreScope:
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


def read_scope(asked: str) -> RestoreScope:
    """The scope that a user names: a setSpec, or anything with a slash in it, which is a URL.

    `http` and `https` are the same here. A host without `www.` is meant with it, too. Raises UsageError.
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
    """The set of a host as a Zatva provider spells it: `www.webarchiv.cz` is `domain:cz:webarchiv:www`."""
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
