"""Connections to mail servers: encryption, signing in, refusals, and safe headers."""

import asyncio
import contextlib
import email
import socket
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from email.header import decode_header, make_header
from pathlib import Path

import pytest

from manager.notices import letters
from manager.notices.letters import Letter
from manager.notices.models import Channel, Occasion
from manager.notices.outbox import Claimed, NotSentError, RefusedError
from manager.notices.webhooks import secret_of
from oai.outgoing import MailSettings
from tests.certificates import make_certificate, server_context
from tests.manager.notices.mail_server import mail_server

MESSAGE_DATE = datetime(2026, 1, 31, tzinfo=UTC)
MESSAGE = letters.compose(
    Letter(subject="Příliš žluťoučký", body="Žluťoučký kůň\n.\n..dots\n"),
    sender="zatva@archive.example",
    to="alena@library.example",
    number="7",
    date=MESSAGE_DATE,
)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 with its key, made for this test."""
    return make_certificate(tmp_path)


def test_only_digests_name_a_page_that_stops_them_in_their_header() -> None:
    claimed = Claimed(
        notice_id=1, occasion=Occasion.DIGEST, channel=Channel.MAIL, target="a@library.example",
        language="en", facts={"token": "abc"}, created=MESSAGE_DATE, tries=1,
    )  # fmt: skip
    stop = letters.stop_link(claimed, "https://zatva.example/")
    message = letters.compose(
        Letter(subject="Digest", body=""), sender="zatva@archive.example", to="a@library.example",
        number="8", date=MESSAGE_DATE, stop=stop,
    )  # fmt: skip
    assert message["List-Unsubscribe"] == "<https://zatva.example/digests/abc>"
    assert "List-Unsubscribe" not in MESSAGE
    summary = replace(claimed, occasion=Occasion.SUMMARY)
    assert letters.stop_link(summary, "https://zatva.example/") is None
    assert letters.stop_link(claimed, None) is None


async def test_text_of_any_language_and_lines_of_dots_are_received_unchanged() -> None:
    async with mail_server() as server:
        settings = MailSettings(host="127.0.0.1", port=server.port, security="none")
        await asyncio.to_thread(letters.send, MESSAGE, settings)
    (received,) = server.mails
    assert received.message["Subject"] == "Příliš žluťoučký"
    assert received.text.splitlines() == ["Žluťoučký kůň", ".", "..dots"]
    assert received.message["Auto-Submitted"] == "auto-generated"


async def test_the_connection_is_encrypted_and_signed_in_with_the_password_of_the_file(
    certificate: Path, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("open sesame\n")
    async with mail_server(context=server_context(certificate), password="open sesame") as server:
        settings = MailSettings(
            host="127.0.0.1", port=server.port, user="zatva", password_file=tmp_path / "password"
        )
        believed = ssl.create_default_context(cafile=certificate)
        await asyncio.to_thread(letters.send, MESSAGE, settings, context=believed)
    assert [(one.encrypted, one.user) for one in server.mails] == [(True, "zatva")]


async def test_a_server_that_sends_byte_by_byte_is_given_up() -> None:
    over = asyncio.Event()

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"2")
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()
        over.set()

    async with await asyncio.start_server(drip, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        settings = MailSettings(host="127.0.0.1", port=port, security="none", timeout=0.1)
        with pytest.raises(NotSentError, match=r"no complete answer in 0\.4 seconds"):
            await asyncio.to_thread(letters.send, MESSAGE, settings)
        await over.wait()


async def test_a_self_signed_certificate_is_refused(certificate: Path) -> None:
    async with mail_server(context=server_context(certificate)) as server:
        settings = MailSettings(host="127.0.0.1", port=server.port)
        with pytest.raises(NotSentError, match=r"is invalid \(self-signed certificate\)$"):
            await asyncio.to_thread(letters.send, MESSAGE, settings)
    assert server.mails == []


def test_the_error_of_a_server_that_waits_for_tls_names_the_settings() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = MailSettings(host="127.0.0.1", port=silent.getsockname()[1], timeout=1)
        with pytest.raises(NotSentError, match=r"timed out; check mail\.security and mail\.port$"):
            letters.send(MESSAGE, settings)


async def test_a_server_without_encryption_gets_no_mail_by_default() -> None:
    async with mail_server() as server:
        with pytest.raises(NotSentError, match=r"STARTTLS .*; check mail\.security and mail\.port$"):
            await asyncio.to_thread(letters.send, MESSAGE, MailSettings(host="127.0.0.1", port=server.port))
    assert server.mails == []


async def test_a_wrong_password_is_not_a_final_refusal() -> None:
    async with mail_server(password="right") as server:
        settings = MailSettings.model_validate(
            {"host": "127.0.0.1", "port": server.port, "security": "none", "user": "z", "password": "wrong"}
        )
        with pytest.raises(NotSentError, match=r", port \d+: 535 wrong password$") as raised:
            await asyncio.to_thread(letters.send, MESSAGE, settings)
    assert not isinstance(raised.value, RefusedError)


@pytest.mark.parametrize(("user", "password"), [("z", "tajné-heslo"), ("žofie", "tajne-heslo")])
async def test_a_password_beyond_ascii_is_reported_without_its_value(user: str, password: str) -> None:
    async with mail_server(password=password) as server:
        settings = MailSettings.model_validate(
            {"host": "127.0.0.1", "port": server.port, "security": "none", "user": user, "password": password}
        )
        with pytest.raises(NotSentError, match=r"mail\.password_file has characters beyond ASCII") as raised:
            await asyncio.to_thread(letters.send, MESSAGE, settings)
    assert user not in str(raised.value).split()
    assert password not in str(raised.value)


@pytest.mark.parametrize(("answer", "again"), [("452 full", True), ("554 spam", False)])
async def test_the_answer_of_the_server_makes_a_refusal_temporary_or_final(answer: str, again: bool) -> None:  # noqa: FBT001 a case
    async with mail_server() as server:
        server.refuse(".", answer)
        settings = MailSettings(host="127.0.0.1", port=server.port, security="none")
        with pytest.raises(NotSentError, match=answer) as raised:
            await asyncio.to_thread(letters.send, MESSAGE, settings)
    assert isinstance(raised.value, RefusedError) is not again


async def test_a_connection_that_ends_at_the_data_command_means_not_sent() -> None:
    handed: list[int] = []
    async with mail_server() as server:
        server.refuse("DATA", None)
        settings = MailSettings(host="127.0.0.1", port=server.port, security="none")
        with pytest.raises(NotSentError) as raised:
            await asyncio.to_thread(letters.send, MESSAGE, settings, before_sending=lambda: handed.append(1))
    assert type(raised.value) is NotSentError
    assert handed == []


NAMES = (
    "=?utf-8?q?=0AContent-Type=3Atext/html=0A=0A=3Ch1=3EHi=2E?=",
    "x =?utf-8?q?=0D=0ABcc=3A_evil=40x.example=0D=0A?= y",
    "Ústřední věd Brně ústav pro českou literaturu, ředitelství sbírek a správa knihovních fondů",
    "An ordinary name",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_foreign_name_in_the_subject_adds_no_header(name: str) -> None:
    letter = Letter(subject=f"Harvest failed: {name}", body="Text\n")
    message = letters.compose(
        letter, sender="zatva@archive.example", to="b@c.example", number="7", date=MESSAGE["Date"].datetime
    )
    received = email.message_from_bytes(message.as_bytes())
    assert received.keys() == email.message_from_bytes(MESSAGE.as_bytes()).keys()
    assert str(make_header(decode_header(received["Subject"]))).strip() == f"Harvest failed: {name}"
    assert max(map(len, message.as_bytes().splitlines())) <= 78


def test_a_missing_password_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotSentError, match=r"mail\.password_file"):
        secret_of(None, tmp_path / "none", setting="mail.password_file")


def test_the_message_id_has_the_domain_of_the_sender() -> None:
    message = letters.compose(
        Letter(subject="s", body="b"),
        sender="zatva@mail.library.example",
        to="jan@library.example",
        number="7",
        date=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert message["Message-ID"] == "<7.zatva@mail.library.example>"
