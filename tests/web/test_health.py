import asyncio

import psycopg
from sqlalchemy import text

from tests.web.conftest import Browser, Server
from web.site.keys import DATABASE, THREADS


async def test_health_and_readiness_are_answered_without_sign_in(stranger: Browser) -> None:
    assert await stranger.get("/healthz") == (200, "alive\n")
    assert await stranger.get("/readyz") == (200, "ready\n")


async def test_the_dashboard_is_ready_while_all_its_threads_are_busy(
    server: Server, stranger: Browser
) -> None:
    lock = text("SELECT pg_advisory_xact_lock(1)")
    threads = server.app[DATABASE]
    # Not of the pool, which has a connection for each thread and one for the probe.
    with psycopg.connect(**server.database.parameters) as blocking:
        blocking.execute("SELECT pg_advisory_xact_lock(1)")
        busy = [asyncio.create_task(threads.run(lambda other: other.execute(lock))) for _ in range(THREADS)]
        await asyncio.sleep(0)
        assert threads.pending == THREADS
        assert await stranger.get("/readyz") == (200, "ready\n")
    await asyncio.gather(*busy)


async def test_metrics_count_requests_by_their_route(administrator: Browser) -> None:
    await administrator.get("/archive")
    await administrator.get("/no-such-page")

    status, metrics = await administrator.get("/metrics")

    assert status == 200
    assert 'zatva_web_requests_total{method="GET",route="/archive",status="200"} 1.0' in metrics
    assert 'zatva_web_requests_total{method="GET",route="(none)",status="404"} 1.0' in metrics
    assert 'zatva_web_request_seconds_count{route="/archive"} 1.0' in metrics


async def test_metrics_are_not_for_strangers(stranger: Browser) -> None:
    status, _ = await stranger.get("/metrics")

    assert status in {303, 401}


_HELP = ("/help", "/api/docs")


async def test_help_pages_are_shown_to_every_signed_in_user(viewer: Browser) -> None:
    for path in _HELP:
        status, page = await viewer.get(path)

        assert status == 200, path
        assert "<h1>" in page, path
