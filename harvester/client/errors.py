"""What can go wrong between us and a repository.

::

    RemoteError (4)
    └── ClientError                no usable answer
        ├── TransportError         no answer at all; `kind` says why: dns, refused, tls, timeout, …
        ├── HttpStatusError        an answer with an HTTP status that is no success
        ├── AnswerTooLargeError    more bytes than the limit
        ├── NotOaiPmhError         an answer, but not OAI-PMH: `found` has its first bytes
        ├── MalformedAnswerError   OAI-PMH that is broken: not well-formed, or required parts missing
        │   └── EndlessListError   a list that goes in circles or never fills
        └── OaiError               one of the protocol's errors, by its code (specification, section 3.6)
    TryLaterError (75)
    ├── ServerBusyError            503 or 429, with a Retry-After longer than we wait
    └── RepositoryBusyError        another harvest of the same repository is under way

Every message says what was found, where, and what to do.
"""

from enum import StrEnum

from oai.errors import RemoteError, TryLaterError

_SHOWN_BYTES = 120


class TransportKind(StrEnum):
    """Why there was no answer."""

    DNS = "dns"
    REFUSED = "refused"
    TLS = "tls"
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    REDIRECT = "redirect"
    ADDRESS = "address"


class ClientError(RemoteError):
    """No usable answer."""


class TransportError(ClientError):
    """No answer at all."""

    def __init__(self, url: str, kind: TransportKind, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.kind = kind


class HttpStatusError(ClientError):
    """An answer with an HTTP status that is no success."""

    def __init__(self, url: str, status: int, reason: str = "") -> None:
        super().__init__(f"{url}: HTTP status {status} {reason}".rstrip())
        self.url = url
        self.status = status


class AnswerTooLargeError(ClientError):
    """More bytes than the limit."""

    def __init__(self, url: str, limit: int) -> None:
        super().__init__(f"{url}: the answer is larger than {limit:,} bytes; see setting max_answer_bytes")
        self.url = url


class NotOaiPmhError(ClientError):
    """An answer, but not OAI-PMH."""

    def __init__(self, url: str, reason: str, found: bytes) -> None:
        super().__init__(f"{url}: {reason}; it begins with {_shown(found)!r}. Is this the base URL?")
        self.url = url
        self.found = found[:_SHOWN_BYTES]


class MalformedAnswerError(ClientError):
    """OAI-PMH that is broken: not well-formed, or required parts missing."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason


class EndlessListError(MalformedAnswerError):
    """A list that goes in circles or never fills."""


class OaiError(ClientError):
    """One of the protocol's errors, by its code; servers also make up codes, so it is a plain string."""

    def __init__(self, url: str, code: str, message: str, *, response_date: str = "") -> None:
        super().__init__(f"{url}: {code}: {message}" if message else f"{url}: {code}")
        self.url = url
        self.code = code
        self.message = message
        self.response_date = response_date


class ServerBusyError(TryLaterError):
    """The server asked to come back later than we wait."""

    def __init__(self, url: str, status: int, seconds: float | None) -> None:
        when = "later" if seconds is None else f"in {seconds:,.0f} seconds"
        super().__init__(f"{url}: HTTP status {status}, come back {when}; run the same command again then")
        self.url = url
        self.status = status
        self.seconds = seconds


class RepositoryBusyError(TryLaterError):
    """Another harvest of the same repository is under way."""


def _shown(found: bytes) -> str:
    return " ".join(found[:_SHOWN_BYTES].decode("utf-8", errors="replace").split())
