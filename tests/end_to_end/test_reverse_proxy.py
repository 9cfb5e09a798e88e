"""Sign-in by a trusted proxy as its users do it: a browser, a reverse proxy, `zatva web serve` behind it."""

import base64
import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Browser, expect
from sqlalchemy import select

from oai.database import Database
from tests.end_to_end.processes import running
from tests.end_to_end.reverse_proxy import USER_HEADER
from web.auth.users import add_user
from web.models import Role, UserSession

pytestmark = pytest.mark.browser

_TRUSTED = "127.0.0.2"
"""From where the proxy asks; everything else on this machine comes from 127.0.0.1."""


@pytest.fixture
def addresses(
    environment: Mapping[str, str], database: Database, tmp_path: Path
) -> Iterator[tuple[str, str]]:
    """The addresses of the proxy and of the dashboard behind it; it knows Alena and Viktor."""
    with database.session() as session:
        add_user(session, "Alena", Role.ADMINISTRATOR)
        add_user(session, "Viktor", Role.VIEWER)
        session.commit()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
        believing = {
            **environment,
            "ZATVA_WEB__TRUSTED_PROXIES": f'["{_TRUSTED}"]',
            "ZATVA_WEB__PROXY_USER_HEADER": USER_HEADER,
            "ZATVA_WEB__BASE_URL": proxy,
        }
        serve = ("web", "serve", "--port", "0")
        with (
            running(believing, tmp_path / "web.log", *serve, ready="dashboard at") as (_, dashboard),
            _proxy(listener, dashboard.rstrip("/")),
        ):
            yield proxy, dashboard.rstrip("/")


@contextlib.contextmanager
def _proxy(listener: socket.socket, upstream: str) -> Iterator[None]:
    descriptor = listener.fileno()
    words = ("-m", "tests.end_to_end.reverse_proxy", str(descriptor), upstream, _TRUSTED)
    with subprocess.Popen([sys.executable, *words], pass_fds=[descriptor]) as process:
        try:
            yield
        finally:
            process.terminate()


def _as(name: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:x".encode()).decode()}


async def test_whom_the_proxy_has_signed_in_uses_the_dashboard_at_once(
    addresses: tuple[str, str], database: Database, chromium: Browser
) -> None:
    proxy, _dashboard = addresses
    context = await chromium.new_context(http_credentials={"username": "Viktor", "password": "x"})
    page = await context.new_page()

    await page.goto(f"{proxy}/jobs")
    await expect(page.locator("[data-live-status]")).to_have_text("Live")
    await page.get_by_text("Viktor", exact=True).click()
    await page.get_by_role("link", name="Account").click()
    await page.get_by_label("Page language").select_option("cs")
    await page.get_by_role("button", name="Change language").click()

    await expect(page.locator("html")).to_have_attribute("lang", "cs")
    with database.session() as session:
        assert len(session.scalars(select(UserSession)).all()) == 1, "one browser has one session"
    await context.close()


async def test_nobody_but_the_proxy_names_a_user(addresses: tuple[str, str]) -> None:
    proxy, dashboard = addresses
    pretence = {USER_HEADER: "Alena", "X-Forwarded-For": "203.0.113.7"}
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{dashboard}/account", headers=pretence, allow_redirects=False) as direct:
            assert direct.status == 303
            assert direct.headers["Location"] == "/sign-in?next=/account"
        async with http.get(f"{proxy}/account", headers=pretence | _as("Viktor")) as through:
            page = await through.text()
        async with http.get(f"{proxy}/admin", headers=pretence | _as("Viktor")) as through:
            assert through.status == 403
        async with http.get(f"{proxy}/account", headers=pretence, allow_redirects=False) as unknown:
            assert unknown.status == 401

    assert "Viktor" in page
    assert "Alena" not in page
    assert "203.0.113.7" not in page, "the address before the last trusted proxy counts"


async def test_whom_the_proxy_knows_and_we_do_not_is_told_so(addresses: tuple[str, str]) -> None:
    proxy, _dashboard = addresses
    async with aiohttp.ClientSession() as http, http.get(proxy, headers=_as("Eva")) as answer:
        assert answer.status == 403
        assert "Eva" in await answer.text()
