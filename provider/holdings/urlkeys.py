"""URL keys: the spelling by which CDX indexes sort URLs, and the URLs that share a key.

A key consists of the host's labels in reverse order, joined by commas, then `)` and the rest:
`cz,webarchiv)/a?b=1` (the Sort-friendly URI Reordering Transform). Parts that rarely make a difference
are normalised away: scheme, `www.`, default port, capitals, the order of arguments, a trailing slash.
Session ids stay.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from provider.holdings.sets import host_of

_PARTS: Final = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?:[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]|[^/?#:]*)"
    r"(?::(?P<port>[0-9]*))?(?P<path>[^?#]*)(?P<query>\?[^#]*)?",
    re.IGNORECASE,
)
_WWW: Final = re.compile(r"www[0-9]*\.(?=.*\.)")
_ADDRESS: Final = re.compile(r"[0-9.]+|.*:.*")
_SCHEMES: Final = {"http": "80", "https": "443"}
_NEEDLESS: Final = re.compile(r"%(?:2[DEde]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])")
"""Escapes of unreserved characters (RFC 3986, section 2.3)."""
_UNTOUCHED: Final = "!#$%&'()*+,/:;=?@[]~"


class Parts(NamedTuple):
    """The parts of a URL that keys use."""

    host: str
    """The result of `provider.holdings.sets.host_of`; empty if there is none."""
    port: str
    """Empty for the scheme's default port."""
    path: str
    query: str
    """With its question mark."""


def parts_of(url: str) -> Parts:
    """Return host, port and the rest of a URL, which may lack a scheme."""
    found = _PARTS.match(url)
    if found is None:  # only for a line break
        return Parts("", "", url, "")
    own_port = _SCHEMES.get((found["scheme"] or "http").lower())
    port = found["port"] if found["port"] and found["port"] != own_port else ""
    return Parts(host_of(f"http://{found['host']}/") or "", port, found["path"], found["query"] or "")


def url_key(url: str) -> str:
    """Return the key of a URL, in ASCII and without blanks."""
    host, port, path, query = parts_of(url)
    if not host:
        return quote(url.lower(), safe=_UNTOUCHED)
    arguments = sorted(query[1:].lower().split("&"), key=lambda one: one.split("=", 1))
    asked = f"?{'&'.join(arguments)}" if len(query) > 1 else ""
    at = f"{_reversed(without_www(host))}{':' if port else ''}{port}"
    plain = _NEEDLESS.sub(lambda found: unquote(found[0]), path).lower()
    return quote(f"{at}){plain.rstrip('/') or '/'}{asked}", safe=_UNTOUCHED)


def spellings(url: str) -> list[str]:
    """Return the URLs under which the same page may have been archived.

    The exact URL, and with either scheme, with and without `www.`, with and without a trailing slash.
    """
    path, query = parts_of(url)[2:]
    bare = path.rstrip("/")
    found = [f"{begin}{one}{query}" for begin in _beginnings(url) for one in (f"{bare}/", bare)]
    return list(dict.fromkeys((url, *found)))


def prefixes(url: str) -> list[str]:
    """Return the prefixes equivalent to this one, with either scheme, with and without `www.`."""
    path, query = parts_of(url)[2:]
    found = [f"{begin}{path or '/'}{query}" for begin in _beginnings(url)]
    as_it_is = [url] if path and "://" in url else []
    return list(dict.fromkeys((*as_it_is, *found)))


def bare_roots(url: str) -> list[str]:
    """Return a root URL without its slash, in the spellings of `prefixes`; empty for any other URL."""
    path, query = parts_of(url)[2:]
    if path not in {"", "/"} or query or "#" in url:
        return []
    as_it_is = [url.removesuffix("/")] if "://" in url else []
    return list(dict.fromkeys((*as_it_is, *_beginnings(url))))


def without_www(host: str) -> str:
    """Return a host without a leading `www.`, `www2.` and the like."""
    return _WWW.sub("", host, count=1) if _WWW.match(host) else host


def _beginnings(url: str) -> list[str]:
    host, port = parts_of(url)[:2]
    bare = without_www(host)
    hosts = dict.fromkeys((host, bare) if _ADDRESS.fullmatch(bare) else (host, bare, f"www.{bare}"))
    found = []
    for one in hosts:
        name = f"[{one}]" if ":" in one else one
        for scheme, own_port in _SCHEMES.items():
            ports = [f":{port}"] if port else ["", f":{own_port}"]
            found += [f"{scheme}://{name}{one_port}" for one_port in ports]
    return found


def _reversed(host: str) -> str:
    return ",".join(reversed(host.split(".")))
