"""The text of notices: a template for each occasion and language; its first line is the subject."""

import contextlib
import re
import smtplib
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import format_datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from manager.notices.models import Channel, Language, Occasion, UnsentReason
from manager.notices.outbox import Claimed, NotConfiguredError, NotSentError, RefusedError, UnconfirmedError
from manager.notices.reports import REASONED, with_entries
from manager.notices.webhooks import secret_of
from manager.schedules.frequency import parse_zone
from oai.deadline import Deadline
from oai.errors import UsageError
from oai.failures import Explanation, Failure, FailureCode, explained
from oai.languages import minute
from oai.outgoing import MailSettings
from oai.reach import NO_TLS, tls_fault

TEMPLATES: Final = Path(__file__).parent / "templates"
_FILES: Final = {
    Occasion.FAILING: "failing.txt",
    Occasion.STILL_FAILING: "failing.txt",
    Occasion.WORKS_AGAIN: "works_again.txt",
    Occasion.ENDED: "ended.txt",
    Occasion.SUSPENDED: "trouble.txt",
    Occasion.STUCK: "trouble.txt",
    Occasion.SET_ASIDE: "trouble.txt",
    Occasion.STORE_AUDIT: "store_audit.txt",
    Occasion.REPORT: "report.txt",
    Occasion.SUMMARY: "summary.txt",
    Occasion.TEST: "test.txt",
    Occasion.CONFIRM: "confirm.txt",
    Occasion.DIGEST_CONFIRM: "digest_confirm.txt",
    Occasion.DIGEST: "digest.txt",
}
_ZONES: Final = {
    Language.ENGLISH: "Times are in the time zone %s.",
    Language.CZECH: "Časy jsou v pásmu %s.",
    Language.SLOVAK: "Časy sú v pásme %s.",
}
_THOUSANDS: Final = {Language.ENGLISH: ",", Language.CZECH: "\u00a0", Language.SLOVAK: "\u00a0"}
_QUOTES: Final = {Language.ENGLISH: ('"', '"'), Language.CZECH: ("„", "“"), Language.SLOVAK: ("„", "“")}
_LONGEST_SUBJECT: Final = 180
_LONGEST_NAME: Final = 60
LONGEST_CHAT: Final = 1800
"""The characters of a message that every chat service accepts."""
_FEWER: Final = (25, 12, 6, 3, 1, 0)
"""Numbers of a report's entries, then of its groups, tried until the message is short enough."""
_NAMES: Final = ("repository_name", "metadata_prefix", "set_spec")
"""The facts in subjects that partners choose."""
_PERMANENT = range(500, 600)
_START_OF_MAIL: Final = 354
_DOT: Final = re.compile(rb"^\.", re.MULTILINE)
_WHOLE_SESSION_FACTOR: Final = 4
_UNFIT: Final = (smtplib.SMTPNotSupportedError, smtplib.SMTPServerDisconnected, TimeoutError)


@dataclass(frozen=True, kw_only=True)
class Letter:
    """The text of a notice."""

    subject: str
    body: str


@dataclass(kw_only=True)
class _Clock:
    """Formats the times of one letter."""

    language: Language
    zone: ZoneInfo
    used: bool = False
    """Whether the letter has a time, so that it has to name the zone."""

    def show(self, value: str) -> str:
        """Format a moment; return any other text as it is, because people may write facts of failures."""
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return value
        self.used = True
        return minute(moment, self.language, self.zone)


def render(
    occasion: str,
    language: str,
    facts: Mapping[str, Any],
    *,
    dashboard: str | None,
    mail: bool = False,
    zone: str = "UTC",
    most: int | None = None,
    subscription: Mapping[str, Any] | None = None,
) -> Letter:
    """Render a notice; `dashboard` is the base address of the dashboard, with which links begin.

    A report has at most `most` characters, and as many entries as fit.

    In the subject of a `mail`, names are quoted and cut, so that they cannot pretend to be the subject.
    Times are in `zone`, an IANA name, which the last line says; in UTC if the zone is unknown here. The
    paragraph before it says why the recipient gets the message, and how to stop it, from `subscription`.
    """
    if most is not None and occasion == Occasion.REPORT:
        return _fitting(partial(render, occasion, language, dashboard=dashboard, zone=zone), facts, most)
    if mail:
        quoted = {name: _quoted(facts[name], Language(language)) for name in _NAMES if facts.get(name)}
        subject = render(occasion, language, {**facts, **quoted}, dashboard=dashboard).subject
        plain = partial(render, occasion, language, facts, dashboard=dashboard, zone=zone)
        return replace(plain(subscription=subscription), subject=subject)
    known = Language(language)
    clock = _Clock(language=known, zone=_zone(zone))
    environment = _environment(known)
    template = environment.get_template(f"{known}/{_FILES[Occasion(occasion)]}")
    base_url = dashboard.rstrip("/") if dashboard else None
    text = template.render(facts, occasion=str(occasion), dashboard=base_url, clock=clock)
    if subscription is not None:
        ending = environment.get_template(f"{known}/subscription.txt")
        text = f"{text.rstrip()}\n\n{ending.render(subscription, dashboard=base_url)}"
    if clock.used:
        text = f"{text.rstrip()}\n\n{_ZONES[known] % clock.zone.key}"
    subject, _, body = text.strip().partition("\n")
    return Letter(subject=_one_line(subject), body=_with_single_blank_lines(body))


def subscription_of(claimed: Claimed, contact: str | None) -> dict[str, Any] | None:
    """Return what the end of a mail says about the rule that sends it; None if no rule does, and to confirm.

    `contact` is the address of those who run Zatva.
    """
    if claimed.rule_id is None or claimed.channel != Channel.MAIL or claimed.occasion == Occasion.CONFIRM:
        return None
    return {"rule_id": claimed.rule_id, "ordered_by": claimed.ordered_by, "contact": contact}


def stop_link(claimed: Claimed, dashboard: str | None) -> str | None:
    """Return the address of the page that stops a digest without an account; None for other mails."""
    if claimed.occasion != Occasion.DIGEST or not dashboard:
        return None
    return f"{dashboard.rstrip('/')}/digests/{claimed.facts['token']}"


def _fitting(written: Callable[[Mapping[str, Any]], Letter], facts: Mapping[str, Any], most: int) -> Letter:
    groups = [with_entries(facts["groups"], number) for number in _FEWER]
    # The advice of a group is left out with its entries, then the last groups.
    groups += [groups[-1][:number] for number in _FEWER[:-1]]
    letter = written(facts)
    for version in (*({**facts, "groups": some} for some in groups), {**facts, "short": True}):
        if len(letter.subject) + len(letter.body) <= most:
            break
        letter = written(version)
    return letter


@cache
def _environment(language: Language) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701 plain text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=lambda value: f"{value:,}".replace(",", _THOUSANDS[language]),
        moment=_moment,
        span=_span,
        line=_one_line,
    )
    environment.globals.update(explained=_explained, reasoned=REASONED)
    return environment


def _zone(name: str) -> ZoneInfo:
    try:
        return parse_zone(name)
    except UsageError:
        return ZoneInfo("UTC")


@pass_context
def _explained(context: Context, failure: object, missing: str = "?") -> Explanation:
    """Return what failed, in words; a notice written by an earlier version has no failure in its facts."""
    clock: _Clock = context["clock"]
    found = Failure.from_json(failure) or Failure(code=FailureCode.OTHER)
    return explained(found, clock.language, clock.show, fact=lambda _name: missing)


@pass_context
def _moment(context: Context, value: str) -> str:
    clock: _Clock = context["clock"]
    return clock.show(value)


def _span(begin: str, end: str) -> str:
    """Format the time between two moments: `3 d 4 h`, `4 h 12 min`, `12 min`; the same in every language."""
    minutes = max(datetime.fromisoformat(end) - datetime.fromisoformat(begin), timedelta()) // timedelta(
        minutes=1
    )
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _one_line(value: object) -> str:
    """Collapse a value to one line, so that foreign text cannot begin a new line or a mail header."""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in str(value)).split())
    return words if len(words) <= _LONGEST_SUBJECT * 6 else f"{words[: _LONGEST_SUBJECT * 6]} …"


def _quoted(name: object, language: Language) -> str:
    opening, closing = _QUOTES[language]
    words = re.sub('["„“”]', "'", _one_line(name))
    shown = words if len(words) <= _LONGEST_NAME else f"{words[:_LONGEST_NAME]} …"
    return f"{opening}{shown}{closing}"


def _with_single_blank_lines(body: str) -> str:
    """Leave one empty line between paragraphs, and none at either end."""
    lines: list[str] = []
    for line in body.strip().splitlines():
        if line.strip() or (lines and lines[-1]):
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


class _Subject(str):
    """A header that `EmailMessage` writes as it is encoded here.

    Left to itself it decodes the encoded words (RFC 2047) in a foreign name, line breaks included, so that
    the name begins headers of its own; and it loses blanks between words with and without accents.
    """

    __slots__ = ()
    name = "Subject"

    def fold(self, *, policy: Policy) -> str:
        """Return the whole header, in lines of the policy."""
        plain = self.isascii() and "=?" not in self
        header = Header(self, "us-ascii" if plain else "utf-8", header_name=self.name)
        return f"{self.name}: {header.encode(linesep=policy.linesep)}{policy.linesep}"


def compose(
    letter: Letter,
    *,
    sender: str,
    to: str,
    number: str,
    date: datetime,
    prefix: str = "",
    stop: str | None = None,
) -> EmailMessage:
    """Return the mail message; messages with the same number have the same Message-ID.

    `stop` is the address of a page that ends such messages for anybody who opens it (RFC 2369).
    """
    message = EmailMessage(policy=SMTP)
    message["From"] = Address("Zatva", addr_spec=sender)
    message["To"] = Address(addr_spec=to)
    message["Subject"] = _Subject(_one_line(f"{prefix} {letter.subject}"))
    message["Date"] = format_datetime(date)
    message["Message-ID"] = f"<{number}.zatva@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    if stop is not None:
        message["List-Unsubscribe"] = f"<{stop}>"
    message.set_content(letter.body, charset="utf-8", cte="quoted-printable")
    return message


def send(
    message: EmailMessage,
    settings: MailSettings,
    *,
    before_sending: Callable[[], None] | None = None,
    context: ssl.SSLContext | None = None,
) -> None:
    """Send the message to the recipient in its To header; blocks.

    `before_sending` is called when the server waits for the message, before that is transmitted;
    `context` holds the trusted certificates (default: those of the system). Raises NotSentError; RefusedError
    if the server has rejected the message permanently; UnconfirmedError if it was transmitted and the server
    did not confirm it.
    """
    where = _place(settings)
    with mail_session(settings, context) as server:
        _envelope(server, message, where)
        if before_sending is not None:
            before_sending()
        _hand_in(server, message, where)


@contextlib.contextmanager
def mail_session(settings: MailSettings, context: ssl.SSLContext | None = None) -> Iterator[smtplib.SMTP]:
    """Connect to the mail server, encrypt and sign in as the settings say. Raises NotSentError."""
    if settings.host is None:
        raise NotConfiguredError(UnsentReason.NO_MAIL_SERVER)
    with Deadline(settings.timeout * _WHOLE_SESSION_FACTOR) as deadline:
        try:
            server = _connected(settings, context or ssl.create_default_context(), deadline)
        except (OSError, smtplib.SMTPException) as error:
            # A server that waits for TLS is silent to a client without it.
            unfit = tls_fault(error) == NO_TLS or isinstance(error, _UNFIT)
            advice = "; check mail.security and mail.port" if unfit else ""
            raise NotSentError(f"{_place(settings)}: {_message_of(error)}{advice}") from None
        try:
            yield server
            # The server has accepted the message, so errors while closing the connection do not matter.
            with contextlib.suppress(OSError, smtplib.SMTPException):
                server.quit()
        finally:
            server.close()


def _place(settings: MailSettings) -> str:
    return f"mail server {settings.host}, port {settings.port}"


def _envelope(server: smtplib.SMTP, message: EmailMessage, where: str) -> None:
    sender, to = (str(message[name].addresses[0].addr_spec) for name in ("From", "To"))
    try:
        _agree(server.mail(sender), where, f"the sender {sender!r}")
        _agree(server.rcpt(to), where, f"the recipient {to!r}")
        begun = server.docmd("DATA")
        _agree(begun, where, "the message")
        if begun[0] != _START_OF_MAIL:
            raise NotSentError(f"{where}: answered DATA with {_answer(*begun)}")
    except (OSError, smtplib.SMTPException) as error:
        raise NotSentError(f"{where}: {_message_of(error)}") from None


def _hand_in(server: smtplib.SMTP, message: EmailMessage, where: str) -> None:
    # The command DATA is in `_envelope`: whoever fails before its answer has nothing of the message.
    try:
        server.send(_DOT.sub(b"..", message.as_bytes()) + b".\r\n")
        _agree(server.getreply(), where, "the message")
    except (OSError, smtplib.SMTPException) as error:
        raise UnconfirmedError(
            f"{where}: the message was sent, but the server did not confirm it: {_message_of(error)}"
        ) from None


class _Smtp(smtplib.SMTP):
    """A session whose connection is shut down at the deadline."""

    def __init__(self, settings: MailSettings, deadline: Deadline) -> None:
        self.deadline = deadline
        super().__init__(str(settings.host), settings.port, timeout=settings.timeout)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        connection = socket.create_connection((host, port), timeout)
        self.deadline.add(connection)
        return connection

    def getreply(self) -> tuple[int, bytes]:
        """Return the server's answer; the library accepts one that is cut off."""
        try:
            answer = super().getreply()
        except (OSError, smtplib.SMTPException):
            if not self.deadline.is_over:
                raise
        if self.deadline.is_over:
            self.close()
            raise self.deadline.error
        return answer


class _TlsSmtp(smtplib.SMTP_SSL, _Smtp):
    """The same with TLS, which begins after `_Smtp._get_socket`."""

    def __init__(self, settings: MailSettings, deadline: Deadline, context: ssl.SSLContext) -> None:
        self.deadline = deadline
        host, port, timeout = str(settings.host), settings.port, settings.timeout
        smtplib.SMTP_SSL.__init__(self, host, port, timeout=timeout, context=context)


def _connected(settings: MailSettings, context: ssl.SSLContext, deadline: Deadline) -> smtplib.SMTP:
    server = (
        _TlsSmtp(settings, deadline, context) if settings.security == "tls" else _Smtp(settings, deadline)
    )
    try:
        server.ehlo_or_helo_if_needed()
        if settings.security == "starttls":
            server.starttls(context=context)
            server.ehlo_or_helo_if_needed()
        if settings.user is not None:
            server.login(settings.user, _password(settings))
    except BaseException:
        server.close()
        raise
    return server


def _password(settings: MailSettings) -> str:
    password = secret_of(settings.password, settings.password_file, setting="mail.password_file") or ""
    # Checked here, because the error of smtplib contains the user name and the whole password.
    if not f"{settings.user}{password}".isascii():
        raise NotSentError(
            "mail.user or the password of mail.password_file has characters beyond ASCII, which cannot be "
            "sent to the mail server; choose others"
        )
    return password


def _agree(answer: tuple[int, bytes | str], where: str, what: str) -> None:
    code, text = answer
    if code < 400:  # noqa: PLR2004 SMTP: 4xx is transient, 5xx is permanent
        return
    words = f"{where}: rejected {what}: {_answer(code, text)}"
    raise RefusedError(words) if code in _PERMANENT else NotSentError(words)


def _answer(code: int, text: bytes | str) -> str:
    return f"{code} {text.decode('utf-8', errors='replace') if isinstance(text, bytes) else text}"


def _message_of(error: Exception) -> str:
    """Return the error in words; smtplib writes the answers of servers as tuples of Python."""
    if isinstance(error, smtplib.SMTPResponseException):
        return _answer(error.smtp_code, error.smtp_error)
    return tls_fault(error) or str(error)
