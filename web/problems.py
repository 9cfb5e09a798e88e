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
            mark("There is no host of that name."),
            mark("Check how the host name is spelt."),
        ),
        TransportKind.REFUSED: (
            mark("The server does not accept connections there."),
            mark("Check the host name and the port; the server may also be down or behind a firewall."),
        ),
        TransportKind.TLS: (
            mark("No secure connection could be made."),
            mark("The server's certificate is not valid here; its administrator has to renew it."),
        ),
        TransportKind.TIMEOUT: (
            mark("The server did not answer in time."),
            mark("Try again; if it stays so, ask the repository's administrator."),
        ),
        TransportKind.DISCONNECTED: (
            mark("The connection broke off."),
            mark("Try again; if it stays so, ask the repository's administrator."),
        ),
        TransportKind.REDIRECT: (
            mark("The address leads on and on to others."),
            mark("Ask the repository's administrator for the present base URL."),
        ),
        TransportKind.PRIVATE: (
            mark("That address is not on the public internet."),
            mark(
                "Zatva does not ask addresses of private networks for its users. "
                "An administrator can allow it with the setting web.private_addresses."
            ),
        ),
        TransportKind.ADDRESS: (
            mark("That is no address."),
            mark("Write it as https://host/path."),
        ),
    }
)
"""What happened and what to do where no answer came, by its kind."""
_ANSWERS: Final[Mapping[type[ZatvaError], tuple[str, str]]] = MappingProxyType(
    {
        ServerBusyError: (
            mark("The server asks to come back later."),
            mark("Wait, then send the form again."),
        ),
        EndlessListError: (
            mark("The repository's list of sets does not come to an end."),
            mark("Write to its administrator: its pages repeat themselves or stay empty."),
        ),
        MalformedAnswerError: (
            mark("The answer is OAI-PMH, but broken."),
            mark("Write to the repository's administrator, and send the text below along."),
        ),
        AnswerTooLargeError: (
            mark("The answer is too large."),
            mark("Raise the setting named below if you trust the repository."),
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
            _("The repository refuses what was asked for: %(code)s.") % {"code": error.code},
            _("Check the metadata format, and the set or query."),
        )
    if isinstance(error, OaiError):
        return (
            _("The repository answered with the error %(code)s.") % {"code": error.code},
            _("Check the base URL; if it is right, ask the repository's administrator."),
        )
    return _answer(error)


def _answer(error: ZatvaError) -> tuple[str, str]:
    if isinstance(error, MalformedAnswerError) and _OLD_VERSION in error.reason:
        return (
            _("The repository speaks version 1.1 of OAI-PMH, which is long out of use."),
            _("Ask its administrator for an address that speaks version 2.0."),
        )
    if isinstance(error, NotOaiPmhError):
        return _not_oai_pmh(error)
    for kind, (title, advice) in _ANSWERS.items():
        if isinstance(error, kind):
            return _(title), _(advice)
    return _("The repository could not be read."), _("The text below says what was found.")


def _not_oai_pmh(error: NotOaiPmhError) -> tuple[str, str]:
    if _OTHER_XML in str(error):
        return (
            _("The answer is XML, but not OAI-PMH."),
            _("It may be a feed or another service. Look for the repository's OAI-PMH base URL."),
        )
    return (
        _("There is an answer, but it is not OAI-PMH."),
        _("Look for the repository's OAI-PMH base URL: its home page is mostly another address."),
    )


def _status(status: int) -> tuple[str, str]:
    if status == _NOT_FOUND:
        return (
            _("The server is there, but not this address (HTTP 404)."),
            _("Check the path after the host name."),
        )
    if status in _CLOSED:
        return (
            _("The server does not let us in (HTTP %(status)s).") % {"status": status},
            _("Ask the repository's administrator to open OAI-PMH for this machine's address."),
        )
    if status >= _SERVER_FAULT:
        return (
            _("The server has trouble of its own (HTTP %(status)s).") % {"status": status},
            _("Try again later; if it stays so, tell the repository's administrator."),
        )
    return _("The server answered with HTTP %(status)s.") % {"status": status}, _("Check the base URL.")
