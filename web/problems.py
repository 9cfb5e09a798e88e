"""A repository that did not answer as it should: each kind of failure in plain words, with what to do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from harvester.reading.errors import (
    AnswerTooLargeError,
    BadArgumentError,
    CannotDisseminateFormatError,
    EndlessListError,
    HttpStatusError,
    MalformedAnswerError,
    NotOaiPmhError,
    OaiError,
    ServerBusyError,
    TransportError,
    TransportKind,
)
from oai.errors import ZatvaError
from web.forms import Problem
from web.words import _, mark

_NOT_FOUND: Final = 404
_SERVER_FAULT: Final = 500
_OLD_VERSION: Final = "OAI-PMH 1.1"
_OTHER_XML: Final = "XML with the root element"
_CLOSED: Final = frozenset({401, 403})
_TRANSPORT: Final[Mapping[TransportKind, tuple[str, str]]] = MappingProxyType(
    {
        TransportKind.DNS: (
            mark("The host name does not exist."),
            mark("Check the spelling of the host name."),
        ),
        TransportKind.REFUSED: (
            mark("The server does not accept connections on this port."),
            mark("Check the host name and port; the server may also be down or behind a firewall."),
        ),
        TransportKind.TLS: (
            mark("The secure connection could not be established."),
            mark("The server's certificate is not valid; its administrator has to renew it."),
        ),
        TransportKind.TIMEOUT: (
            mark("The server did not answer in time."),
            mark("Try again; if the problem persists, ask the repository's administrator."),
        ),
        TransportKind.DISCONNECTED: (
            mark("The connection was interrupted."),
            mark("Try again; if the problem persists, ask the repository's administrator."),
        ),
        TransportKind.REDIRECT: (
            mark("The address redirects too many times."),
            mark("Ask the repository's administrator for the current base URL."),
        ),
        TransportKind.PRIVATE: (
            mark("The address is not on the public internet."),
            mark(
                "Users cannot send requests to addresses in private networks. An administrator can "
                "allow it with the setting web.private_addresses."
            ),
        ),
        TransportKind.ADDRESS: (
            mark("The address is not valid."),
            mark("Enter it as https://host/path."),
        ),
    }
)
"""What happened and what to do where no answer came, by its kind."""
_ANSWERS: Final[Mapping[type[ZatvaError], tuple[str, str]]] = MappingProxyType(
    {
        ServerBusyError: (
            mark("The server asks to retry later."),
            mark("Wait, then send the form again."),
        ),
        EndlessListError: (
            mark("The repository's list of sets does not end."),
            mark("Write to its administrator: pages of the list repeat or stay empty."),
        ),
        MalformedAnswerError: (
            mark("The answer is OAI-PMH, but not valid."),
            mark("Write to the repository's administrator and include the text below."),
        ),
        AnswerTooLargeError: (
            mark("The answer is too large."),
            mark("If you trust the repository, raise the setting named below."),
        ),
    }
)
"""The same for kinds that say enough by themselves; of two that fit the first one counts."""


def problem_of(error: ZatvaError) -> Problem:
    """What happened, what to do about it, and the technical text."""
    title, advice = _words(error)
    return Problem(title=title, lines=(advice, str(error)))


def _words(error: ZatvaError) -> tuple[str, str]:
    if isinstance(error, TransportError):
        title, advice = _TRANSPORT[error.kind]
        return _(title), _(advice)
    if isinstance(error, HttpStatusError):
        return _status(error.status)
    if isinstance(error, BadArgumentError | CannotDisseminateFormatError):
        return (
            _("The repository refused the request: %(code)s.") % {"code": error.code},
            _("Check the metadata format, and the set or query."),
        )
    if isinstance(error, OaiError):
        return (
            _("The repository answered with the error %(code)s.") % {"code": error.code},
            _("Check the base URL; if it is correct, ask the repository's administrator."),
        )
    return _answer(error)


def _answer(error: ZatvaError) -> tuple[str, str]:
    if isinstance(error, MalformedAnswerError) and _OLD_VERSION in error.reason:
        return (
            _("The repository supports only OAI-PMH 1.1, which is obsolete."),
            _("Ask the repository's administrator for an address that supports version 2.0."),
        )
    if isinstance(error, NotOaiPmhError):
        return _not_oai_pmh(error)
    for kind, (title, advice) in _ANSWERS.items():
        if isinstance(error, kind):
            return _(title), _(advice)
    return _("The repository could not be read."), _("See the text below for details.")


def _not_oai_pmh(error: NotOaiPmhError) -> tuple[str, str]:
    if _OTHER_XML in str(error):
        return (
            _("The answer is XML, but not OAI-PMH."),
            _("It may be a feed or another service. Look for the repository's OAI-PMH base URL."),
        )
    return (
        _("The server answered, but not with OAI-PMH."),
        _("Look for the repository's OAI-PMH base URL: it usually differs from the home page."),
    )


def _status(status: int) -> tuple[str, str]:
    if status == _NOT_FOUND:
        return (
            _("The server has no page at this address (HTTP 404)."),
            _("Check the path after the host name."),
        )
    if status in _CLOSED:
        return (
            _("The server denies access (HTTP %(status)s).") % {"status": status},
            _("Ask the repository's administrator to allow OAI-PMH requests from this server's IP address."),
        )
    if status >= _SERVER_FAULT:
        return (
            _("The server reports an internal error (HTTP %(status)s).") % {"status": status},
            _("Try again later; if the problem persists, inform the repository's administrator."),
        )
    return _("The server answered with HTTP %(status)s.") % {"status": status}, _("Check the base URL.")
