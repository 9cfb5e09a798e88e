"""What can go wrong between us and a repository.

::

    RemoteError (4)
    └── ClientError                no usable answer
        ├── TransportError         no answer at all; `kind` says why: dns, refused, tls, timeout, …
        ├── HttpStatusError        an answer with an HTTP status that is no success
        ├── AnswerTooLargeError    an answer, or a part of it, beyond a limit that `failure` names
        ├── NotOaiPmhError         an answer, but not OAI-PMH: `found` has its first bytes
        ├── MalformedAnswerError   OAI-PMH that is broken: not well-formed, or required parts missing
        │   └── EndlessListError   a list that goes in circles or never fills
        └── OaiError               one of the protocol's errors, by its code (specification, section 3.6)
    TryLaterError (75)
    ├── ServerBusyError            503 or 429, with a Retry-After longer than we wait
    │   └── WaitingTooLongError    … or with one after the other, and no page between them
    └── RepositoryBusyError        another harvest of the same repository is under way

Every message says what was found, where, and what to do.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from oai.errors import RemoteError, TryLaterError
from oai.failures import Failure
from oai.vocabulary import ErrorCode

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
    PRIVATE = "private"
    """It would have led to an address that is not on the public internet, which the settings do not allow."""


class ClientError(RemoteError):
    """No usable answer. `raw` is the answer's body where one came."""

    raw: bytes = b""


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
    """An answer, or a part of it, is beyond a limit; `failure` says which one and where."""

    failure: Failure

    def __init__(self, url: str, failure: Failure) -> None:
        super().__init__(f"{url}: {failure.sentence()}")
        self.url = url
        self.failure = failure


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
    """A list that goes in circles or never fills; `failure` says how that was noticed."""

    def __init__(self, url: str, failure: Failure) -> None:
        super().__init__(url, failure.sentence())
        self.failure = failure


class OaiError(ClientError):
    """One of the protocol's errors, by its code; servers also make up codes, so it is a plain string."""

    def __init__(self, url: str, code: str, message: str, *, response_date: str = "") -> None:
        super().__init__(f"{url}: {code}: {message}" if message else f"{url}: {code}")
        self.url = url
        self.code = code
        self.message = message
        self.response_date = response_date


class BadArgumentError(OaiError):
    """The request has arguments that the server does not take."""


class BadResumptionTokenError(OaiError):
    """The resumption token is wrong or has expired."""


class BadVerbError(OaiError):
    """The server does not know the verb."""


class CannotDisseminateFormatError(OaiError):
    """The item or the repository does not have the metadata format."""


class IdDoesNotExistError(OaiError):
    """There is no item of that identifier."""


class NoRecordsMatchError(OaiError):
    """Nothing is selected."""


class NoMetadataFormatsError(OaiError):
    """The item has no metadata formats."""


class NoSetHierarchyError(OaiError):
    """The repository has no sets."""


_BY_CODE: Mapping[str, type[OaiError]] = MappingProxyType(
    {
        ErrorCode.BAD_ARGUMENT: BadArgumentError,
        ErrorCode.BAD_RESUMPTION_TOKEN: BadResumptionTokenError,
        ErrorCode.BAD_VERB: BadVerbError,
        ErrorCode.CANNOT_DISSEMINATE_FORMAT: CannotDisseminateFormatError,
        ErrorCode.ID_DOES_NOT_EXIST: IdDoesNotExistError,
        ErrorCode.NO_RECORDS_MATCH: NoRecordsMatchError,
        ErrorCode.NO_METADATA_FORMATS: NoMetadataFormatsError,
        ErrorCode.NO_SET_HIERARCHY: NoSetHierarchyError,
    }
)


def oai_error(url: str, code: str, message: str, *, response_date: str = "") -> OaiError:
    """The error of the class that belongs to the code; a plain OaiError where the server made the code up."""
    return _BY_CODE.get(code, OaiError)(url, code, message, response_date=response_date)


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
