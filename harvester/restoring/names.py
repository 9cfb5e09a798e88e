"""Paths of documents in the copy: safe on any file system, and descriptive.

`http://www.example.cz/news/?page=2` is stored at `www.example.cz/news/index@page=2.html`.

- Everything except ASCII letters, digits and `-_.@=&,+` is written as `%XX`, as in the record store, and
  names that are hidden or reserved on some system have one letter escaped (`harvester.store.paths`).
- The ending says what the document is, because browsers rely on it: `/list.php` of type text/html is
  `list.php.html`.
- A name longer than 100 characters is cut and ends with `~` and a digest; a path longer than 200 is a digest.
- A path that would differ from another one in case alone, or is a folder of another one, gets `~2`, `~3`, …

Only these names contain a `~`. The manifest maps URLs to paths.
"""

import hashlib
import mimetypes
import posixpath
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from harvester.restoring.captures import Capture
from harvester.store.paths import hardened

_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.@=&,+")
_WORDS: Final = tuple(chr(code) if code in _SAFE else f"%{code:02X}" for code in range(256))
_NAME_LIMIT: Final = 100
_PATH_LIMIT: Final = 200
_DIGEST: Final = 16
_INDEX: Final = "index"
_TYPES: Final = mimetypes.MimeTypes()
"""Python's own table rather than the machine's, so that names are the same everywhere."""
_ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "text/html": (".html", ".htm"),
    "application/xhtml+xml": (".xhtml", ".xht"),
    "text/css": (".css",),
    "text/javascript": (".js", ".mjs"),
    "application/javascript": (".js", ".mjs"),
    "application/x-javascript": (".js", ".mjs"),
    "image/svg+xml": (".svg",),
    "image/jpeg": (".jpg", ".jpeg", ".jpe"),
    "image/webp": (".webp",),
    "image/avif": (".avif",),
    "image/x-icon": (".ico",),
    "image/vnd.microsoft.icon": (".ico",),
    "application/xml": (".xml", ".rss", ".atom", ".xsl"),
    "text/xml": (".xml", ".rss", ".atom", ".xsl"),
    "application/json": (".json",),
}
"""The first ending is the one that is added."""
_SAYS_LITTLE: Final = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream"})
"""Types that servers use for unknown content: the URL's own ending is more specific."""


def natural_path(capture: Capture) -> str:
    """Return the path of a document if no other document conflicts with it."""
    try:
        parts = urlsplit(capture.url)
        host = parts.netloc.rpartition("@")[2].lower() or f"+{parts.scheme}"
    except ValueError:
        return _hashed(capture, "+other")
    host = _name(_encoded(host.encode()), "")
    *folders, last = parts.path.removeprefix("/").split("/")
    query = f"@{_encoded(unquote_to_bytes(parts.query))}" if parts.query else ""
    stem, ending = posixpath.splitext(_encoded(unquote_to_bytes(last)) or _INDEX)
    wanted = _ending("" if query else ending, _mime_type(capture))
    if query or wanted != ending:
        stem, ending = stem + ending + query, wanted
    names = [_name(_encoded(unquote_to_bytes(folder)) or "%", "") for folder in folders]
    path = "/".join((host, *names, _name(stem, ending)))
    return path if len(path) <= _PATH_LIMIT else _hashed(capture, host, ending)


class Names:
    """Assigns each URL a unique path, even on file systems that ignore case."""

    def __init__(self, captures: Iterable[Capture], known: Mapping[str, str]) -> None:
        """Name the captures' URLs; `known` holds the paths of earlier runs, which are kept."""
        self._paths = dict(known)
        self._taken = {path.casefold() for path in known.values()}
        fresh = [capture for capture in captures if capture.url not in known]
        # A document gets the plain name in preference to a redirect to it.
        fresh.sort(key=lambda one: (one.is_redirect, one.is_error, one.url))
        wanted = [(capture, natural_path(capture)) for capture in fresh]
        every = [*known.values(), *(path for _, path in wanted)]
        self._folders = {folder.casefold() for path in every for folder in _folders(path)}
        for capture, path in wanted:
            # A file of an earlier restore may have the name of a folder needed here.
            blocked = any(folder.casefold() in self._taken for folder in _folders(path))
            host, _, name = path.partition("/")
            apart = _hashed(capture, host, posixpath.splitext(name)[1]) if blocked else path
            self._paths[capture.url] = self._free(apart)

    def path(self, url: str) -> str:
        """Return the path of a named URL."""
        return self._paths[url]

    def _free(self, path: str) -> str:
        stem, ending = posixpath.splitext(path)
        number, free = 1, path
        while free.casefold() in self._taken or free.casefold() in self._folders:
            number += 1
            free = f"{stem}~{number}{ending}"
        self._taken.add(free.casefold())
        return free


def _folders(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:length]) for length in range(1, len(parts)))


def _mime_type(capture: Capture) -> str:
    """Return the type of the file to be written: a redirect becomes an HTML page."""
    return "text/html" if capture.is_redirect else capture.mime_type


def _ending(own: str, mime_type: str) -> str:
    """Return the ending for the type: the URL's own one if it fits."""
    if mime_type in _SAYS_LITTLE:
        return own
    if mime_type in _ENDINGS:
        endings = _ENDINGS[mime_type]
        return own if own.lower() in endings else endings[0]
    guessed = _TYPES.guess_type(f"x{own}")[0] or ""
    if guessed == mime_type or guessed.partition("/")[0] == mime_type.partition("/")[0]:
        return own
    return _TYPES.guess_extension(mime_type) or own


def _encoded(raw: bytes) -> str:
    return "".join(_WORDS[byte] for byte in raw)


def _name(stem: str, ending: str) -> str:
    """Return a name that is not too long and is safe on every system."""
    if len(stem) + len(ending) > _NAME_LIMIT:
        digest = hashlib.sha256((stem + ending).encode("ascii")).hexdigest()[:_DIGEST]
        ending = ending if len(ending) < _DIGEST else ""
        stem = f"{stem[: _NAME_LIMIT - _DIGEST - 1 - len(ending)]}~{digest}"
    return hardened(stem + ending)


def _hashed(capture: Capture, host: str, ending: str = "") -> str:
    digest = hashlib.sha256(capture.url.encode()).hexdigest()[: 2 * _DIGEST]
    return f"{host}/{hardened(f'~{digest}{ending}')}"
