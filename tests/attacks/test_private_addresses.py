"""Attacks on services of the local network: redirects, schemas, changing names, and unusual spellings.

The servers are real ones on 127.0.0.2 (which counts as public here) and 127.0.0.3 (private).
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from harvester.client.transport import open_transport
from harvester.protocols import http_client
from harvester.reading.errors import ClientError, TransportError, TransportKind
from harvester.rules.schemas import SchemaCache, Schemas, schema_fetcher
from harvester.z3950.client import Z3950Client
from manager.notices.outbox import NotSentError
from manager.notices.webhooks import post
from oai.errors import StrictCheckError
from oai.outgoing import WebhookSettings
from oai.reach import Zone, zone_of
from oai.sections import HarvesterSettings
from provider.checking.transport import Sent, UnreachableError, http_transport
from tests.harvester.rules.schema_server import BOOK, schema

PUBLIC, PRIVATE, METADATA = "127.0.0.2", "127.0.0.3", "127.0.0.4"
QUICK = HarvesterSettings(retries=0, timeout=10)
ASKED = [("verb", "Identify")]


def zone(address: str) -> Zone:
    return {PUBLIC: Zone.PUBLIC, METADATA: Zone.NEVER}.get(address, Zone.PRIVATE)


class Site:
    """A server that redirects or answers by path, and records its requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.redirects: dict[str, str] = {}
        self.pages: dict[str, str] = {}
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if request.path in self.redirects:
            return web.Response(status=302, headers={"Location": self.redirects[request.path]})
        return web.Response(text=self.pages.get(request.path, "<x/>"), content_type="text/xml")


@contextlib.asynccontextmanager
async def site(host: str, port: int = 0) -> AsyncIterator[Site]:
    found = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    found.url = f"http://{host}:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        await runner.cleanup()


@pytest.fixture
async def public() -> AsyncIterator[Site]:
    async with site(PUBLIC) as found:
        yield found


@pytest.fixture
async def private() -> AsyncIterator[Site]:
    async with site(PRIVATE) as found:
        yield found


async def test_a_redirect_from_a_public_to_a_private_address_is_refused(public: Site, private: Site) -> None:
    public.redirects["/oai"] = f"{private.url}/secret"

    async with open_transport(QUICK, zone_of=zone) as transport:
        with pytest.raises(TransportError) as found:
            await transport(f"{public.url}/oai", ASKED)

    assert found.value.kind is TransportKind.PRIVATE
    assert (public.asked, private.asked) == (["/oai"], [])


async def test_a_redirect_chain_through_a_public_address_does_not_return_to_a_private_one(
    public: Site, private: Site
) -> None:
    private.redirects["/oai"] = f"{public.url}/over"
    public.redirects["/over"] = f"{private.url}/secret"

    async with open_transport(QUICK, zone_of=zone) as transport:
        for _ in range(2):  # the second time, a connection to the private server is open
            with pytest.raises(TransportError):
                await transport(f"{private.url}/oai", ASKED)

    assert private.asked == ["/oai", "/oai"]


async def test_private_repositories_may_be_harvested_and_may_redirect_to_private_ones(private: Site) -> None:
    private.redirects["/oai"] = f"{private.url}/new"

    async with open_transport(QUICK, zone_of=zone) as transport:
        assert (await transport(f"{private.url}/oai", ASKED)).body == b"<x/>"

    assert private.asked == ["/oai", "/new"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_base_urls_and_redirects_to_metadata_services_are_refused(private: Site, method: Any) -> None:
    async with site(METADATA) as metadata:
        private.redirects["/oai"] = f"{metadata.url}/latest/meta-data"
        async with open_transport(QUICK, zone_of=zone, method=method) as transport:
            for address in (f"{private.url}/oai", metadata.url):
                with pytest.raises(TransportError) as found:
                    await transport(address, ASKED)
                assert found.value.kind is TransportKind.PRIVATE

    assert metadata.asked == []


async def test_a_name_that_resolved_to_a_public_address_cannot_become_private(
    public: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the name is resolved again, because the server closes its connections."""
    answers = iter([PUBLIC, PRIVATE])
    resolve = socket.getaddrinfo

    def rebinding(host: Any, *rest: Any, **more: Any) -> Any:
        return resolve(next(answers) if host == "rebinding.example" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    port = int(public.url.rpartition(":")[2])
    async with site(PRIVATE, port) as private, open_transport(QUICK, zone_of=zone) as transport:
        url = f"http://rebinding.example:{port}/oai"
        await transport(url, ASKED)
        with pytest.raises(TransportError) as found:
            await transport(url, ASKED)

    assert found.value.kind is TransportKind.PRIVATE
    assert private.asked == []


@pytest.mark.parametrize("protocol", ["oai-pmh", "sru"])
async def test_clients_of_every_protocol_refuse_redirects_to_private_addresses(
    protocol: str, public: Site, private: Site
) -> None:
    public.redirects["/x"] = f"{private.url}/secret"

    async with open_transport(QUICK, zone_of=zone) as transport:
        with pytest.raises(TransportError) as found:
            await http_client(protocol, f"{public.url}/x", transport, retries=0).identify()

    assert found.value.kind is TransportKind.PRIVATE
    assert private.asked == []


async def test_the_name_of_a_public_z3950_server_cannot_become_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo = tmp_path / "yaz-client"
    echo.write_text("#!/bin/sh\necho 'Connection accepted by v3 target.'\n")
    echo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    answers = iter([PUBLIC, PRIVATE])
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _host, *rest, **more: resolve(next(answers), *rest, **more)
    )

    client = Z3950Client("z3950://books.example/Default", QUICK, zone_of=zone)
    await client.identify()
    with pytest.raises(TransportError) as found:
        await client.identify()

    assert found.value.kind is TransportKind.PRIVATE


async def test_a_restore_refuses_redirects_to_private_addresses(public: Site, private: Site) -> None:
    public.redirects["/archive/1"] = f"{private.url}/secret"

    async with open_transport(QUICK, zone_of=zone) as transport:
        with pytest.raises(TransportError):
            await transport.fetch(f"{public.url}/archive/1")

    assert private.asked == []


def schemas(folder: Path, *, named_by_public: bool) -> Schemas:
    fetch = schema_fetcher(QUICK, named_by_public=named_by_public, zone_of=zone)
    return Schemas(cache=SchemaCache(folder=folder), fetch=fetch)


@pytest.fixture
def library(public: Site, private: Site) -> str:
    """A private schema that a public one includes."""
    private.pages["/part.xsd"] = schema('<xs:element name="part"/>', BOOK)
    including = f'<xs:include schemaLocation="{private.url}/part.xsd"/><xs:element name="book"/>'
    public.pages["/book.xsd"] = schema(including, BOOK)
    return f"{public.url}/book.xsd"


async def test_schemas_named_by_public_repositories_are_not_fetched_from_private_addresses(
    tmp_path: Path, private: Site, library: str
) -> None:
    del library
    with pytest.raises(StrictCheckError, match="not on the public internet"):
        await schemas(tmp_path, named_by_public=True).gather(BOOK, f"{private.url}/part.xsd", by="a record")
    assert private.asked == []

    await schemas(tmp_path, named_by_public=False).gather(BOOK, f"{private.url}/part.xsd", by="a record")
    assert private.asked == ["/part.xsd"]


async def test_a_public_schema_may_not_include_a_schema_at_a_private_address(
    tmp_path: Path, private: Site, library: str
) -> None:
    for _ in range(2):  # the second time, the public schema is in the cache
        with pytest.raises(StrictCheckError, match="not on the public internet"):
            await schemas(tmp_path, named_by_public=False).gather(BOOK, library, by="a record")

    assert private.asked == []


async def test_a_client_records_whether_its_repository_is_public(public: Site, private: Site) -> None:
    for served, expected in ((public, True), (private, False)):
        async with open_transport(QUICK, zone_of=zone) as transport:
            client = http_client("oai-pmh", served.url, transport, retries=0)
            with pytest.raises(ClientError):
                await client.identify()
        assert client.traffic.public is expected


async def test_the_provider_check_refuses_redirects_to_private_addresses(public: Site, private: Site) -> None:
    public.redirects["/oai"] = f"{private.url}/secret"
    private.redirects["/moved"] = f"{private.url}/here"
    send = http_transport(timeout=10, zone_of=zone)

    with pytest.raises(UnreachableError, match="not on the public internet"):
        await asyncio.to_thread(send, Sent(method="GET", url=f"{public.url}/oai"))
    assert private.asked == []

    found = await asyncio.to_thread(send, Sent(method="GET", url=f"{private.url}/moved"))
    assert (found.body, private.asked) == (b"<x/>", ["/moved", "/here"])


async def test_a_webhook_to_a_private_address_fails_without_showing_the_address(private: Site) -> None:
    settings = WebhookSettings(secret=SecretStr("x" * 32), timeout=10)
    by_name = private.url.replace(PRIVATE, "localhost")
    for address in (by_name, private.url.replace(PRIVATE, "2130706435")):
        with pytest.raises(NotSentError) as found:
            await post(f"{address}/hook", {}, settings, number="1", zone_of=zone)
        assert "127.0.0" not in str(found.value)
        assert "::1" not in str(found.value)

    assert private.asked == []


async def test_a_failed_webhook_reveals_nothing_about_the_network() -> None:
    """It shows neither the address of a name nor the answer of a service."""
    async with site(PRIVATE) as private:
        private.redirects["/hook"] = "http://inner.example/login"
        settings = WebhookSettings(secret=SecretStr("x" * 32), timeout=10, private_networks=True)
        messages = []
        closed = private.url.replace(PRIVATE, "localhost").rpartition(":")[0] + ":9"
        for url in (f"{private.url}/hook", f"{closed}/hook"):
            with pytest.raises(NotSentError) as found:
                await post(url, {}, settings, number="1")
            messages.append(str(found.value).replace(url, "URL"))

    assert messages == ["URL: HTTP status 302", "URL: no connection; the sender's log has the reason"]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", Zone.PUBLIC), ("2001:4860:4860::8888", Zone.PUBLIC), ("64:ff9b::808:808", Zone.PUBLIC),
        ("10.0.0.1", Zone.PRIVATE), ("::1", Zone.PRIVATE), ("::ffff:10.0.0.1", Zone.PRIVATE),
        ("fd00::1", Zone.PRIVATE), ("64:ff9b::7f00:1", Zone.PRIVATE), ("2002:a00:1::", Zone.PRIVATE),
        ("169.254.169.254", Zone.NEVER), ("169.254.0.1", Zone.NEVER), ("fe80::1%eth0", Zone.NEVER),
        ("fd00:ec2::254", Zone.NEVER), ("::ffff:169.254.169.254", Zone.NEVER), ("::a9fe:a9fe", Zone.NEVER),
        ("64:ff9b::a9fe:a9fe", Zone.NEVER), ("64:ff9b:1::a9fe:a9fe", Zone.NEVER),
        ("2002:a9fe:a9fe::", Zone.NEVER), ("100.100.100.200", Zone.NEVER), ("168.63.129.16", Zone.NEVER),
    ],
)  # fmt: skip
def test_addresses_are_classified_as_public_private_or_never(address: str, expected: Zone) -> None:
    assert zone_of(address) is expected


METADATA_SPELLINGS = [
    "169.254.169.254", "2852039166", "0xa9fea9fe", "0xa9.254.169.254", "0251.0376.0251.0376", "169.254.43518",
    "169.16689662", "169.254.169.254.", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]", "[fe80::1]",
]  # fmt: skip


@pytest.mark.parametrize("host", METADATA_SPELLINGS)
async def test_no_spelling_of_a_metadata_address_is_requested(host: str) -> None:
    async with open_transport(QUICK) as transport:
        with pytest.raises(TransportError) as found:
            await transport(f"http://{host}:9/latest/meta-data", [])

    # Spellings that this system's resolver does not read as an address are not requested either.
    assert found.value.kind in {TransportKind.PRIVATE, TransportKind.ADDRESS, TransportKind.DNS}


@pytest.mark.parametrize(
    "host", ["2130706435", "0x7f.3", "127.3", "0177.0.0.3", "0x7f000003", "[::ffff:7f00:3]"]
)
async def test_a_redirect_to_an_unusual_spelling_of_a_private_address_is_not_followed(
    host: str, public: Site, private: Site
) -> None:
    public.redirects["/oai"] = f"http://{host}:{private.url.rpartition(':')[2]}/secret"
    async with open_transport(QUICK, zone_of=zone) as transport:
        with pytest.raises(TransportError):
            await transport(f"{public.url}/oai", ASKED)

    assert private.asked == []
