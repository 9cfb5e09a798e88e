"""Arbitrary bytes are answered only with 2xx, 4xx or 503, and the provider keeps running."""

import asyncio
import contextlib
import logging
import random
import re
from collections.abc import Callable

import pytest

from oai.database import Database
from oai.settings import Settings
from tests.provider.archive import Archive
from tests.provider.conftest import Provider
from tests.provider.listening import app_of, listening
from tests.provider.raw import connect, get

_ROUNDS = 100
_TOKENS = [
    b"verb=Identify", b"verb=ListRecords", b"verb=GetRecord", b"metadataPrefix=oai_dc", b"&", b"&&", b"=",
    b"%", b"%0", b"%zz", b"%00", b"%ff%fe", b"%ED%A0%80", b"+", b"#", b"?", b";", b"\xff", b"\x00", b"\x7f",
    b"\t", b"set=a:b", b"from=2020-01-01", b"until=9999-99-99", b"identifier=oai:x:\xc5\xbe",
    b"resumptionToken=", b"verb%3DIdentify", b"../" * 9, b"//", b"a" * 5000, "\u202e\U0001f600".encode(),
    b"from=%D9%A2020-01-01", b"&url=http://example.cz/&", b"url=*", b"&matchType=domain", b"&limit=-1",
    b"&output=json", b"&closest=2020", b"&from=0", b"&to=99999999999999999", b"&sort=closest",
]  # fmt: skip
_METHODS = [
    b"GET", b"POST", b"HEAD", b"OPTIONS", b"get", b"PUT", b"CONNECT", b"TRACE", b"\xff", b"", b"GE T",
]  # fmt: skip
_PATHS = [
    b"/oai", b"/oai", b"/cdx", b"/archive/" + b"0" * 32, b"/healthz", b"/oai/", b"/", b"*", b"oai", b"//oai",
    b"/timemap/link/http://a/", b"/timegate/", b"/%6Fai", b"http://x/oai", b"http://[::1/oai", b"/\xff",
]  # fmt: skip
_VERSIONS = [
    b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.1 ", b"HTTP/9.9", b"", b"http/1.1", b"XYZ",
]  # fmt: skip
_HEADERS = [
    b"Host: x", b"Host: y", b"Host:", b"Content-Length: 5", b"Content-Length: 6", b"Content-Length: -5",
    b"Content-Length: 99999999999999999999999", b"Content-Length: 0x10", b"Content-Length: 5, 5",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity",
    b"Transfer-Encoding: chunked, chunked", b"Content-Encoding: gzip", b"Content-Encoding: br",
    b"Content-Type: application/x-www-form-urlencoded", b"Content-Type: text/xml; charset=utf-7",
    b"Content-Type: application/x-www-form-urlencoded; charset=nonsense", b"Content-Type: \xff/;;=",
    b"Accept-Encoding: gzip;q=\xff", b"Accept-Encoding: *;q=1e999", b"Accept: text/html", b"Accept: \x01",
    b"Accept-Language: cs;q=x", b"Expect: 100-continue", b"Expect: nonsense", b"Connection: close",
    b"Connection: Upgrade", b"Upgrade: websocket", b"Upgrade: h2c", b"Range: bytes=0-1,5-",
    b"If-None-Match: *", b"If-Modified-Since: Thu, 99 Foo 2020", b"X-Forwarded-For: \xff,,::::,1.2.3.4.5",
    b"From: \xc5\xbe\x80", b"User-Agent: " + b"u" * 4000, b"User-Agent: \xed\xa0\x80",
    b"X: " + b"h" * 9000, b"No-Colon", b": empty", b" folded: yes", b"X\x00Y: z", b"X: a\x00b", b"X: a\rb",
    b"Cookie: a=b; =;;\xff", b"Accept-Datetime: \xff",
]  # fmt: skip
_BODIES = [
    b"", b"verb=", b"verb=Identify", b"5\r\nverb=\r\n0\r\n\r\n", b"zz\r\n", b"ffffffffffffffffff\r\nx",
    b"\xff\x00%", b"5;ext=\xff\r\nverb=\r\n0\r\nTrailer: x\r\n\r\n", b"-1\r\n\r\n", b"a" * 70_000,
    b"\x1f\x8b\x08\x00", b"\r\n" * 50,
]  # fmt: skip


def hostile_request(pick: random.Random) -> bytes:
    """Return one request, which is usually invalid in some way."""
    usual = pick.random() < 0.5
    query = b"".join(pick.choices(_TOKENS, k=pick.randint(0, 6)))
    if usual:
        query = query.replace(b"\x00", b"").replace(b"\t", b"").replace(b"\xff", b"%ff")
    line = [
        pick.choice(_METHODS[:3] if usual else _METHODS),
        pick.choice(_PATHS[:5] if usual else _PATHS) + b"?" + query,
        pick.choice(_VERSIONS[:2] if usual else _VERSIONS),
    ]
    headers = [*_HEADERS[:1], *pick.choices(_HEADERS, k=pick.randint(0, 1 if usual else 6))]
    lines = [b" ".join(line), *headers]
    newline = b"\r\n" if pick.random() < 0.9 else b"\n"
    # Bytes after a request without a body are read as the next request.
    body = pick.choice(_BODIES) if line[0] == b"POST" or not usual else b""
    return newline.join(lines) + newline * 2 + body


def pipelined(pick: random.Random) -> bytes:
    """Return several requests at once, valid and invalid ones."""
    good = get("verb=Identify")
    return b"".join(pick.choice([good, hostile_request(pick)]) for _ in range(pick.randint(2, 40)))


def torn(pick: random.Random) -> bytes:
    """Return a truncated request, or one with changed bytes."""
    whole = bytearray(hostile_request(pick))
    for _ in range(pick.randint(1, 3)):
        whole[pick.randrange(len(whole))] = pick.randrange(256)
    return bytes(whole if pick.random() < 0.5 else whole[: pick.randint(1, len(whole))])


async def statuses(port: int, sent: bytes) -> list[int]:
    """Return the statuses of all responses to these bytes."""
    client = await connect(port)
    client.writer.write(sent)
    answer = await asyncio.wait_for(client.rest(), 60)
    await client.close()
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) [A-Z]", answer)]


async def assert_answered_without_server_error(
    database: Database, settings: Settings, make: Callable[[random.Random], bytes], seed: int
) -> None:
    """Send many such requests, several at a time, and check the responses."""
    pick = random.Random(seed)
    requests = [make(pick) for _ in range(_ROUNDS)]
    seen: set[int] = set()
    # Short times, since many of these requests never end.
    app = app_of(database, settings, idle_seconds=0.2, body_seconds=0.2)
    async with listening(app) as port:
        for start in range(0, _ROUNDS, 50):
            batch = requests[start : start + 50]
            for sent, found in zip(
                batch, await asyncio.gather(*(statuses(port, one) for one in batch)), strict=True
            ):
                assert all(status // 100 in {2, 4} or status in {100, 503} for status in found), (found, sent)
                seen.update(found)
        assert await statuses(port, get("verb=Identify", "Connection: close")) == [200]
    assert {200, 400} <= seen


def assert_no_error_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Check that nothing was logged as an error."""
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_hostile_requests_are_answered_with_2xx_4xx_or_503(
    archive: Archive, database: Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    archive.add_many(4)
    await assert_answered_without_server_error(database, settings, hostile_request, 1)
    assert_no_error_logged(caplog)


async def test_pipelined_requests_are_answered_with_2xx_4xx_or_503(
    archive: Archive, database: Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    archive.add()
    await assert_answered_without_server_error(database, settings, pipelined, 2)
    assert_no_error_logged(caplog)


async def test_damaged_requests_are_answered_with_2xx_4xx_or_503(
    archive: Archive, database: Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    archive.add()
    await assert_answered_without_server_error(database, settings, torn, 20)
    assert_no_error_logged(caplog)


HOSTILE = [
    b"GET /oai?verb=Identify%0d%0aX:%20y HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /oai?verb=Identify\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /oai?verb=\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /oai?verb=Identify#fragment HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://x:99999/oai?verb=Identify HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[::1/oai?verb=Identify HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET //oai?verb=Identify HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /oai/../oai?verb=Identify HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /%6fai?verb=Identify HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /oai\xff?verb=Identify HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /oai?%zz=%&verb=%u0041 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /oai?" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /oai?verb=Identify HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip;q=\xff, ;;,=,\r\n\r\n",
    b"POST /oai HTTP/1.1\r\nHost: x\r\nContent-Type: \xff/;;\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /oai HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /oai HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nverb=",
    b"POST /oai HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /oai HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    (
        b"POST /oai HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 10\r\n\r\nverb=\xff\x00%00"
    ),
    b"BREW /oai HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01",
]


@pytest.mark.parametrize("sent", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_bytes_are_never_answered_with_500(reading: Provider, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", reading.client.port)
    writer.write(sent)
    with contextlib.suppress(OSError):  # closed by the server already
        writer.write_eof()
    try:
        answer = await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        answer = b""  # refused and closed before all of it was read
    writer.close()
    status = answer.split(b" ", 2)[1:2]
    assert status == [] or status[0][:1] in b"24"
    assert not (await reading.ask(verb="Identify")).codes


async def test_a_form_that_does_not_match_its_content_encoding_is_answered_with_400(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    """The server starts the request before its body has arrived, so the handler meets the error."""
    assert provider.client.port is not None
    client = await connect(provider.client.port)
    client.writer.write(
        b"POST /oai HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Expect: 100-continue\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
    )
    assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    client.writer.write(b"abcd")
    answer = await client.rest()
    await client.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the form's bytes do not match its headers" in answer
    assert not (await provider.ask(verb="Identify")).codes
    assert_no_error_logged(caplog)
