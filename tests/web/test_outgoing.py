"""Addresses that users type lead to no private network: not by name, by number, or by redirect."""

from collections.abc import Awaitable, Callable

import pytest

from harvester.client.errors import TransportError, TransportKind
from harvester.client.exchange import HttpRequest, RawReply, Send
from harvester.client.transport import open_transport
from oai.settings import Settings
from tests.web.conftest import Browser, Server
from tests.web.repository import repository
from web.outgoing import guarded


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"])
async def test_this_machine_is_not_asked_by_name_or_number(settings: Settings, host: str) -> None:
    async with repository() as address, open_transport(guarded(settings).harvester) as transport:
        port = address.rpartition(":")[2]

        with pytest.raises(TransportError) as found:
            await transport(f"http://{host}:{port}/oai", [("verb", "Identify")])

    assert found.value.kind in {TransportKind.PRIVATE, TransportKind.ADDRESS, TransportKind.DNS}
    if host in {"127.0.0.1", "localhost"}:
        assert found.value.kind is TransportKind.PRIVATE
        assert "private_addresses" in str(found.value)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "169.254.169.254", "[fe80::1]", "[fd00::1]"])
async def test_private_and_link_local_networks_are_not_asked(settings: Settings, address: str) -> None:
    async with open_transport(guarded(settings).harvester) as transport:
        with pytest.raises(TransportError) as found:
            await transport(f"http://{address}/latest/meta-data", [])

    assert found.value.kind is TransportKind.PRIVATE


async def test_a_redirect_leads_to_no_private_network(settings: Settings) -> None:
    async with repository() as address:

        def around(send: Send) -> Callable[[HttpRequest], Awaitable[RawReply]]:
            async def first_elsewhere(request: HttpRequest) -> RawReply:
                if request.url.startswith("http://public.example/"):
                    location = ("Location", f"{address}/oai?verb=Identify")
                    return RawReply(status=302, reason="", headers=[location], body=b"", cut=None)
                return await send(request)

            return first_elsewhere

        async with open_transport(guarded(settings).harvester, around=around) as transport:
            with pytest.raises(TransportError) as found:
                await transport("http://public.example/oai", [("verb", "Identify")])

    assert found.value.kind is TransportKind.PRIVATE


async def test_the_setting_allows_private_networks(settings: Settings) -> None:
    allowed = settings.model_copy(update={"web": settings.web.model_copy(update={"private_addresses": True})})
    async with repository() as address, open_transport(guarded(allowed).harvester) as transport:
        assert (await transport(f"{address}/oai", [("verb", "Identify")])).status == 200


def test_what_harvests_may_not_the_dashboard_may_neither(settings: Settings) -> None:
    strict = settings.model_copy(
        update={
            "web": settings.web.model_copy(update={"private_addresses": True}),
            "harvester": settings.harvester.model_copy(update={"private_addresses": False}),
        }
    )

    assert not guarded(strict).harvester.private_addresses


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
