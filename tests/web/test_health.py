from tests.web.conftest import Browser


async def test_the_dashboard_tells_strangers_that_it_lives_and_is_ready(stranger: Browser) -> None:
    assert await stranger.get("/healthz") == (200, "alive\n")
    assert await stranger.get("/readyz") == (200, "ready\n")


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


async def test_everybody_who_is_signed_in_is_helped(viewer: Browser) -> None:
    for path in _HELP:
        status, page = await viewer.get(path)

        assert status == 200, path
        assert "<h1>" in page, path
