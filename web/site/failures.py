"""Explanations of failures: in the reader's language, followed by the original technical text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harvester.models import History
from harvester.reading.errors import (
    RUN_AGAIN,
    AnswerTooLargeError,
    BadArgumentError,
    CannotDisseminateFormatError,
    ClientError,
    EndlessListError,
    HttpStatusError,
    MalformedAnswerError,
    NotOaiPmhError,
    OaiError,
    ObsoleteVersionError,
    ServerBusyError,
    TransportError,
    TransportKind,
)
from manager.jobs.estimates import JobProgress
from manager.jobs.reasons import WaitReason
from manager.models import RecurringJob
from oai.errors import ZatvaError
from oai.failures import Explanation, Failure, FailureCode, explained
from web.site.formats import on_the_clock
from web.site.forms import Problem
from web.site.i18n import _, language, mark

_SAY_ALL: Final = ("job_", "manager_", "process_", "run_", "schedule_over")
"""Codes of the manager whose explanation includes everything in the technical reason."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """An explanation in the reader's language."""

    what: str
    todo: str = ""
    technical: str = ""
    """The stored reason, in English; empty if it adds nothing."""


def explain(failure: Failure | None, reason: str | None) -> Explained | None:
    """Return the explanation of a failure with its technical reason; None without either."""
    if failure is None and not reason:
        return None
    found = failure or Failure(code=FailureCode.OTHER)
    words = in_words(found)
    technical = (reason or "").removesuffix(RUN_AGAIN)
    if found.code.startswith(_SAY_ALL):
        technical = str(found.facts.get("said", ""))
    return Explained(what=words.what, todo=words.todo, technical=technical)


def of_run(run: History) -> Explained | None:
    """Explain why a run ended as it did; None without a stored reason."""
    return explain(run.failure, run.failure_reason)


def of_schedule(schedule: RecurringJob) -> Explained | None:
    """Explain why a schedule no longer creates jobs."""
    return explain(Failure.from_json(schedule.state_failure), schedule.state_reason)


def of_job(reason: WaitReason) -> Explained | None:
    """Explain why a job was rejected, or what its harvest waits for."""
    failure = Failure.from_json(reason.facts.get("failure"))
    return explain(failure or Failure(code=FailureCode.REQUEST_INVALID), str(reason.facts.get("text", "")))


def noted(progress: JobProgress) -> Explained | None:
    """Explain the latest note of a harvest that continues."""
    failure = Failure.from_json(progress.last_failure)
    if failure is not None:
        return explain(failure, progress.last_error)
    if not progress.last_error:
        return None
    what = _("A problem occurred, but the harvest continues.")
    return Explained(what=what, technical=progress.last_error)


def in_words(failure: Failure) -> Explanation:
    """Return a failure's meaning and advice, in the reader's language and time zone."""
    return explained(failure, language.get(), lambda moment: str(on_the_clock(moment)))


_NOT_FOUND: Final = 404
_SERVER_FAULT: Final = 500
_CLOSED: Final = frozenset({401, 403})
_TRANSPORT: Final[Mapping[TransportKind, tuple[str, str]]] = {
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
        mark("The certificate or the TLS configuration is not valid; the administrator has to correct it."),
    ),
    TransportKind.NO_TLS: (
        mark("The server does not use https on this port."),
        mark("Try the address with http:// instead of https://, or another port."),
    ),
    TransportKind.TIMEOUT: (
        mark("The server did not answer in time."),
        mark("Try again; if the problem persists, ask the repository's administrator."),
    ),
    TransportKind.DISCONNECTED: (
        mark("The connection was interrupted."),
        mark("Try again; if the problem persists, ask the repository's administrator."),
    ),
    TransportKind.HTTP: (
        mark("The server's answer breaks the rules of HTTP."),
        mark("Ask the repository's administrator to correct the server or the proxy in front of it."),
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
"""What happened and what to do if no response arrived, by kind."""
_ANSWERS: Final[Mapping[type[ZatvaError], tuple[str, str]]] = {
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
"""The same for kinds that need no further text; the first match counts."""


def problem_of(error: ZatvaError) -> Problem:
    """Return what happened, what to do about it, and the technical text."""
    title, advice = _words(error)
    return Problem(title=title, lines=(advice, str(error)))


def _words(error: ZatvaError) -> tuple[str, str]:
    if isinstance(error, TransportError):
        title, advice = _TRANSPORT[error.kind]
        return _(title), _(advice)
    if isinstance(error, ClientError) and error.bot_check:
        return (
            _("The server's protection against bots refuses this program."),
            _("Ask the repository's administrator to allow OAI-PMH requests from this server's IP address."),
        )
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
    if isinstance(error, ObsoleteVersionError):
        return (
            _("The repository supports only OAI-PMH 1.1, which is obsolete."),
            _(
                "Harvest it with lenient validation, or ask the repository's administrator for an address "
                "that supports version 2.0."
            ),
        )
    if isinstance(error, NotOaiPmhError):
        return _not_oai_pmh(error)
    for kind, (title, advice) in _ANSWERS.items():
        if isinstance(error, kind):
            return _(title), _(advice)
    return _("The repository could not be read."), _("See the text below for details.")


def _not_oai_pmh(error: NotOaiPmhError) -> tuple[str, str]:
    if error.other_xml:
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
