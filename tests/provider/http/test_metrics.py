"""Prometheus metrics and health checks."""

import re

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer

from oai.database import Database
from oai.errors import UsageError
from oai.serving import open_listener
from oai.settings import Settings
from provider.app import create_app
from provider.http.middleware import OBSERVERS
from tests.ports import free_port
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, small_pages


async def figures(port: int) -> dict[str, float]:
    """Return the samples by name and labels as written."""
    async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        text = await response.text()
    return {
        name: float(value)
        for name, value in re.findall(r"^((?:zatva|process)_.+) (\S+)$", text, re.MULTILINE)
    }


async def test_metrics_count_requests_errors_bytes_and_lists(
    archive: Archive, database: Database, settings: Settings
) -> None:
    archive.add_many(8)
    port = free_port()
    app = create_app(small_pages(settings, metrics_port=port), database, base_url=BASE_URL)
    async with TestClient(TestServer(app)) as client:
        for query in ("verb=Identify", "verb=Identify", "verb=No", "verb=ListRecords&metadataPrefix=oai_dc"):
            assert (await client.get(f"/oai?{query}")).status == 200
        assert (await client.get("/oai?verb=GetRecord&metadataPrefix=no&identifier=x")).status == 200
        assert (await client.get("/nowhere")).status == 404
        metrics = await figures(port)
    name = "zatva_provider_requests_total"
    assert metrics[f'{name}{{outcome="ok",request="Identify"}}'] == 2
    assert metrics[f'{name}{{outcome="badVerb",request="bad verb"}}'] == 1
    assert metrics[f'{name}{{outcome="ok",request="ListRecords"}}'] == 1
    assert metrics[f'{name}{{outcome="404",request="other"}}'] == 1
    assert metrics['zatva_provider_protocol_errors_total{code="idDoesNotExist"}'] == 1
    assert metrics['zatva_provider_protocol_errors_total{code="cannotDisseminateFormat"}'] == 1
    assert metrics['zatva_provider_request_seconds_count{request="Identify"}'] == 2
    assert metrics["zatva_provider_lists_under_way"] == 1
    assert metrics["zatva_provider_threads"] == settings.provider.threads
    assert metrics["zatva_provider_threads_working"] == metrics["zatva_provider_waiting"] == 0
    assert metrics["zatva_provider_connections_used"] == 0
    assert metrics["zatva_provider_sent_bytes_total"] > 1000
    assert metrics["process_resident_memory_bytes"] > 0


async def test_metrics_count_503_responses_by_reason(database: Database, settings: Settings) -> None:
    port = free_port()
    limited = small_pages(settings, metrics_port=port, client_rate=1, trusted_proxies=())
    async with TestClient(TestServer(create_app(limited, database, base_url=BASE_URL))) as client:
        statuses = [(await client.get("/oai?verb=Identify")).status for _ in range(3)]
        metrics = await figures(port)
    assert statuses == [200, 503, 503]
    assert metrics['zatva_provider_refused_total{why="client"}'] == 2


async def test_metrics_are_not_served_at_the_port_of_the_provider(
    database: Database, settings: Settings
) -> None:
    app = create_app(small_pages(settings, metrics_port=free_port()), database, base_url=BASE_URL)
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/metrics")).status == 404


async def test_an_occupied_metrics_port_is_refused_with_its_setting(
    database: Database, settings: Settings
) -> None:
    with open_listener("127.0.0.1", 0) as listener:
        listener.listen()
        taken = small_pages(settings, metrics_port=listener.getsockname()[1])
        with pytest.raises(UsageError, match=r"provider\.metrics_port"):
            await TestServer(create_app(taken, database, base_url=BASE_URL)).start_server()


async def test_health_checks_are_answered_and_not_counted(database: Database, settings: Settings) -> None:
    app = create_app(small_pages(settings, client_rate=1, trusted_proxies=()), database, base_url=BASE_URL)
    async with TestClient(TestServer(app)) as client:
        for _ in range(3):
            for path in ("/healthz", "/readyz"):
                response = await client.get(path)
                assert response.status == 200
                assert response.headers["Cache-Control"] == "no-store"
        assert app[OBSERVERS].tally.take().clients == {}
