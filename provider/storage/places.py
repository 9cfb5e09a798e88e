"""Where an archive file is: a path on this machine, or the URL of an object or of a file behind HTTP.

A WARC file in a WACZ file is named by both: `/srv/x.wacz#archive/a.warc.gz`. If the WACZ file is in another
one, all three name it: `/srv/all.wacz#x.wacz#archive/a.warc.gz`.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, overload
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes, urlsplit

from oai.object_addresses import S3, bucket_and_key, check_address

_FILE_URI: Final = "file://"
ARCHIVE_SUFFIXES: Final = (".arc", ".arc.gz", ".warc", ".warc.gz", ".warc.zst")
WACZ_SUFFIX: Final = ".wacz"
_IN_WACZ: Final = re.compile(r"(.+?\.wacz)#(.+)", re.IGNORECASE | re.DOTALL)
SCHEMES: Final = (S3, "https://", "http://")
"""How the URL of an archive file may begin."""


@dataclass(frozen=True, order=True)
class ObjectUrl:
    """The URL of an object: `s3://bucket/key`, or `https://host/path`. A prefix ends in a slash."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the path, percent-decoded for HTTP; keys of S3 are taken as they are."""
        if self.is_s3:
            return self.key.rstrip("/").rpartition("/")[2]
        return unquote(urlsplit(self.url).path.rstrip("/").rpartition("/")[2])

    @property
    def is_s3(self) -> bool:
        """Whether it is in an S3-compatible object store; otherwise it is behind HTTP."""
        return self.url.startswith(S3)

    @property
    def bucket(self) -> str:
        """The bucket of an S3 URL."""
        return bucket_and_key(self.url)[0]

    @property
    def key(self) -> str:
        """The key of an S3 URL, as it is: `#`, `?` and `%` belong to it."""
        return bucket_and_key(self.url)[1]

    @property
    def above(self) -> "ObjectUrl":
        """The prefix up to the slash before the last part."""
        return ObjectUrl(f"{self.url.rstrip('/').rpartition('/')[0]}/")

    def joinpath(self, name: str) -> "ObjectUrl":
        """Return the URL of a name below this one."""
        return ObjectUrl(f"{self.url.rstrip('/')}/{name}")


Container = Path | ObjectUrl
"""Where a file is that is not in another one."""


@dataclass(frozen=True)
class Member:
    """A file in a WACZ file."""

    container: "Container | Member"
    """The WACZ file, which may be in another one."""
    path: str
    """As the ZIP directory has it: `archive/a.warc.gz`."""

    def __str__(self) -> str:
        return f"{self.container}#{self.path}"

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    @property
    def depth(self) -> int:
        """How many WACZ files it is in."""
        return 1 + (self.container.depth if isinstance(self.container, Member) else 0)


Place = Path | ObjectUrl | Member
"""Where an archive file is."""


@overload
def absolute(place: Container) -> Container: ...
@overload
def absolute(place: Place) -> Place: ...
def absolute(place: Place) -> Place:
    """Return a place with an absolute path without `..`, so that a file has one row.

    Symbolic links are resolved only if one is before `..`, which means the folder above what it leads to.
    """
    if isinstance(place, Member):
        return replace(place, container=absolute(place.container))
    if isinstance(place, ObjectUrl):
        return place
    plain = Path(os.path.abspath(place))  # noqa: PTH100 Path.absolute keeps `..`
    return plain if is_same_file(plain, place) else place.resolve()


def is_same_file(one: Place, other: Place) -> bool:
    """Return whether two places are the same once symbolic links and `..` are resolved."""
    if isinstance(one, Member) and isinstance(other, Member):
        return one.path == other.path and is_same_file(one.container, other.container)
    if isinstance(one, Path) and isinstance(other, Path):
        return os.path.realpath(one) == os.path.realpath(other)
    return one == other


def place_given(text: str) -> Container:
    """Return the place that a user names. Raises UsageError for a URL that names no object."""
    if not text.lower().startswith(SCHEMES):
        return Path(text)
    check_address(text)
    scheme, _, rest = text.partition("://")
    return ObjectUrl(f"{scheme.lower()}://{rest}")


def stored_path(place: Place) -> str:
    """Return an absolute path or a URL as rows and reports have it.

    A path whose bytes are not UTF-8 cannot be stored or printed as text: it becomes a `file:` URI
    (RFC 8089), such as `file:///srv/%E8lanky.warc`, which `place_of` reads back. No absolute path begins so.
    A path that reads like that of a file in a WACZ file becomes one, too.
    """
    if isinstance(place, Member):
        return f"{stored_path(place.container)}#{place.path}"
    text = str(place)
    if isinstance(place, ObjectUrl) or (_is_utf_8(text) and not _IN_WACZ.fullmatch(text)):
        return text
    return _FILE_URI + quote_from_bytes(os.fsencode(text))


def place_of(stored: str) -> Place:
    """Return the place from the output of `stored_path`."""
    found = _IN_WACZ.fullmatch(stored)
    return _member(container_of(found[1]), found[2]) if found else container_of(stored)


def _member(container: Container | Member, path: str) -> Member:
    nested = _IN_WACZ.fullmatch(path)
    return _member(Member(container, nested[1]), nested[2]) if nested else Member(container, path)


def container_of(stored: str) -> Container:
    """Return the place of a file or folder that is in no other file from the output of `stored_path`."""
    if stored.startswith(_FILE_URI):
        return Path(os.fsdecode(unquote_to_bytes(stored.removeprefix(_FILE_URI))))
    return ObjectUrl(stored) if stored.startswith(SCHEMES) else Path(stored)


def stored_name(name: str) -> str:
    """Return a file name without `.gz` or `.zst` as `arc.name` has it; percent-encoded if it is not UTF-8."""
    name = name.removesuffix(".gz").removesuffix(".zst")
    return name if _is_utf_8(name) else quote_from_bytes(os.fsencode(name))


def is_stored_place(named: str) -> bool:
    """Return whether a user names a file by its place, and not by its name alone."""
    return named.startswith(("/", _FILE_URI, *SCHEMES))


def _is_utf_8(text: str) -> bool:
    """Return whether the name of a file is text: the bytes of others are surrogates in it (PEP 383)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
