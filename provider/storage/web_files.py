"""Archive files behind plain HTTP: byte ranges of a file, which must not change unnoticed."""

import contextlib
import errno
import http.client
import re
import socket
import string
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import quote, urljoin

from oai.deadline import Deadline
from oai.errors import UsageError
from oai.guarded_http import Trail, guarded_opener, retry_after
from oai.object_addresses import check_address
from oai.reach import UnreachableZoneError, tls_fault, without_credentials
from provider.storage.objects import ObjectFacts, ReplacedError
from provider.storage.places import SCHEMES, ObjectUrl

_SECONDS: Final = 30.0
"""For each wait, and for the whole answer in addition to the time that its bytes may take."""
_SLOWEST: Final = 64 << 10
"""Bytes per second."""
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 5.0
_WHOLE: Final = 200
_PARTIAL: Final = 206
_EMPTY: Final = 416
_RANGE: Final = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)")
_DATED: Final = "modified "
"""Begins the tag of a file whose server sends a date instead of an ETag."""
_LONGEST_LIST: Final = 64 << 20
_LIST: Final = ".txt"
_AGENT: Final = "zatva-provider"

_Answer = TypeVar("_Answer")


class _MomentaryError(OSError):
    """The server fails, which may pass."""

    def __init__(self, text: str, wait: float = 0) -> None:
        super().__init__(text)
        self.wait = wait
        """Seconds that it asks to wait."""


class WebFiles:
    """Files of any server that answers range requests and sends a strong ETag or a date of modification.

    `seconds` are for each wait, and for a whole answer without the time that its bytes may take. A request
    that the server fails is repeated for up to `retry_seconds`, but not if the server is slow.
    """

    def __init__(
        self,
        *,
        seconds: float = _SECONDS,
        retry_seconds: float = 0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds = seconds
        self._retry_seconds = retry_seconds
        self._sleep = sleep

    def facts(self, place: ObjectUrl) -> ObjectFacts:
        """Return size and tag, from the answer for the first byte: not every server answers HEAD."""
        return self._repeated(partial(self._look, place))

    def _look(self, place: ObjectUrl) -> ObjectFacts:
        try:
            with self._request(place, {"Range": "bytes=0-0"}, 1) as answer:
                if answer.status == _WHOLE and answer.headers.get("Content-Length") == "0":
                    # Of an empty file, nginx and Apache ignore the range (RFC 9110, section 14.2).
                    return _tagged(place, answer.headers, 0)
                return _facts(place, answer.status, answer.headers, begin=0)
        except urllib.error.HTTPError as error:
            if error.code == _EMPTY:
                error.close()
                return _facts(place, error.code, error.headers, begin=None)
            _refuse(place, error)
        except (OSError, ValueError, http.client.HTTPException) as error:
            _refuse(place, error)

    def read(self, place: ObjectUrl, begin: int, end: int, tag: str) -> bytes:
        """Return a range of the file with this tag."""
        return self._repeated(partial(self._read, place, begin, end, tag))

    def names(self, prefix: ObjectUrl) -> Iterator[ObjectUrl]:
        """Yield the files that a list names, one URL per line, absolute or relative to the list."""
        if not prefix.name.lower().endswith(_LIST):
            self.folder(prefix)
        content = self._repeated(partial(self._list, prefix))
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise OSError(f"{prefix}: the list is not text in UTF-8") from None
        for number, line in enumerate(text.splitlines(), 1):
            if (name := line.strip()) and not name.startswith("#"):
                yield _listed(prefix, number, name)

    def folder(self, prefix: ObjectUrl) -> NoReturn:
        """Raise UsageError: servers have no common way to list what is below a URL."""
        raise UsageError(
            f"{prefix}: HTTP has no folders; name a file, or a list of files that ends in {_LIST}"
        )

    def _list(self, prefix: ObjectUrl) -> bytes:
        try:
            with self._request(prefix, {}, _LONGEST_LIST) as answer:
                content: bytes = answer.read(_LONGEST_LIST + 1)
                missing = answer.length or 0  # the library raises for a cut answer of unknown length only
                _refuse_coding(prefix, answer.headers)
        except (OSError, ValueError, http.client.HTTPException) as error:
            _refuse(prefix, error)
        if len(content) > _LONGEST_LIST:
            raise OSError(f"{prefix}: the list is longer than {_LONGEST_LIST:,} bytes")
        if missing:
            raise _MomentaryError(f"{prefix}: the list is cut off: {missing:,} bytes are missing; try again")
        return content

    def _repeated(self, ask: Callable[[], _Answer]) -> _Answer:
        """Return the answer to a request, which is repeated while the server fails and there is time."""
        end, pause = time.monotonic() + self._retry_seconds, _FIRST_PAUSE
        while True:
            try:
                return ask()
            except _MomentaryError as error:
                left = end - time.monotonic()
                if left <= 0:
                    raise
                self._sleep(min(max(pause, error.wait), left))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _read(self, place: ObjectUrl, begin: int, end: int, tag: str) -> bytes:
        condition = "If-Unmodified-Since" if tag.startswith(_DATED) else "If-Match"
        sent = {"Range": f"bytes={begin}-{end - 1}", condition: tag.removeprefix(_DATED)}
        try:
            with self._request(place, sent, end - begin) as answer:
                now = _facts(place, answer.status, answer.headers, begin=begin)
                # A server that ignores the condition sends the new file, with its own tag.
                if now.tag != tag:
                    raise ReplacedError(_REPLACED.format(place=place))
                content: bytes = answer.read(end - begin + 1)
        except (OSError, ValueError, http.client.HTTPException) as error:
            _refuse(place, error)
        if len(content) != end - begin:
            raise _MomentaryError(f"{place}: received {len(content):,} of {end - begin:,} bytes")
        return content

    @contextlib.contextmanager
    def _request(self, place: ObjectUrl, headers: dict[str, str], size: int) -> Iterator[Any]:
        """Yield the answer, which has about `size` bytes; its type depends on the scheme."""
        # Compressed on the way, the bytes would not be those of the range.
        sent = {"User-Agent": _AGENT, "Accept-Encoding": "identity", **headers}
        # Existing percent-encoding stays.
        url = quote(str(place), safe=string.punctuation)
        request = urllib.request.Request(url, headers=sent)  # noqa: S310 the opener knows http and https only
        with Deadline(self._seconds + size / _SLOWEST) as deadline:
            opener = guarded_opener(Trail(deadline=deadline))
            try:
                with contextlib.closing(opener.open(request, timeout=self._seconds)) as answer:
                    yield answer
            finally:
                if deadline.is_over:
                    raise deadline.error from None


_REPLACED: Final = "{place}: the file was replaced after it was indexed; index it again"
_GONE: Final = frozenset({404, 410})
_FORBIDDEN: Final = frozenset({401, 403})
_FAILED_CONDITION: Final = 412
_TOO_MANY: Final = 429
_SERVERS_FAULT: Final = 500
_PASSING: Final = (ConnectionError, http.client.BadStatusLine, http.client.IncompleteRead)
_PASSING_NUMBERS: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, socket.EAI_AGAIN})


def _facts(
    place: ObjectUrl,
    status: int,
    headers: Any,  # noqa: ANN401 an HTTPMessage
    *,
    begin: int | None,
) -> ObjectFacts:
    """Return what an answer says of the file; its range must begin as requested: None if it has no bytes."""
    total = _RANGE.fullmatch(headers.get("Content-Range", ""))
    if status not in {_PARTIAL, _EMPTY} or total is None:
        raise OSError(
            f"{place}: the server does not answer range requests (status {status}); archive files need a "
            "server that does, such as nginx or Apache without compression"
        )
    if total[1] != (None if begin is None else str(begin)):
        raise OSError(f"{place}: the server or a cache answers another range than the requested one")
    return _tagged(place, headers, int(total[3]))


def _tagged(place: ObjectUrl, headers: Any, size: int) -> ObjectFacts:  # noqa: ANN401 an HTTPMessage
    _refuse_coding(place, headers)
    tag, modified = headers.get("ETag", ""), headers.get("Last-Modified", "")
    if not tag or tag.startswith("W/"):
        tag = f"{_DATED}{modified}" if modified else ""
    if not tag:
        raise OSError(
            f"{place}: the server sends neither a strong ETag nor Last-Modified, so a replaced file could "
            "not be noticed"
        )
    return ObjectFacts(size=size, tag=tag, modified=_date(modified))


def _refuse_coding(place: ObjectUrl, headers: Any) -> None:  # noqa: ANN401 an HTTPMessage
    if (coding := headers.get("Content-Encoding", "identity")) != "identity":
        raise OSError(f"{place}: the server or a proxy packs the file ({coding}); switch that off for it")


def _listed(prefix: ObjectUrl, number: int, name: str) -> ObjectUrl:
    """Return the file in a line of a list. Raises UsageError."""
    try:
        url = urljoin(str(prefix), name)
    except ValueError:
        url = ""
    if not url.startswith(SCHEMES):
        shown = without_credentials(name)[:200]
        raise UsageError(f"{prefix}, line {number}: {shown!r} is not the URL of a file")
    try:
        check_address(url)
    except UsageError as error:
        raise UsageError(f"{prefix}, line {number}: {error}") from None
    return ObjectUrl(url)


def _date(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime(1970, 1, 1, tzinfo=UTC)


def _refuse(place: ObjectUrl, error: Exception) -> NoReturn:
    """Raise the error of `provider.storage.objects` for one of the library, or the error itself."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        if error.code in _GONE:
            raise FileNotFoundError(f"{place}: there is no such file (status {error.code})") from None
        if error.code in _FORBIDDEN:
            raise PermissionError(f"{place}: access denied (status {error.code})") from None
        if error.code == _FAILED_CONDITION:
            raise ReplacedError(_REPLACED.format(place=place)) from None
        answers = f"{place}: the server answers with status {error.code}"
        if error.code == _TOO_MANY or error.code >= _SERVERS_FAULT:
            wait = retry_after(error.headers.get("Retry-After"), time.time())
            raise _MomentaryError(answers, wait or 0) from None
        raise OSError(answers) from None
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, TimeoutError):
        raise TimeoutError(f"{place}: the server is too slow: {reason}") from None
    if isinstance(reason, _PASSING) or getattr(reason, "errno", None) in _PASSING_NUMBERS:
        raise _MomentaryError(f"{place}: {reason}") from None
    if isinstance(error, OSError) and not isinstance(error, urllib.error.URLError):
        raise error
    if isinstance(reason, UnreachableZoneError):
        raise PermissionError(f"{place}: {reason}") from None
    raise OSError(f"{place}: {tls_fault(reason) or reason}") from None
