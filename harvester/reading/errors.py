"""What can go wrong between us and a repository.

::

    RemoteError (4)
    └── ClientError                no usable answer
        ├── TransportError         no answer at all; `kind` says why: dns, refused, tls, timeout, …
        ├── HttpStatusError        an answer with an unsuccessful HTTP status
        ├── AnswerTooLargeError    an answer, or a part of it, beyond a limit that `failure` names
        ├── NotOaiPmhError         an answer, but not OAI-PMH: `found` has its first bytes
        ├── MalformedAnswerError   broken OAI-PMH: not well-formed, or required parts missing
        │   ├── ObsoleteVersionError   an answer of OAI-PMH 1.1
        │   └── EndlessListError   a list that never ends
        └── OaiError               one of the protocol's errors, by its code (specification, section 3.6)
    TryLaterError (75)
    ├── ServerBusyError            503 or 429, with a Retry-After longer than we wait
    │   └── WaitingTooLongError    … or with one after the other, and no page between them
    └── RepositoryBusyError        another harvest of the same repository is running
        └── RepositoryLockedError  … or a row of `oai_repository_lock` keeps harvests off

Every message says what was found, where, and what to do.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Final

from oai.errors import RemoteError, TryLaterError
from oai.failures import Failure, FailureCode
from oai.reach import without_credentials
from oai.vocabulary import ErrorCode

PRIVATE_SETTINGS: Final = (
    "see the setting harvester.private_addresses and, for repositories of organisations and addresses "
    "entered in the dashboard, web.private_addresses"
)
"""How private addresses are allowed, for messages."""
BOT_CHECK: Final = (
    "the server's protection against bots refuses this program; ask the repository's administrator to let "
    "its address and its User-Agent pass"
)
"""What happened and what to do if a page for browsers checks who sends requests."""
RUN_AGAIN: Final = "; run the same command again then"
"""Advice for the command line at the end of a message; pages leave it out."""
_SHOWN_BYTES = 120
_HEAD_BYTES = 4096
_BOT_CHECK_PAGE: Final = re.compile(
    rb"<title[^<>]*+>[^<]*"
    rb"(not a bot|just a moment|attention required|checking your browser|human verification)|anubis_version",
    re.IGNORECASE,
)
"""In pages of Anubis, Cloudflare and AWS WAF."""
_LONGEST_CODE: Final = 100
_LONGEST_MESSAGE: Final = 500
_LONGEST_REASON: Final = 2000


def one_line(declared: str, most: int) -> str:
    """Return what a server declares in one line of at most `most` characters, for lists and messages."""
    return " ".join(declared.split())[:most].rstrip()


class TransportKind(StrEnum):
    """Why there was no answer."""

    DNS = "dns"
    REFUSED = "refused"
    TLS = "tls"
    NO_TLS = "no_tls"
    """The server does not use https on this port."""
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    HTTP = "http"
    """The answer breaks the rules of HTTP: its header, or its division into chunks."""
    REDIRECT = "redirect"
    ADDRESS = "address"
    PRIVATE = "private"
    """The address is not on the public internet, and the settings do not allow that."""


_OF_TRANSPORT: Mapping[TransportKind, FailureCode] = {
    TransportKind.DNS: FailureCode.HOST_UNKNOWN,
    TransportKind.REFUSED: FailureCode.CONNECTION_REFUSED,
    TransportKind.TLS: FailureCode.TLS,
    TransportKind.NO_TLS: FailureCode.TLS,
    TransportKind.TIMEOUT: FailureCode.TIMEOUT,
    TransportKind.DISCONNECTED: FailureCode.DISCONNECTED,
    TransportKind.HTTP: FailureCode.HTTP_INVALID,
    TransportKind.REDIRECT: FailureCode.REDIRECT,
    TransportKind.ADDRESS: FailureCode.ADDRESS_INVALID,
    TransportKind.PRIVATE: FailureCode.ADDRESS_PRIVATE,
}
_ACCEPTED: Final = 202
"""For OAI-PMH it has no meaning; protections against bots send it with a script for browsers."""
_OF_STATUS: Mapping[int, FailureCode] = {
    401: FailureCode.HTTP_FORBIDDEN,
    403: FailureCode.HTTP_FORBIDDEN,
    404: FailureCode.HTTP_GONE,
    410: FailureCode.HTTP_GONE,
    429: FailureCode.SERVER_BUSY,
    503: FailureCode.SERVER_BUSY,
}
_SERVER_ERRORS = range(500, 600)


class ClientError(RemoteError):
    """No usable answer. `raw` is the answer's body if one was received."""

    raw: bytes = b""
    bot_check: bool = False
    """Whether the answer is that of a protection against bots."""


class TransportError(ClientError):
    """No answer at all."""

    def __init__(self, url: str, kind: TransportKind, reason: str) -> None:
        url = without_credentials(url)
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.kind = kind
        self.failure = Failure(code=_OF_TRANSPORT[kind])


class HttpStatusError(ClientError):
    """An answer with an unsuccessful HTTP status."""

    def __init__(self, url: str, status: int, reason: str = "", *, bot_check: bool = False) -> None:
        url = without_credentials(url)
        self.bot_check = bot_check or status == _ACCEPTED
        words = f"({BOT_CHECK})" if self.bot_check else reason
        super().__init__(f"{url}: HTTP status {status} {words}".rstrip())
        self.url = url
        self.status = status
        other = FailureCode.HTTP_SERVER_ERROR if status in _SERVER_ERRORS else FailureCode.HTTP_STATUS
        code = FailureCode.HTTP_FORBIDDEN if self.bot_check else _OF_STATUS.get(status, other)
        self.failure = Failure(code=code, facts={"status": status})


class AnswerTooLargeError(ClientError):
    """An answer, or a part of it, exceeds a limit; `failure` names the limit and the place."""

    failure: Failure

    def __init__(self, url: str, failure: Failure) -> None:
        url = without_credentials(url)
        super().__init__(f"{url}: {failure.sentence()}")
        self.url = url
        self.failure = failure


class PartError(ValueError):
    """A record, a header or another part of a list does not conform to the protocol."""

    def __init__(self, reason: str, code: FailureCode = FailureCode.RECORD_STRUCTURE) -> None:
        super().__init__(reason[:_LONGEST_REASON])
        self.failure = Failure(code=code)


class NotOaiPmhError(ClientError):
    """An answer, but not OAI-PMH."""

    failure = Failure(code=FailureCode.NOT_OAI_PMH)

    def __init__(self, url: str, reason: str, found: bytes, *, other_xml: bool = False) -> None:
        url = without_credentials(url)
        self.bot_check = _BOT_CHECK_PAGE.search(found[:_HEAD_BYTES]) is not None
        if self.bot_check:
            self.failure = Failure(code=FailureCode.HTTP_FORBIDDEN)
            advice = BOT_CHECK
        else:
            advice = "check the base URL, unless it has worked before"
        super().__init__(f"{url}: {reason}; it begins with {_shown(found)!r}; {advice}")
        self.url = url
        self.other_xml = other_xml
        """The answer is well-formed XML of another kind, such as a feed."""
        self.found = found[:_SHOWN_BYTES]


class MalformedAnswerError(ClientError):
    """Broken OAI-PMH: not well-formed, or required parts missing."""

    failure: Failure | None = Failure(code=FailureCode.MALFORMED_ANSWER)

    def __init__(self, url: str, reason: str) -> None:
        url = without_credentials(url)
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason


class ObsoleteVersionError(MalformedAnswerError):
    """An answer of OAI-PMH 1.1, which only loose reading accepts."""


class EndlessListError(MalformedAnswerError):
    """A list that is circular, or has only empty or repeated pages; `failure` says how that was detected."""

    def __init__(self, url: str, failure: Failure, *, empty: bool = False) -> None:
        url = without_credentials(url)
        super().__init__(url, failure.sentence())
        self.failure = failure
        self.empty = empty
        """Whether the page at which it was detected has no records."""


class OaiError(ClientError):
    """One of the protocol's errors, by its code; a plain string, because servers also invent codes."""

    failure_code: ClassVar = FailureCode.REPOSITORY_ERROR

    def __init__(self, url: str, code: str, message: str, *, response_date: str = "") -> None:
        url = without_credentials(url)
        code, message = one_line(code, _LONGEST_CODE), one_line(message, _LONGEST_MESSAGE)
        super().__init__(f"{url}: {code}: {message}" if message else f"{url}: {code}")
        self.url = url
        self.code = code
        self.message = message
        self.response_date = response_date
        self.failure = Failure(code=self.failure_code, facts={"error": code, "message": message})


class BadArgumentError(OaiError):
    """The request has arguments that the server does not accept."""

    failure_code = FailureCode.BAD_REQUEST


class BadResumptionTokenError(OaiError):
    """The resumption token is wrong or has expired."""

    failure_code = FailureCode.BAD_TOKEN


class BadVerbError(OaiError):
    """The server does not support the verb."""

    failure_code = FailureCode.BAD_REQUEST


class CannotDisseminateFormatError(OaiError):
    """The item or the repository does not offer the metadata format."""

    failure_code = FailureCode.FORMAT_NOT_OFFERED


class IdDoesNotExistError(OaiError):
    """There is no item with that identifier."""


class NoRecordsMatchError(OaiError):
    """No records match the selection."""


class NoMetadataFormatsError(OaiError):
    """The item has no metadata formats."""

    failure_code = FailureCode.FORMAT_NOT_OFFERED


class NoSetHierarchyError(OaiError):
    """The repository has no sets."""

    failure_code = FailureCode.NO_SETS


_BY_CODE: Mapping[str, type[OaiError]] = {
    ErrorCode.BAD_ARGUMENT: BadArgumentError,
    ErrorCode.BAD_RESUMPTION_TOKEN: BadResumptionTokenError,
    ErrorCode.BAD_VERB: BadVerbError,
    ErrorCode.CANNOT_DISSEMINATE_FORMAT: CannotDisseminateFormatError,
    ErrorCode.ID_DOES_NOT_EXIST: IdDoesNotExistError,
    ErrorCode.NO_RECORDS_MATCH: NoRecordsMatchError,
    ErrorCode.NO_METADATA_FORMATS: NoMetadataFormatsError,
    ErrorCode.NO_SET_HIERARCHY: NoSetHierarchyError,
}


def oai_error(url: str, code: str, message: str, *, response_date: str = "") -> OaiError:
    """Return the error of the class for the code; a plain OaiError if the server invented the code."""
    return _BY_CODE.get(code, OaiError)(url, code, message, response_date=response_date)


class ServerBusyError(TryLaterError):
    """The server asked for a longer wait than we accept."""

    def __init__(self, url: str, status: int, seconds: float | None) -> None:
        url = without_credentials(url)
        when = "later" if seconds is None else f"in {seconds:,.0f} seconds"
        super().__init__(f"{url}: HTTP status {status}, retry {when}{RUN_AGAIN}")
        self.url = url
        self.status = status
        self.seconds = seconds
        self.failure = Failure(code=FailureCode.SERVER_BUSY, facts={"status": status, "seconds": seconds})


class RepositoryBusyError(TryLaterError):
    """Another harvest of the same repository is running."""

    failure = Failure(code=FailureCode.REPOSITORY_BUSY)


class RepositoryLockedError(RepositoryBusyError):
    """A row of `oai_repository_lock` keeps harvests off the repository."""

    def __init__(self, message: str, *, number: int, holder: str, reason: str, until: str) -> None:
        super().__init__(message, number=number, holder=holder, reason=reason, until=until)
        facts = {"holder": holder, "reason": reason, "until": until}
        self.failure = Failure(code=FailureCode.REPOSITORY_LOCKED, facts=facts)


def _shown(found: bytes) -> str:
    return " ".join(found[:_SHOWN_BYTES].decode("utf-8", errors="replace").split())
