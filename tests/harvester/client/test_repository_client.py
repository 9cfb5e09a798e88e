import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from aiohttp import web

from harvester.client.loops import ListLimits, LoopDetector
from harvester.client.repository_client import Client, Selection, open_client
from harvester.client.transport import Arguments, HttpReply, request_url
from harvester.reading.answers import ResumptionToken
from harvester.reading.errors import (
    AnswerTooLargeError,
    EndlessListError,
    HttpStatusError,
    MalformedAnswerError,
    NotOaiPmhError,
    OaiError,
    ServerBusyError,
    TransportError,
    TransportKind,
)
from oai.errors import UsageError
from oai.guarded_http import retry_after
from oai.sections import HarvesterSettings
from oai.vocabulary import Verb
from tests.harvester.fake_repository import FakeRepository, many, serve

_BASE = "http://fake.example/oai"
_QUICK = HarvesterSettings(retries=0, timeout=5)


class Script:
    """A transport that replays answers: bytes, an HTTP status with headers, or an error."""

    def __init__(self, *answers: bytes | tuple[int, dict[str, str]] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []

    async def __call__(self, base_url: str, arguments: Arguments) -> HttpReply:
        self.asked.append(dict(arguments))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, headers, body = (200, {}, answer) if isinstance(answer, bytes) else (*answer, b"sorry")
        return HttpReply(url=request_url(base_url, arguments), status=status, headers=headers, body=body)


class Naps:
    """A sleep that returns at once and records the duration."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def _client(script: Script, naps: Naps | None = None, **settings: float) -> Client:
    return Client(_BASE, script, sleep=naps or Naps(), clock=lambda: 1000.0, chance=lambda: 0.0, **settings)  # type: ignore[arg-type]


def _identify() -> bytes:
    return FakeRepository().answer({"verb": "Identify"}).encode()


def _page(first: int, token: str, count: int = 2) -> bytes:
    body = FakeRepository(items=many(count, start=first)).answer({"verb": "ListRecords"})
    return body.replace(
        "</ListRecords>", f"<resumptionToken>{token}</resumptionToken></ListRecords>"
    ).encode()


@pytest.fixture
async def repository() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(25), sets=[f"s{number}" for number in range(23)])) as served:
        yield served


async def test_records_are_read_from_all_pages(repository: FakeRepository) -> None:
    async with open_client(repository.url) as client:
        found = [record.header.identifier async for record in client.records()]
    assert found == [item.identifier for item in repository.items]
    assert [set(asked) for asked in repository.asked[1:]] == [{"verb", "resumptionToken"}] * 2


async def test_headers_sets_formats_identity_and_one_record_are_read(repository: FakeRepository) -> None:
    async with open_client(repository.url) as client:
        headers = [header async for header in client.headers()]
        sets = [found.set_spec async for found in client.list_sets()]
        formats = await client.list_metadata_formats()
        record = await client.get_record("oai:fake.example:7")
        identity = await client.identify()
    assert len(headers) == 25
    assert sets == list(repository.sets)
    assert [found.metadata_prefix for found in formats] == ["oai_dc"]
    assert record.header.identifier == "oai:fake.example:7"
    assert identity.base_url == repository.url


async def test_no_set_hierarchy_means_no_sets() -> None:
    async with serve(FakeRepository()) as repository, open_client(repository.url) as client:
        assert [found async for found in client.list_sets()] == []


async def test_gzip_is_decoded(repository: FakeRepository) -> None:
    repository.fault = lambda _, body: (200, {"Content-Encoding": "gzip"}, gzip.compress(body))
    async with open_client(repository.url) as client:
        assert (await client.identify()).repository_name == "Fake"


async def test_reserved_characters_are_encoded(repository: FakeRepository) -> None:
    async with open_client(f"{repository.url}?site=1") as client:
        with pytest.raises(OaiError, match="idDoesNotExist"):
            await client.get_record("a/b?c#d=e&f:g;h i%j+k")
    assert repository.asked[0]["identifier"] == "a/b?c#d=e&f:g;h i%j+k"
    assert repository.asked[0]["site"] == "1"
    assert request_url("http://x/", [("a", "/?#=&:;+ %")]).endswith("%2F%3F%23%3D%26%3A%3B%2B%20%25")


async def test_the_client_waits_as_long_as_a_503_requests() -> None:
    naps = Naps()
    client = _client(Script((503, {"Retry-After": "7"}), _identify()), naps)
    await client.identify()
    assert naps.seconds == [7.0]
    assert client.traffic.requests == 2


async def test_a_503_that_requests_too_long_a_wait_ends_the_request() -> None:
    client = _client(Script((503, {"Retry-After": "7200"})), max_wait=3600)
    with pytest.raises(ServerBusyError, match="7,200 seconds") as caught:
        await client.identify()
    assert caught.value.exit_code == 75


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    date = format_datetime(datetime.fromtimestamp(1090, UTC), usegmt=True)
    assert [retry_after(value, 1000) for value in ("120", date, "soon", None, "-5")] == [
        120,
        90,
        None,
        None,
        None,
    ]
    assert retry_after(date, 2000) == 0


async def test_delays_between_attempts_grow_and_attempts_are_limited() -> None:
    naps = Naps()
    broken = TransportError(_BASE, TransportKind.DISCONNECTED, "gone")
    client = _client(Script(broken, (500, {}), (502, {}), broken), naps, retries=3)
    with pytest.raises(TransportError):
        await client.identify()
    assert naps.seconds == [0.5, 1.0, 2.0]


async def test_a_permanent_error_status_is_not_retried() -> None:
    naps = Naps()
    with pytest.raises(HttpStatusError, match="404"):
        await _client(Script((404, {})), naps).identify()
    assert naps.seconds == []


async def test_an_oai_answer_with_an_error_status_is_read(repository: FakeRepository) -> None:
    repository.fault = lambda _, body: (422, {}, body)
    async with open_client(repository.url) as client:
        with pytest.raises(OaiError, match="idDoesNotExist"):
            await client.get_record("none")


async def test_a_broken_page_is_requested_again() -> None:
    script = Script(_page(0, "next").replace(b"Title", b"&"), _page(0, "next"), _page(2, ""))
    found = [record.header.identifier async for record in _client(script).records()]
    assert len(found) == 4
    assert script.asked[0] == script.asked[1]


async def test_a_page_that_stays_broken_raises_except_in_lenient_reading() -> None:
    broken = _page(0, "").replace(b"Title 1", b"&")
    with pytest.raises(MalformedAnswerError):
        await anext(_client(Script(broken, broken)).records())
    pages = _client(Script(broken, broken)).pages(Verb.LIST_RECORDS, Selection(), loose=True)
    page = await anext(pages)
    assert len(page.records) == 1
    assert len(page.faults) == 1


async def test_a_circular_list_ends() -> None:
    script = Script(_page(0, "a"), _page(2, "b"), _page(0, "a"))
    with pytest.raises(EndlessListError, match="circular"):
        _ = [record async for record in _client(script).records()]


@pytest.mark.parametrize("begin", [0, 19_000, 21_000])
def test_a_loop_is_detected_however_late_it_starts(begin: int) -> None:
    detector = LoopDetector(ListLimits(repeated_pages=10**6))
    for number in range(begin):
        detector.check("http://x/", ResumptionToken(value=str(number)), [f"a{number}"])

    def go_round() -> None:
        for number in range(60_000):
            token = ResumptionToken(value=f"again {number % 7}")
            detector.check("http://x/", token, ["a"])

    with pytest.raises(EndlessListError, match="circular"):
        go_round()


async def test_the_same_token_on_all_pages_is_not_a_loop() -> None:
    script = Script(_page(0, "same"), _page(2, "same"), _page(4, ""))
    assert len([record async for record in _client(script).records()]) == 6


async def test_empty_pages_are_followed_up_to_a_limit() -> None:
    empty = [
        _page(0, str(number), 1).replace(b"<record>", b"<!--").replace(b"</record>", b"-->")
        for number in range(9)
    ]
    found = [record async for record in _client(Script(*empty, _page(0, ""))).records(loose=True)]
    assert len(found) == 2
    endless = Script(*(empty[0].replace(b">0<", b">%d<" % number) for number in range(1200)))
    with pytest.raises(EndlessListError, match="consecutive pages with a resumption token have no records"):
        _ = [record async for record in _client(endless).records(loose=True)]


async def _kind(url: str) -> TransportKind:
    async with open_client(url, _QUICK) as client:
        with pytest.raises(TransportError) as caught:
            await client.identify()
    return caught.value.kind


async def test_a_connection_that_ends_during_the_handshake_is_not_reported_as_refused() -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    server = await asyncio.start_server(end, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/oai"
    async with server, open_client(url, _QUICK) as client:
        with pytest.raises(TransportError, match="may demand a client certificate") as caught:
            await client.identify()
    assert caught.value.kind is TransportKind.DISCONNECTED


async def test_each_connection_failure_has_its_kind(repository: FakeRepository) -> None:
    port = repository.url.split(":")[2].split("/")[0]
    assert await _kind("http://no-such-host.invalid/oai") is TransportKind.DNS
    assert await _kind("http://127.0.0.1:1/oai") is TransportKind.REFUSED
    assert await _kind(f"https://127.0.0.1:{port}/oai") is TransportKind.NO_TLS
    repository.fault = lambda _asked, _body: (302, {"Location": "/oai"}, b"")
    assert await _kind(repository.url) is TransportKind.REDIRECT
    repository.fault = lambda _asked, _body: (302, {"Location": "file:///etc/passwd"}, b"")
    assert await _kind(repository.url) is TransportKind.REDIRECT


async def test_a_slow_answer_ends_at_the_time_limit() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.05)
        return response

    app = web.Application()
    app.router.add_get("/oai", drip)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/oai"
    try:
        async with open_client(url, HarvesterSettings(retries=0, timeout=0.5)) as client:
            with pytest.raises(TransportError) as caught:
                await client.identify()
        assert caught.value.kind is TransportKind.TIMEOUT
    finally:
        await runner.cleanup()


async def test_an_answer_beyond_the_limit_is_rejected_while_it_is_read(repository: FakeRepository) -> None:
    repository.fault = lambda _, body: body + b" " * 100_000
    async with open_client(repository.url, HarvesterSettings(max_answer_bytes=50_000)) as client:
        with pytest.raises(AnswerTooLargeError, match="50,000"):
            await client.identify()


@pytest.mark.parametrize("body", [b"<html><p>Hello", b"\x89PNG", b""])
async def test_an_answer_that_is_not_oai_pmh_is_recognised(repository: FakeRepository, body: bytes) -> None:
    repository.fault = lambda _asked, _body: body
    async with open_client(repository.url, _QUICK) as client:
        with pytest.raises(NotOaiPmhError):
            await client.identify()


@pytest.mark.parametrize("address", ["ftp://x/", "x", "http:///oai", "http://x/a b", "http://http://x/"])
async def test_an_address_that_is_not_http_is_rejected(address: str) -> None:
    with pytest.raises(UsageError, match="is not a valid base URL; write it as http://host/path"):
        async with open_client(address):
            pytest.fail("a client was opened")
