"""Headers of the servers' responses: no names of software, and rules that browsers enforce."""

import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

import oai
from oai.database import Database
from oai.settings import Settings
from tests.end_to_end.processes import running
from tests.ports import free_port
from web.app import create_app

_SECONDS = 60
_REQUESTS = {
    "a page": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "health": b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
    "metrics": b"GET /metrics HTTP/1.1\r\nHost: x\r\n",
    "no such page": b"GET /no-such-page HTTP/1.1\r\nHost: x\r\n",
    "no such method": b"BREW / HTTP/1.1\r\nHost: x\r\n",
    "static": b"GET /static/style.css HTTP/1.1\r\nHost: x\r\n",
    "OAI-PMH": b"GET /oai?verb=Identify HTTP/1.1\r\nHost: x\r\n",
    "too long a header": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + 200_000 * b"x" + b"\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
}
"""The last three are refused by the reader of HTTP, before the application sees them."""


def _answer(port: int, request: bytes) -> str:
    """Return the head of the response."""
    with socket.create_connection(("127.0.0.1", port), _SECONDS) as client:
        client.sendall(request + b"Connection: close\r\n\r\n")
        received = b""
        while b"\r\n\r\n" not in received and (more := client.recv(65_536)):
            received += more
    return received.partition(b"\r\n\r\n")[0].decode()


@pytest.fixture
def ports(environment: Mapping[str, str], tmp_path: Path) -> Iterator[dict[str, int]]:
    """The ports of all servers: provider, dashboard, the provider's metrics and the manager's health."""
    ports = {name: free_port() for name in ("provider", "dashboard", "metrics", "manager")}
    settings = {
        **environment,
        "ZATVA_PROVIDER__METRICS_PORT": str(ports["metrics"]),
        "ZATVA_MANAGER__HEALTH_PORT": str(ports["manager"]),
    }
    serve = ("serve", "--port", str(ports["provider"]), "--web-port", str(ports["dashboard"]))
    with running(settings, tmp_path / "log", *serve, ready="dashboard at"):
        yield ports


def test_no_response_names_the_servers_software(ports: dict[str, int]) -> None:
    for name, port in ports.items():
        for what, request in _REQUESTS.items():
            head = _answer(port, request)
            assert re.match(r"HTTP/1\.[01] \d{3} ", head), (name, what)
            assert not re.search("(?im)^server:|aiohttp|python", head), (name, what, head)
            assert "\r\nX-Content-Type-Options: nosniff" in head, (name, what, head)


def test_servers_are_created_only_in_oai_serving() -> None:
    """`oai.serving.serving` removes the name; other servers would send it."""
    root = Path(oai.__file__).parents[1]
    makers = {
        path.relative_to(root).as_posix()
        for package in ("oai", "harvester", "provider", "manager", "web", "zatva")
        for path in (root / package).rglob("*.py")
        if re.search(
            r"AppRunner\(|TCPSite|UnixSite|SockSite|run_app|http\.server|ServerRunner", path.read_text()
        )
    }
    assert makers == {"oai/serving.py"}


async def _headers(settings: Settings, database: Database, **changed: object) -> list[Mapping[str, str]]:
    """The headers of several responses of a dashboard with these settings of `[web]`."""
    own = settings.model_copy(update={"web": settings.web.model_copy(update=changed)})
    runner = web.AppRunner(create_app(own, database))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    found: list[Mapping[str, str]] = []
    async with aiohttp.ClientSession() as http:
        for path in ("/sign-in", "/", "/no-such-page", "/static/style.css", "/api/v1/jobs", "/events"):
            async with http.get(base_url + path, allow_redirects=False) as answer:
                found.append(answer.headers)
    await runner.cleanup()
    return found


@pytest.mark.parametrize(
    ("base_url", "days", "expected"),
    [
        ("https://zatva.example", 365, "max-age=31536000"),
        ("https://zatva.example", 1, "max-age=86400"),
        ("https://zatva.example", 0, None),
        ("http://zatva.example", 365, None),
        (None, 365, None),
    ],
)
async def test_strict_transport_security_is_sent_if_the_base_url_is_https(
    settings: Settings, database: Database, base_url: str | None, days: int, expected: str | None
) -> None:
    for headers in await _headers(settings, database, base_url=base_url, hsts_days=days):
        assert headers.get("Strict-Transport-Security") == expected


async def test_headers_prevent_other_sites_from_embedding_the_dashboards_pages(
    settings: Settings, database: Database
) -> None:
    for headers in await _headers(settings, database):
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
