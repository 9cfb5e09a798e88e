"""A small SMTP server on 127.0.0.1 that keeps the mails it receives and refuses them on request."""

import asyncio
import base64
import contextlib
import email
import email.policy
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from email.message import EmailMessage

Answer = str | None
"""A line such as `451 try later`; None closes the connection without an answer."""


@dataclass(kw_only=True)
class Mail:
    """A message as it came."""

    sender: str
    to: list[str]
    message: EmailMessage
    encrypted: bool
    user: str | None

    @property
    def text(self) -> str:
        content: str = self.message.get_content()
        return content


@dataclass(kw_only=True)
class MailServer:
    """Takes mails; `answers` gives another answer for a command, `MAIL`, `RCPT`, `DATA`, `.` or `QUIT`."""

    port: int = 0
    mails: list[Mail] = field(default_factory=list)
    answers: dict[str, Callable[[], Answer]] = field(default_factory=dict)
    context: ssl.SSLContext | None = None
    """With one, STARTTLS is offered."""
    password: str | None = None
    """With one, clients have to sign in."""

    def refuse(self, command: str, *answers: Answer) -> None:
        """Give these answers to the command, one after another; later ones are good."""
        left = list(answers)
        good = {"MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go on", ".": "250 taken", "QUIT": "221 bye"}
        self.answers[command] = lambda: left.pop(0) if left else good[command]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await _Conversation(self, reader, writer).hold()
        writer.close()


class _Conversation:
    def __init__(
        self, server: MailServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._encrypted = False
        self._user: str | None = None
        self._sender = ""
        self._to: list[str] = []

    async def hold(self) -> None:
        await self._say("220 here")
        while line := (await self._reader.readline()).decode("ascii").rstrip("\r\n"):
            command = line.split()[0].upper()
            given = self._server.answers.get(command)
            answer = given() if given else ""
            if answer is None:
                return
            if answer and not answer.startswith(("2", "3")):
                await self._say(answer)
            elif not await self._obey(command, line):
                return

    async def _obey(self, command: str, line: str) -> bool:
        match command:
            case "EHLO" | "HELO":
                await self._greet()
            case "STARTTLS":
                await self._say("220 go on")
                await self._writer.start_tls(self._server.context)  # type: ignore[arg-type]
                self._encrypted = True
            case "AUTH":
                await self._sign_in(line)
            case "MAIL":
                self._sender, self._to = line.partition("<")[2].partition(">")[0], []
                await self._say("250 ok")
            case "RCPT":
                self._to.append(line.partition("<")[2].partition(">")[0])
                await self._say("250 ok")
            case "DATA":
                return await self._take()
            case "QUIT":
                await self._say("221 bye")
                return False
            case _:
                await self._say("250 ok")
        return True

    async def _greet(self) -> None:
        words = ["here"]
        if self._server.context is not None and not self._encrypted:
            words.append("STARTTLS")
        if self._server.password is not None:
            words.append("AUTH PLAIN")
        for word in words[:-1]:
            await self._say(f"250-{word}")
        await self._say(f"250 {words[-1]}")

    async def _sign_in(self, line: str) -> None:
        _, user, password = base64.b64decode(line.split()[2]).decode().split("\0")
        if password == self._server.password:
            self._user = user
            await self._say("235 welcome")
        else:
            await self._say("535 wrong password")

    async def _take(self) -> bool:
        await self._say("354 go on")
        raw = (await self._reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n.")
        given = self._server.answers.get(".")
        answer = given() if given else "250 taken"
        if answer is None:
            return False
        if answer.startswith("2"):
            message = email.message_from_bytes(raw, policy=email.policy.default)
            assert isinstance(message, EmailMessage)
            self._server.mails.append(
                Mail(
                    sender=self._sender,
                    to=self._to,
                    message=message,
                    encrypted=self._encrypted,
                    user=self._user,
                )
            )
        await self._say(answer)
        return True

    async def _say(self, line: str) -> None:
        self._writer.write(f"{line}\r\n".encode())
        await self._writer.drain()


@contextlib.asynccontextmanager
async def mail_server(
    *, context: ssl.SSLContext | None = None, password: str | None = None
) -> AsyncIterator[MailServer]:
    """A mail server for as long as the block lasts."""
    kept = MailServer(context=context, password=password)
    listening = await asyncio.start_server(kept.handle, "127.0.0.1", 0)
    kept.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield kept
