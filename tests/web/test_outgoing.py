"""Addresses that users enter reach no private network: neither by name, by address, nor by redirect."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harvester.client.exchange import HttpRequest, RawReply, Send
from harvester.client.transport import open_transport
from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.protocols import open_protocol_client
from harvester.reading.errors import TransportError, TransportKind
from oai.database import Database
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.sru.fake_sru import FakeSru, books, serve_sru
from tests.web.conftest import Browser, Server
from tests.web.repository import repository
from tests.web.rows import a_repository
from web.auth.organisations import give_repository


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"])
async def test_requests_to_the_local_machine_are_refused_by_name_and_address(
    settings: Settings, host: str
) -> None:
    async with repository() as address, open_transport(settings.guarded.harvester) as transport:
        port = address.rpartition(":")[2]

        with pytest.raises(TransportError) as found:
            await transport(f"http://{host}:{port}/oai", [("verb", "Identify")])

    assert found.value.kind in {TransportKind.PRIVATE, TransportKind.ADDRESS, TransportKind.DNS}
    if host in {"127.0.0.1", "localhost"}:
        assert found.value.kind is TransportKind.PRIVATE
        assert "web.private_addresses" in str(found.value)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "169.254.169.254", "[fe80::1]", "[fd00::1]"])
async def test_requests_to_private_and_link_local_networks_are_refused(
    settings: Settings, address: str
) -> None:
    async with open_transport(settings.guarded.harvester) as transport:
        with pytest.raises(TransportError) as found:
            await transport(f"http://{address}/latest/meta-data", [])

    assert found.value.kind is TransportKind.PRIVATE


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "[::]", "[::ffff:0:0]", "[::ffff:10.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
     "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[fec0::1]", "[fd00:ec2::254]", "100.100.100.200",
     "192.168.0.1.", "0x7f.1", "0177.0.0.1", "127.1", "224.0.0.1", "255.255.255.255"],
)  # fmt: skip
async def test_requests_to_other_spellings_of_private_addresses_are_refused(
    settings: Settings, address: str
) -> None:
    async with open_transport(settings.guarded.harvester) as transport:
        with pytest.raises(TransportError) as found:
            await transport(f"http://{address}:9/", [])

    # A spelling that this system's resolver does not accept as an address reaches no host either.
    assert found.value.kind in {TransportKind.PRIVATE, TransportKind.ADDRESS, TransportKind.DNS}


async def test_a_host_name_that_is_rebound_to_a_private_address_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["203.0.113.1", "127.0.0.1"])
    resolve = socket.getaddrinfo

    def rebinding(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        return resolve(next(answers) if host == "rebinding.example" else host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    kinds = []
    async with repository() as address:
        for _ in range(2):
            async with open_transport(settings.guarded.harvester) as transport:
                with pytest.raises(TransportError) as found:
                    await transport(f"http://rebinding.example:{address.rpartition(':')[2]}/oai", [])
            kinds.append(found.value.kind)

    assert kinds == [TransportKind.PRIVATE, TransportKind.PRIVATE]


async def test_harvests_of_an_organisations_repository_refuse_private_addresses(
    server: Server, database: Database, settings: Settings
) -> None:
    outcomes = []
    async with serve(FakeRepository(items=many(2))) as served:
        with server.database.session() as session:
            telc = a_repository(session)
            telc.base_url, number = served.url, telc.repository_id
            session.commit()
        for organisation in (1, None):
            with server.database.session() as session:
                give_repository(session, number, organisation)
                session.commit()
            request = HarvestRequest(repository_id=number, metadata_prefix="oai_dc")
            outcomes.append(await harvest(database, settings, request, stop=asyncio.Event()))
            asked = len(served.asked)
            assert bool(asked) == (organisation is None)

    assert "not on the public internet" in str(outcomes[0].failure_reason)
    assert outcomes[1].failure_reason is None


async def test_rule_files_outside_the_data_folder_are_refused(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        give_repository(session, a_repository(session).repository_id, 1)
        session.commit()
    server.settings.data.mkdir(exist_ok=True)
    (server.settings.data / "out.xml").symlink_to("/etc/passwd")

    for path in ("/etc/passwd", "../../../../etc/passwd", "/no/such/file", "out.xml"):
        form = {"metadata_prefix": "oai_dc", "filter_file_path": path}
        status, page, _ = await administrator.post("/schedules/new?repository=1", form)
        assert status == 422
        assert "Rule files must be in the data folder" in page


async def test_a_redirect_to_a_private_network_is_refused(settings: Settings) -> None:
    async with repository() as address:

        def around(send: Send) -> Callable[[HttpRequest], Awaitable[RawReply]]:
            async def first_elsewhere(request: HttpRequest) -> RawReply:
                if request.url.startswith("http://public.example/"):
                    location = ("Location", f"{address}/oai?verb=Identify")
                    return RawReply(status=302, reason="", headers=[location], body=b"", cut=None)
                return await send(request)

            return first_elsewhere

        async with open_transport(settings.guarded.harvester, around=around) as transport:
            with pytest.raises(TransportError) as found:
                await transport("http://public.example/oai", [("verb", "Identify")])

    assert found.value.kind is TransportKind.PRIVATE


async def test_a_redirect_of_an_sru_service_to_a_private_network_is_refused(settings: Settings) -> None:
    async with serve_sru(FakeSru(books=books(1))) as fake:

        def around(send: Send) -> Send:
            async def first_elsewhere(request: HttpRequest) -> RawReply:
                if request.url.startswith("http://public.example/"):
                    location = ("Location", fake.url)
                    return RawReply(status=302, reason="", headers=[location], body=b"", cut=None)
                return await send(request)

            return first_elsewhere

        opened = open_protocol_client(
            "sru", "http://public.example/sru", settings.guarded.harvester, retries=0, around=around
        )
        async with opened as client:
            with pytest.raises(TransportError) as found:
                await client.identify()

    assert found.value.kind is TransportKind.PRIVATE
    assert fake.asked == []


@pytest.mark.parametrize(
    ("addresses", "kind"),
    [
        (["8.8.8.8"], TransportKind.REFUSED),
        (["127.0.0.1"], TransportKind.PRIVATE),
        (["8.8.8.8", "10.0.0.1"], TransportKind.PRIVATE),
        (["::ffff:10.0.0.1"], TransportKind.PRIVATE),
    ],
)
async def test_z3950_connects_to_the_checked_address_and_to_no_private_one(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    addresses: list[str],
    kind: TransportKind,
) -> None:
    """The program gets an IP address, so that the name cannot resolve to another one the second time."""
    echo = tmp_path / "yaz-client"
    echo.write_text("#!/bin/sh\ncat\n")
    echo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 210)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    opened = open_protocol_client(
        "z39.50", "z3950://books.example/Default", settings.guarded.harvester, retries=0
    )

    async with opened as client:
        with pytest.raises(TransportError) as raised:
            await client.identify()

    assert raised.value.kind is kind
    if kind is TransportKind.REFUSED:
        assert "open tcp:8.8.8.8:210/Default" in str(raised.value)


async def test_the_setting_allows_private_networks(settings: Settings) -> None:
    allowed = settings.model_copy(update={"web": settings.web.model_copy(update={"private_addresses": True})})
    async with repository() as address, open_transport(allowed.guarded.harvester) as transport:
        assert (await transport(f"{address}/oai", [("verb", "Identify")])).status == 200


def test_the_dashboard_may_not_use_private_addresses_if_harvests_may_not(settings: Settings) -> None:
    strict = settings.model_copy(
        update={
            "web": settings.web.model_copy(update={"private_addresses": True}),
            "harvester": settings.harvester.model_copy(update={"private_addresses": False}),
        }
    )

    assert not strict.guarded.harvester.private_addresses


async def test_the_folder_of_a_partners_repository_stays_below_the_store(
    server: Server, owner: Browser
) -> None:
    token = await owner.token()
    async with repository() as address:
        for folder in ("/etc", "../../etc", "."):
            async with owner.http.post(
                server.base_url + "/api/v1/repositories",
                json={"base_url": f"{address}/oai", "base_dir": folder},
                headers={"X-CSRF-Token": token},
            ) as answer:
                assert answer.status == 422, folder
