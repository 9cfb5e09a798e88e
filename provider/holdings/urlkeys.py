"""URL keys: the canonical spelling by which CDX indexes sort URLs, and the URLs that share a key.

A key consists of the host's labels in reverse order, joined by commas, then `)` and the rest:
`cz,webarchiv)/a?b=1` (the Sort-friendly URI Reordering Transform). Parts that rarely make a difference
are normalised away: scheme, user, `www.`, default port, capitals, escapes, dots in the path, the order of
arguments, session ids, a trailing slash, the fragment. The rules are those of the Wayback Machine (class
`WaybackURLKeyMaker` of webarchive-commons) as pywb applies them, so that keys equal those in pywb's indexes,
unless another `WwwRule` is chosen.
"""

import re
import socket
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

from provider.holdings.sets import host_of

KEY_CHARACTERS: Final = 2048
"""Number of characters of a key that are stored: an entry of a B-tree has at most 2,704 bytes."""

_LAST: Final = "\U0010ffff"
_BLANKS: Final = " \t\n\v\f\r"
_BREAKS: Final = re.compile(r"[\t\n\r]")
_HAS_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE | re.ASCII)
_NAMES_A_HOST: Final = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE | re.ASCII)
_REPEATED_SCHEMES: Final = re.compile(r"\A(?:https?://)+(?=https?://)")
_LONGEST_HOST: Final = 255
_SPLIT: Final = re.compile(r"([^:]*):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?", re.DOTALL)
_UNTOUCHED: Final = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_TOUCHED: Final = re.compile(r"[^!\"$&-~]")
_HIGH_ESCAPE: Final = re.compile(rb"%([89a-f][0-9a-f])", re.IGNORECASE)
_MOST_ESCAPED: Final = 20
"""How often an escape is escaped at most: each time is a pass over the whole URL."""
_CUT_ESCAPE: Final = re.compile(r"%[0-9a-f]?\Z", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"[1-9][0-9]*(?:\.[0-9]+){1,3}|0[0-7]*(?:\.[0-7]+){1,3}", re.ASCII)
_IN_QUERY: Final = tuple(
    re.compile(rf"(.*){session}(?:&(.*))?")
    for session in (
        "jsessionid=[0-9a-z]{32}",
        "phpsessid=[0-9a-z]{32}",
        "sid=[0-9a-z]{32}",
        "aspsessionid[a-z]{8}=[a-z]{24}",
        # The value has no further `cfid=`: each of thousands would be followed to the end.
        "cfid=(?>(?:(?!cfid=[^&])[^&])+)&cftoken=[^&]+",
    )
)
_IN_PATH: Final = tuple(
    # What follows has no later session id that would be found first: each would be followed to the end.
    re.compile(rf"(.*/)\({session}\)/((?:(?!(?<=/)\({session}\)/(?!\.aspx))[^?])+\.aspx.*)")
    for session in (r"(?:[a-z]\([0-9a-z]{24}\))+", "[0-9a-z]{24}")
)
_PARTS: Final = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?:[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]|[^/?#:]*)"
    r"(?::(?P<port>[0-9]*))?(?P<path>[^?#]*)(?P<query>\?[^#]*)?",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"[0-9.]+|.*:.*")
_SCHEMES: Final = {"http": "80", "https": "443"}


class WwwRule(StrEnum):
    """Which first label of a host makes no difference, so that the key has none of it.

    All keys of an index follow the same rule (`provider.holdings.url_key_state`).
    """

    NUMBERED = "numbered"
    """`www.`, and `www2.` or any other number: the rule of the Wayback Machine and of pywb."""
    PLAIN = "plain"
    """`www.` only: `www2.` is another host."""
    KEPT = "kept"
    """None: `www.` is part of the key."""


_LEADING_WWW: Final = {
    WwwRule.NUMBERED: re.compile(r"\Awww[0-9]*\.", re.ASCII),
    WwwRule.PLAIN: re.compile(r"\Awww\."),
}
_REST_WITH_DOT: Final = re.compile(r".*\.")


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


def with_scheme(url: str) -> str:
    """Return a URL that may have been given without a scheme: the one of `host:8080/` would be `host`."""
    return url if _NAMES_A_HOST.match(url) else f"http://{url}"


def url_key(url: str, rule: WwwRule) -> str:
    """Return the whole key of a URL, which may lack a scheme; in ASCII and without blanks.

    A URL without a host keeps its scheme: `urn:some:id`.
    """
    if not url:
        return "-"
    if url.startswith("filedesc"):  # how an ARC file names itself
        return quote(url, safe=f"{_UNTOUCHED}%#")
    text = _BREAKS.sub("", url.strip(_BLANKS))
    text = text if _HAS_SCHEME.match(text) else f"http://{text}"
    scheme, authority, path, query = _split(_REPEATED_SCHEMES.sub("", text))
    host, port = _host_and_port(authority)
    if not host and path and scheme.lower().startswith("http"):
        host, _, rest = path.lstrip("/").partition("/")
        path = f"/{rest}"
    host = _host_key(host, rule)
    path, query = _plain_path(path, hierarchical=bool(host)), _plain_query(query)
    if not host:
        return f"{scheme}:{path or '/'[: len(query)]}{query}"
    own_port = port in {"", _SCHEMES.get(scheme.lower())}
    return f"{host}{'' if own_port else f':{port}'}){path or '/'}{query}"


def stored_key(url: str, rule: WwwRule) -> str:
    """Return the part of a URL's key that is stored."""
    return url_key(url, rule)[:KEY_CHARACTERS]


def host_key(url: str, rule: WwwRule) -> str:
    """Return the beginning of the keys of a URL's host, without port and parenthesis: `cz,webarchiv`."""
    return _host_key(parts_of(url).host, rule)


def key_prefix(url: str, rule: WwwRule) -> str:
    """Return the common beginning of the keys of all URLs that begin with this one, as pywb does."""
    key = url_key(url, rule)
    return f"{key}{url[-1:]}" if url.endswith(("/", "?")) and not key.endswith(url[-1]) else key


def readings(url: str) -> list[str]:
    """Return the URL, and what was stored if the bytes of its escapes were archived raw.

    A URL that is not UTF-8 is stored as Latin-1, and its key has the escapes of these characters in UTF-8.
    """
    raw = _HIGH_ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), url.encode(errors="surrogatepass"))
    try:
        raw.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return [url, raw.decode("latin-1")]
    return [url]


def has_key_prefix(url: str) -> bool:
    """Return whether ranges of keys have all URLs that begin with this one, and no others.

    They do not if it ends in a fragment, in dots that its path resolves, or within an escape.
    """
    path, query = parts_of(url)[2:]
    is_dots = not query and _unescaped(path).endswith((b"/.", b"/.."))
    return not ("#" in url or is_dots or _CUT_ESCAPE.search(url))


def keys_from(beginning: str) -> tuple[str, str]:
    """Return the range, both ends included, of the keys with this beginning."""
    return beginning, beginning + _LAST


def prefix_ranges(url: str, rule: WwwRule) -> list[tuple[str, str]]:
    """Return the ranges of the keys of all URLs that begin with this one, both ends included.

    Unlike those with `key_prefix`, they include the keys of `/blog/` and of `/page?sid=…`, which end before
    the slash and the question mark.
    """
    prefix = key_prefix(url, rule)
    bare = prefix[:-1]
    if prefix.endswith("?"):
        return [(bare, bare), keys_from(prefix)]
    # Only the key of a host's front page keeps the slash at the end.
    if prefix.endswith("/") and prefix.partition(")")[2] != "/":
        return [(bare, bare), *(keys_from(f"{bare}{sign}") for sign in "/?")]
    return [keys_from(prefix)]


def _split(url: str) -> tuple[str, str, str, str]:
    """Return scheme, authority, path and query of a URL with a scheme."""
    found = _SPLIT.match(url)
    if found is None:
        raise RuntimeError(f"internal error: {url!r} has no scheme")
    scheme, authority, path, query = found.groups(default="")
    return scheme, authority, path, query


def _host_and_port(authority: str) -> tuple[str, str]:
    """Return the host without user and brackets, and the port without leading zeros."""
    place = authority.rstrip(":").rpartition("@")[2]
    if "[" in place:
        host, _, rest = place.partition("[")[2].partition("]")
        port = rest.partition(":")[2]
    else:
        host, _, port = place.partition(":")
    port = _plain(port).lower()
    return host, port.lstrip("0") if port.isdigit() else port


@lru_cache(maxsize=65_536)
def _host_key(host: str, rule: WwwRule) -> str:
    """Return the labels of a host in reverse order, in lower case and ASCII, without `www.` by the rule."""
    raw = _unescaped(host)
    if not raw.isascii():
        try:
            raw = raw.decode(errors="ignore").encode("idna")
        except UnicodeError:
            raw = raw.lower()
    text = quote_from_bytes(raw.replace(b"..", b".").strip(b"."), safe=_UNTOUCHED).lower()
    plain = _address(text) or text[_www_length(text, rule) :]
    return ",".join(reversed(plain.split(".")))


def _www_length(host: str, rule: WwwRule) -> int:
    """Return the number of characters at the beginning of a host that its key leaves out, with the dot."""
    found = _LEADING_WWW[rule].match(host) if rule in _LEADING_WWW else None
    return found.end() if found else 0


def _address(host: str) -> str | None:
    """Return an IPv4 address as four decimal numbers; None for a name.

    One to three numbers and octal ones are addresses, too, as in the C library.
    """
    if host.isdigit() and len(host) <= _LONGEST_HOST:
        return socket.inet_ntoa((int(host) & 0xFFFF_FFFF).to_bytes(4))
    try:
        return socket.inet_ntoa(socket.inet_aton(host)) if _NUMBERS.fullmatch(host) else None
    except OSError:
        return None


def _plain_path(path: str, *, hierarchical: bool) -> str:
    """Return the path in lower case, without session ids and a trailing slash."""
    path = _plain(path)
    if hierarchical and ("/." in path or "//" in path):
        path = _resolved(path)
    path = path.lower()
    if ".aspx" in path and "/(" in path:
        path = _without(_IN_PATH, path)
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def _resolved(path: str) -> str:
    """Resolve the dots in a path and remove empty segments."""
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == ".." and kept:
            kept.pop()
        elif segment != ".":
            kept.append(segment)
    return "/".join(("", *filter(None, kept[:-1]), *kept[-1:]))


def _plain_query(query: str) -> str:
    """Return the arguments in lower case and in order, without session ids, after a question mark."""
    query = _plain(query).lower()
    if "id" in query:  # as all session ids have
        query = _without(_IN_QUERY, query)
    if "&" in query:
        query = "&".join(sorted(query.split("&"), key=lambda argument: argument.partition("=")))
    return f"?{query}" if query else ""


def _without(sessions: tuple[re.Pattern[str], ...], text: str) -> str:
    """Return the text without the last session id of each kind."""
    for session in sessions:
        found = session.fullmatch(text)
        if found is not None:
            text = "".join(found.groups(default=""))
    return text


def _plain(text: str) -> str:
    """Return the text with escapes where they are necessary, and only there."""
    return quote_from_bytes(_unescaped(text), safe=_UNTOUCHED) if _TOUCHED.search(text) else text


def _unescaped(text: str) -> bytes:
    """Unescape until nothing changes, up to 20 times: escapes are often escaped again."""
    raw = text.encode(errors="surrogatepass")
    for _ in range(_MOST_ESCAPED):
        if b"%" not in raw or (plain := unquote_to_bytes(raw)) == raw:
            break
        raw = plain
    return raw


def spellings(url: str, rule: WwwRule) -> list[str]:
    """Return the URLs under which the same page may have been archived.

    The exact URL, and with either scheme, with and without a trailing slash, and with and without `www.`
    unless the rule keeps it.
    """
    path, query = parts_of(url)[2:]
    bare = path.rstrip("/")
    found = [f"{begin}{one}{query}" for begin in _beginnings(url, rule) for one in (f"{bare}/", bare)]
    return list(dict.fromkeys((url, *found)))


def prefixes(url: str, rule: WwwRule) -> list[str]:
    """Return the prefixes equivalent to this one, as in `spellings`."""
    path, query = parts_of(url)[2:]
    found = [f"{begin}{path or '/'}{query}" for begin in _beginnings(url, rule)]
    as_it_is = [url] if path and "://" in url else []
    return list(dict.fromkeys((*as_it_is, *found)))


def bare_roots(url: str, rule: WwwRule) -> list[str]:
    """Return a root URL without its slash, in the spellings of `prefixes`; empty for any other URL."""
    path, query = parts_of(url)[2:]
    if path not in {"", "/"} or query or "#" in url:
        return []
    as_it_is = [url.removesuffix("/")] if "://" in url else []
    return list(dict.fromkeys((*as_it_is, *_beginnings(url, rule))))


def without_www(host: str, rule: WwwRule) -> str:
    """Return a host without the `www.` that its key leaves out, unless only one label would remain."""
    bare = host[_www_length(host, rule) :]
    return bare if _REST_WITH_DOT.match(bare) else host


def hosts_alike(host: str, rule: WwwRule) -> list[str]:
    """Return the hosts of the same pages: with and without `www.`, unless the rule keeps it."""
    bare = without_www(host, rule)
    with_www = () if rule is WwwRule.KEPT or _ADDRESS.fullmatch(bare) else (f"www.{bare}",)
    return list(dict.fromkeys((host, bare, *with_www)))


def _beginnings(url: str, rule: WwwRule) -> list[str]:
    host, port = parts_of(url)[:2]
    found = []
    for one in hosts_alike(host, rule):
        name = f"[{one}]" if ":" in one else one
        for scheme, own_port in _SCHEMES.items():
            ports = [f":{port}"] if port else ["", f":{own_port}"]
            found += [f"{scheme}://{name}{one_port}" for one_port in ports]
    return found
