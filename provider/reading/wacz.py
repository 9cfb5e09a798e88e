"""What a WACZ file says about its WARC files: their digests, and the titles of pages (WACZ 1.1.1).

Both are checked while a WARC file is read, so that it is read once only. Signatures are not verified.
"""

import hashlib
import io
import json
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, BinaryIO, ClassVar, Final, cast
from urllib.parse import urldefrag

from oai.failures import FailureCode
from provider.reading.capture_facts import RefusedError, address_of
from provider.reading.captures import Capture
from provider.reading.framing import FramingProblem
from provider.reading.titles import may_have_title, tidy
from provider.storage.files import ArchiveFile, read_in_wacz
from provider.storage.places import Container, Member
from provider.storage.ranges import SizedReader
from provider.storage.zip_directory import LargeMemberError, MemberError

_PACKAGE: Final = "datapackage.json"
_PACKAGE_DIGEST: Final = "datapackage-digest.json"
_OTHER_PAGES: Final = "pages/extraPages.jsonl"
_PAGES: Final = ("pages/pages.jsonl", _OTHER_PAGES)
"""Browsertrix Crawler and py-wacz (`--split-seeds`) write only the seeds to the first one."""
_MOST_PACKAGE: Final = 4 << 20
_MOST_BYTES: Final = 32 << 20
_LONGEST_LINE: Final = 1 << 20
_MOST_PAGES: Final = 200_000
_ALGORITHMS: Final = frozenset({"md5", "sha1", "sha256", "sha512"})
_BUFFER: Final = 1 << 20
_DATED: Final = datetime(1, 1, 1, tzinfo=UTC)


class AlteredMemberError(Exception):
    """A WARC file in a WACZ file is not the one that the WACZ file describes; the message says how."""

    failure_code: ClassVar = FailureCode.ARCHIVE_MEMBER_ALTERED


@dataclass(frozen=True, kw_only=True)
class Resource:
    """What datapackage.json says about a file."""

    digest: str
    """Algorithm, colon and hexadecimal digits."""
    size: int | None
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """What a WACZ file says about its files."""

    resources: dict[str, Resource] | None
    """By path; None if there is no list of them, which is one of the faults."""
    pages: dict[str, list[tuple[datetime, str]]]
    """Times and titles by URL, in order of time."""
    faults: tuple[str, ...] = ()
    """What could not be read."""

    def title(self, url: str, archived: datetime) -> str | None:
        """Return the title of the page with this URL, of the visit closest in time; None if there is none."""
        visits = self.pages.get(url, [])
        after = bisect_left(visits, (archived, ""))
        close = visits[max(0, after - 1) : after + 1]
        return min(close, key=lambda visit: abs(visit[0] - archived))[1] if close else None


@dataclass(kw_only=True)
class _Reader:
    """Reads the small files of a WACZ file, and notes what cannot be used."""

    container: Container | Member
    faults: list[str] = field(default_factory=list)

    def package(self) -> Package:
        content = self._content(_PACKAGE, _MOST_PACKAGE)
        resources: dict[str, Resource] | None = None
        if content is None and not self.faults:
            self.faults.append(f"the WACZ file has no {_PACKAGE}, so that its digests are not known")
        elif content is not None:
            self._check(content)
            resources = self._resources(content)
        return Package(resources=resources, pages=self._pages(), faults=tuple(self.faults))

    def _content(self, path: str, most: int) -> bytes | None:
        try:
            return read_in_wacz(self.container, path, most)
        except MemberError as error:
            # With the texts of its pages, as crawlers add them on request, the second list may have any size.
            if path != _OTHER_PAGES or not isinstance(error, LargeMemberError):
                self.faults.append(str(error))
            return None

    def _check(self, package: bytes) -> None:
        """Compare datapackage.json with its digest. Raises AlteredMemberError."""
        stated = _json(self._content(_PACKAGE_DIGEST, _MOST_PACKAGE) or b"{}")
        digest = stated.get("hash") if isinstance(stated, dict) else None
        if not isinstance(digest, str):
            return
        hashed = _hashed(digest)
        if hashed is None:
            self.faults.append(f"{_PACKAGE_DIGEST} has a digest of an unknown algorithm")
            return
        hashed[0].update(package)
        if hashed[0].hexdigest() != hashed[1]:
            raise AlteredMemberError(f"{_PACKAGE} does not have the digest in {_PACKAGE_DIGEST}")

    def _resources(self, content: bytes) -> dict[str, Resource] | None:
        package = _json(content)
        listed = package.get("resources") if isinstance(package, dict) else None
        if not isinstance(listed, list):
            self.faults.append(f"{_PACKAGE} does not list resources")
            return None
        found = {}
        for one in listed:
            if (
                isinstance(one, dict)
                and isinstance(one.get("path"), str)
                and isinstance(one.get("hash"), str)
            ):
                size = one.get("bytes")
                found[one["path"]] = Resource(
                    digest=one["hash"], size=size if isinstance(size, int) else None
                )
        return found

    def _pages(self) -> dict[str, list[tuple[datetime, str]]]:
        """Return the pages of all lists, whose limits count together."""
        found: dict[str, list[tuple[datetime, str]]] = {}
        most_bytes, most_pages = _MOST_BYTES, _MOST_PAGES
        for path in _PAGES:
            content = self._content(path, most_bytes) or b""
            most_bytes -= len(content)
            most_pages -= self._add_pages(found, path, content, most_pages)
        for visits in found.values():
            visits.sort()
        return found

    def _add_pages(
        self, found: dict[str, list[tuple[datetime, str]]], path: str, content: bytes, most: int
    ) -> int:
        """Add the pages of one list; return the number of its lines that were read, after the header."""
        faulty = number = 0
        for number, line in enumerate(io.BytesIO(content)):
            if number > most:
                self.faults.append(f"titles are taken from the first {most:,} pages of {path}")
                break
            page = _json(line) if len(line) <= _LONGEST_LINE else None
            if not isinstance(page, dict) or not isinstance(page.get("url"), str):
                faulty += number > 0 and bool(line.strip())  # the first line is a header
            elif (visit := _visit(page)) is not None:
                found.setdefault(visit[0], []).append(visit[1:])
        if faulty:
            self.faults.append(f"{faulty:,} lines of {path} are not pages")
        return min(number, most)


def _visit(page: dict[str, Any]) -> tuple[str, datetime, str] | None:
    """Return a page's URL as captures have it, the time and the title; None if it has no title.

    None also for one that answers a request of another method than GET.
    """
    is_got = str(page.get("method") or "GET").upper() == "GET"
    title = tidy(page["title"]) if is_got and isinstance(page.get("title"), str) else None
    if title is None:
        return None
    try:
        url = address_of(urldefrag(page["url"]).url)[0]
    except (RefusedError, ValueError):
        return None
    try:
        moment = datetime.fromisoformat(str(page.get("ts")))
    except ValueError:
        moment = _DATED
    return url, moment if moment.tzinfo else moment.replace(tzinfo=UTC), title


def _json(content: bytes) -> Any:  # noqa: ANN401 whatever the file has
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _hashed(digest: str) -> tuple[Any, str] | None:
    """Return an object that computes, and the stated digits; None for an unknown algorithm."""
    algorithm, _, value = digest.rpartition(":")
    algorithm = algorithm or "md5"  # of Data Package, "hash"
    if algorithm not in _ALGORITHMS:
        return None
    return hashlib.new(algorithm, usedforsecurity=False), value.lower()


@lru_cache(maxsize=1)  # the members of a file are indexed one after the other
def _package_of(container: Container | Member, _modified: datetime, _tag: str | None) -> Package:
    return _Reader(container=container).package()


class WaczMember:
    """A WARC file in a WACZ file while it is indexed."""

    def __init__(self, file: ArchiveFile) -> None:
        """Read what the WACZ file says. Raises OSError, and AlteredMemberError."""
        self._file = file
        member = cast("Member", file.path)
        self._path = member.path
        self._package = _package_of(member.container, file.modified, file.tag)
        self._resource = (self._package.resources or {}).get(self._path)
        self._hashed = _hashed(self._resource.digest) if self._resource else None
        self._checksum = 0
        self._source: _Seen | None = None
        if self._resource and self._resource.size not in {None, file.size}:
            raise AlteredMemberError(
                f"{self._path} has {file.size:,} bytes, but {self._resource.size:,} according to {_PACKAGE}"
            )

    def problems(self) -> Iterator[FramingProblem]:
        """Yield what makes the WACZ file less than it should be; the WARC file is indexed nevertheless."""
        code = FailureCode.ARCHIVE_MEMBER_UNCHECKED
        for fault in self._package.faults:
            yield FramingProblem.of(code, fault)
        if self._package.resources is not None and self._resource is None:
            yield FramingProblem.of(code, f"{_PACKAGE} has no digest of {self._path}, so it was not checked")
        elif self._resource is not None and self._hashed is None:
            reason = (
                f"{_PACKAGE} has a digest of an unknown algorithm for {self._path}, so it was not checked"
            )
            yield FramingProblem.of(code, reason)

    def checking(self, file: BinaryIO) -> BinaryIO:
        """Return the file, open, as one that notes the bytes that are read for `verify`."""
        self._source = _Seen(file, self._file.size, self._see)
        return cast("BinaryIO", io.BufferedReader(self._source, _BUFFER))

    def verify(self) -> None:
        """Read what has not been read, and compare. Raises AlteredMemberError if the content differs."""
        if self._source is not None:
            self._source.catch_up(self._file.size)
        if self._hashed is not None and self._hashed[0].hexdigest() != self._hashed[1]:
            raise AlteredMemberError(f"{self._path} does not have the digest in {_PACKAGE}")
        if self._checksum != self._file.checksum:
            raise AlteredMemberError(f"{self._path} does not have the checksum in the ZIP directory")

    def titled(self, capture: Capture) -> Capture:
        """Return a capture; a page without a title has the one in the list of pages."""
        if capture.title is None and may_have_title(capture.mime_type, capture.http_status):
            return capture._replace(title=self._package.title(capture.url, capture.archived))
        return capture

    def _see(self, piece: bytes) -> None:
        self._checksum = zlib.crc32(piece, self._checksum)
        if self._hashed is not None:
            self._hashed[0].update(piece)


class _Seen(SizedReader):
    """A file that passes all its bytes in order to `see`, however it is read, each of them once."""

    def __init__(self, file: BinaryIO, size: int, see: Callable[[bytes], None]) -> None:
        super().__init__(size)
        raw = getattr(file, "raw", file)
        self.version = getattr(raw, "version", None)
        """Of the file (see `provider.reading.zstd_frames`)."""
        self._file = file
        self._see = see
        self._seen = 0

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 the protocol's type exists for type checkers only
        """Read some bytes. Raises OSError."""
        view = memoryview(buffer).cast("B")
        if self._seen < self._at < self._size:
            self.catch_up(self._at)
        self._file.seek(self._at)
        piece = self._file.read(len(view))
        view[: len(piece)] = piece
        if self._at <= self._seen < self._at + len(piece):
            self._see(piece[self._seen - self._at :])
            self._seen = self._at + len(piece)
        self._at += len(piece)
        return len(piece)

    def catch_up(self, place: int) -> None:
        """Read the bytes before a place that have not been read."""
        self._file.seek(self._seen)
        while self._seen < place and (piece := self._file.read(min(_BUFFER, place - self._seen))):
            self._see(piece)
            self._seen += len(piece)
