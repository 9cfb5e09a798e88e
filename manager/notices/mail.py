"""Sends a mail through the server of the settings, by SMTP."""

import contextlib
import smtplib
import ssl
from collections.abc import Callable
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from manager.notices.refusals import NotSentError, NoWordError, RefusedError
from manager.notices.rendering import Letter
from manager.notices.secrets import secret_of
from oai.outgoing import MailSettings

_PERMANENT = range(500, 600)


def compose(letter: Letter, *, sender: str, to: str, number: str, date: datetime) -> EmailMessage:
    """The message; one of the same number has the same Message-ID."""
    message = EmailMessage(policy=SMTP)
    message["From"] = Address("Zatva", addr_spec=sender)
    message["To"] = Address(addr_spec=to)
    message["Subject"] = letter.subject
    message["Date"] = format_datetime(date)
    message["Message-ID"] = f"<{number}.zatva@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.body, charset="utf-8", cte="quoted-printable")
    return message


def send(
    message: EmailMessage,
    settings: MailSettings,
    *,
    before_sending: Callable[[], None] | None = None,
    context: ssl.SSLContext | None = None,
) -> None:
    """Send it to the one that its To names; blocks.

    `before_sending` is called when the server has agreed to take it, before it goes out; `context` says whose
    certificates are believed (default: the system's). Raises NotSentError; RefusedError where the server will
    not take it later, either; NoWordError where it went out and the server did not say whether it has it.
    """
    if settings.host is None:
        raise NotSentError("no mail server is set; set mail.host")
    where = f"mail server {settings.host}, port {settings.port}"
    try:
        server = _connected(settings, context or ssl.create_default_context())
    except (OSError, smtplib.SMTPException) as error:
        raise NotSentError(f"{where}: {error}") from None
    try:
        _envelope(server, message, where)
        if before_sending is not None:
            before_sending()
        _hand_in(server, message, where)
        # It is theirs now, however the parting goes.
        with contextlib.suppress(OSError, smtplib.SMTPException):
            server.quit()
    finally:
        server.close()


def _envelope(server: smtplib.SMTP, message: EmailMessage, where: str) -> None:
    sender, to = (str(message[name].addresses[0].addr_spec) for name in ("From", "To"))
    try:
        _agree(server.mail(sender), where, f"the sender {sender!r}")
        _agree(server.rcpt(to), where, f"the recipient {to!r}")
    except (OSError, smtplib.SMTPException) as error:
        raise NotSentError(f"{where}: {error}") from None


def _hand_in(server: smtplib.SMTP, message: EmailMessage, where: str) -> None:
    try:
        _agree(server.data(message.as_bytes()), where, "the message")
    except smtplib.SMTPDataError as error:
        said = error.smtp_error
        _agree((error.smtp_code, said if isinstance(said, bytes) else said.encode()), where, "the message")
    except (OSError, smtplib.SMTPException) as error:
        raise NoWordError(
            f"{where}: the message was sent, but the server did not confirm it: {error}"
        ) from None


def _connected(settings: MailSettings, context: ssl.SSLContext) -> smtplib.SMTP:
    host, port, timeout = str(settings.host), settings.port, settings.timeout
    server = (
        smtplib.SMTP_SSL(host, port, timeout=timeout, context=context)
        if settings.security == "tls"
        else smtplib.SMTP(host, port, timeout=timeout)
    )
    try:
        server.ehlo_or_helo_if_needed()
        if settings.security == "starttls":
            server.starttls(context=context)
            server.ehlo_or_helo_if_needed()
        if settings.user is not None:
            password = secret_of(settings.password, settings.password_file, setting="mail.password_file")
            server.login(settings.user, password or "")
    except BaseException:
        server.close()
        raise
    return server


def _agree(answer: tuple[int, bytes], where: str, what: str) -> None:
    code, said = answer
    if code < 400:  # noqa: PLR2004 SMTP's own: 4xx for now, 5xx for ever
        return
    words = f"{where}: rejected {what}: {code} {said.decode('utf-8', errors='replace')}"
    raise RefusedError(words) if code in _PERMANENT else NotSentError(words)
