"""Connections are limited in total and by address; idle ones are closed for new ones, busy ones never."""

import asyncio
import contextlib
import ipaddress
import logging
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from oai.connections import CONNECTIONS, ConnectionLimits, Connections, bound
from oai.serving import address, create_runner, open_listener, serving

_SECONDS = 60.0
_HERE, _ELSEWHERE = "127.0.0.1", "127.0.0.2"
_HELLO = b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"
_WAIT = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
_FILE = b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n"
_FORM = b"POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\na"


class Client:
    """One connection from an address of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, sent: bytes = _HELLO) -> bytes:
        """Return the first line of the answer, or nothing if the connection is closed."""
        self.writer.write(sent)
        return await self.answer()

    async def answer(self) -> bytes:
        try:
            head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), _SECONDS)
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
        await self.reader.readexactly(int(length.partition(b":")[2]))
        return head.partition(b"\r\n")[0].partition(b" ")[2]


class Server:
    """A small server that says hello, immediately or when the test allows it."""

    def __init__(
        self, port: int, app: web.Application, go_on: asyncio.Event, left: asyncio.Semaphore
    ) -> None:
        self.port = port
        self.connections = app[CONNECTIONS]
        self.go_on = go_on
        self.left = left
        """Released by each endless response that has ended."""
        self._clients: list[Client] = []

    async def client(self, source: str = _HERE) -> Client:
        streams = await asyncio.open_connection(_HERE, self.port, local_addr=(source, 0))
        self._clients.append(Client(*streams))
        return self._clients[-1]

    async def silent(self, number: int, source: str = _HERE) -> list[Client]:
        """Return idle clients as soon as the server has accepted them."""
        clients = [await self.client(source) for _ in range(number)]
        met = await self.client(source)
        await met.ask()
        met.writer.close()
        return clients

    async def busy(self, number: int, source: str = _HERE) -> list[Client]:
        """Return clients with running requests."""
        clients = [await self.client(source) for _ in range(number)]
        for client in clients:
            assert await client.ask(_HELLO) == b"200 OK"
            client.writer.write(_WAIT)
        return clients

    async def close(self) -> None:
        for client in self._clients:
            client.writer.close()
            with contextlib.suppress(ConnectionError):
                await client.writer.wait_closed()


@contextlib.asynccontextmanager
async def _serve(limits: ConnectionLimits) -> AsyncIterator[Server]:
    go_on, waiting, left = asyncio.Event(), [], asyncio.Semaphore(0)

    async def hello(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(text="hello")

    async def wait(request: web.Request) -> web.Response:
        waiting.append(request)
        await go_on.wait()
        return web.Response(text="at last")

    async def file(_: web.Request) -> web.FileResponse:
        return web.FileResponse(Path(__file__))

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(100_000))
        finally:
            left.release()

    async def refused(_: web.Request) -> web.Response:
        raise ConnectionRefusedError

    app = web.Application()
    bound(app, limits)
    app.add_routes([web.get("/endless", endless), web.get("/refused", refused)])
    app.add_routes([web.get("/hello", hello), web.post("/hello", hello)])
    app.add_routes([web.get("/wait", wait), web.get("/file", file)])
    with open_listener(_HERE, 0) as listener:
        port = int(address(listener).rpartition(":")[2])
        async with serving(create_runner(app, log="test.http", stop_seconds=1), listener):
            server = Server(port, app, go_on, left)
            yield server
            go_on.set()
            await server.close()


async def test_an_address_at_its_limit_loses_its_own_idle_connections() -> None:
    limits = ConnectionLimits(connections=64, connections_per_address=4)
    async with _serve(limits) as server:
        [other] = await server.silent(1, _ELSEWHERE)
        oldest, *more = await server.silent(3)
        newcomers = [await server.client() for _ in range(2)]
        for client in newcomers:
            assert await client.ask() == b"200 OK"
        assert await oldest.ask() == b""
        assert await more[-1].ask() == b"200 OK"
        assert await other.ask() == b"200 OK"
        assert server.connections.refused == 0


async def test_an_address_with_only_busy_connections_gets_503_and_others_are_served() -> None:
    limits = ConnectionLimits(connections=64, connections_per_address=3)
    async with _serve(limits) as server:
        busy = await server.busy(3)
        assert await (await server.client()).answer() == b"503 Service Unavailable"
        assert await (await server.client(_ELSEWHERE)).ask() == b"200 OK"
        server.go_on.set()
        assert [await client.answer() for client in busy] == 3 * [b"200 OK"]
        assert await (await server.client()).ask() == b"200 OK"
        assert server.connections.refused == 1


async def test_one_address_never_has_more_than_half_of_all_connections() -> None:
    async with _serve(ConnectionLimits(connections=8, connections_per_address=1000)) as server:
        busy = await server.busy(4)
        assert await (await server.client()).answer() == b"503 Service Unavailable"
        assert await (await server.client(_ELSEWHERE)).ask() == b"200 OK"
        server.go_on.set()
        assert [await client.answer() for client in busy] == 4 * [b"200 OK"]


async def test_connections_of_a_trusted_proxy_are_not_limited_by_address() -> None:
    trusted = (ipaddress.ip_network(_HERE),)
    async with _serve(ConnectionLimits(connections_per_address=2, trusted=trusted)) as server:
        silent = await server.silent(20)
        assert {await client.ask() for client in silent} == {b"200 OK"}


async def test_a_new_connection_is_refused_if_all_others_are_busy() -> None:
    async with _serve(ConnectionLimits(connections=4)) as server:
        busy = await server.busy(4)
        assert await (await server.client()).answer() == b"503 Service Unavailable"
        server.go_on.set()
        assert [await client.answer() for client in busy] == 4 * [b"200 OK"]


async def test_connections_that_clients_close_are_no_longer_counted() -> None:
    async with _serve(ConnectionLimits(connections_per_address=10)) as server:
        for client in await server.silent(5):
            client.writer.close()
        async with asyncio.timeout(_SECONDS):
            while server.connections.open:  # noqa: ASYNC110 nothing tells of it
                await asyncio.sleep(0.01)
        assert await (await server.client()).ask() == b"200 OK"


async def test_a_form_that_takes_too_long_is_answered_with_408_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with _serve(ConnectionLimits(body_seconds=0.2)) as server:
        client = await server.client()
        assert await client.ask(_FORM) == b"408 Request Timeout"
        assert await asyncio.wait_for(client.reader.read(), _SECONDS) == b""
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_files_are_sent_and_their_connection_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    async with _serve(ConnectionLimits(connections=2)) as server:
        client = await server.client()
        assert [await client.ask(_FILE) for _ in range(3)] == 3 * [b"200 OK"]
        assert server.connections.open == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_client_that_does_not_read_a_file_is_disconnected() -> None:
    async with _serve(ConnectionLimits(slow_seconds=0.5, slow_rate=10**9)) as server:
        client = await server.client()
        client.writer.write(1000 * _FILE)
        async with asyncio.timeout(_SECONDS):
            while not server.connections.slowness.cut_off:  # noqa: ASYNC110 nothing tells of it
                await asyncio.sleep(0.01)


async def test_connections_are_idle_after_their_responses_are_sent(caplog: pytest.LogCaptureFixture) -> None:
    async with _serve(ConnectionLimits(connections=2)) as server:
        for _ in range(10):
            client = await server.client()
            for _ in range(3):
                assert await client.ask(3 * _HELLO) == b"200 OK"
                assert [await client.answer() for _ in range(2)] == 2 * [b"200 OK"]
        assert server.connections.refused == 0
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_client_that_leaves_during_a_response_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with _serve(ConnectionLimits()) as server:
        for _ in range(3):
            client = await server.client()
            client.writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            await client.reader.readexactly(100_000)
            client.writer.transport.abort()
            async with asyncio.timeout(_SECONDS):
                await server.left.acquire()
        assert await (await server.client()).ask() == b"200 OK"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_lost_connection_to_another_server_is_logged_and_answered_with_500(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with _serve(ConnectionLimits()) as server:
        answer = await (await server.client()).ask(b"GET /refused HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer == b"500 Internal Server Error"
    assert "ConnectionRefusedError" in caplog.text


async def test_invalid_http_is_answered_with_400_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with _serve(ConnectionLimits()) as server:
        assert (
            await (await server.client()).ask(b"GET / HTTP/1.1\r\nBad\x00Header\r\n\r\n")
            == b"400 Bad Request"
        )
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_servers_of_one_process_share_its_limit_of_open_files() -> None:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, most))
    try:
        shared = []
        for servers in (1, 2):
            connections = Connections(ConnectionLimits(connections=4096))
            connections.share_files(servers)
            shared.append(connections.most)
        few = Connections(ConnectionLimits(connections=16))
        few.share_files(2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    assert shared == [800, 400]
    assert few.most == 16
