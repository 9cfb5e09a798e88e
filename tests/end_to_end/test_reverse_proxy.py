"""Sign-in by a trusted proxy as its users do it: a browser, a reverse proxy, `zatva web serve` behind it."""

import base64
import contextlib
import os
import socket
from collections.abc import Iterator, Mapping

import aiohttp
import pytest
from playwright.async_api import Browser, expect
from sqlalchemy import select

from oai.database import Database
from tests.commands import Process
from tests.end_to_end.processes import running
from tests.end_to_end.reverse_proxy import USER_HEADER
from web.auth.users import add_user
from web.models import Role, User, UserSession

pytestmark = pytest.mark.browser

_TRUSTED = "127.0.0.2"
"""From where the proxy asks; everything else on this machine comes from 127.0.0.1."""


@pytest.fixture(scope="module")
def addresses(
    shared_environment: Mapping[str, str],
    shared_database: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, str]]:
    """The addresses of the proxy and of the dashboard behind it; its users are Alena, Viktor and Vlasta."""
    with shared_database.session() as session:
        add_user(session, "Alena", Role.ADMINISTRATOR)
        add_user(session, "Viktor", Role.VIEWER)
        add_user(session, "Vlasta", Role.VIEWER)
        session.commit()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
        believing = {
            **shared_environment,
            "ZATVA_WEB__TRUSTED_PROXIES": f'["{_TRUSTED}"]',
            "ZATVA_WEB__PROXY_USER_HEADER": USER_HEADER,
            "ZATVA_WEB__BASE_URL": proxy,
        }
        serve, log = ("web", "serve", "--port", "0"), tmp_path_factory.mktemp("proxy") / "web.log"
        with (
            running(believing, log, *serve, ready="dashboard at") as (_, dashboard),
            _proxy(listener, dashboard.rstrip("/")),
        ):
            yield proxy, dashboard.rstrip("/")


@contextlib.contextmanager
def _proxy(listener: socket.socket, upstream: str) -> Iterator[None]:
    module = "tests.end_to_end.reverse_proxy"
    # The file has the listener's descriptor, and becomes the process's standard input.
    with listener.makefile("rb") as file:
        process = Process(os.environ, "0", upstream, _TRUSTED, module=module, stdin=file)
    with process:
        try:
            yield
        finally:
            process.terminate()


def _as(name: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:x".encode()).decode()}


async def test_a_user_signed_in_by_the_proxy_uses_the_dashboard_immediately(
    addresses: tuple[str, str], shared_database: Database, chromium: Browser
) -> None:
    proxy, _dashboard = addresses
    context = await chromium.new_context(http_credentials={"username": "Vlasta", "password": "x"})
    page = await context.new_page()

    await page.goto(f"{proxy}/jobs")
    await expect(page.locator("[data-live-status]")).to_have_text("Live")
    await page.get_by_text("Vlasta", exact=True).click()
    await page.get_by_role("link", name="Account").click()
    await page.get_by_label("Page language").select_option("cs")
    await page.get_by_role("button", name="Change language").click()

    await expect(page.locator("html")).to_have_attribute("lang", "cs")
    with shared_database.session() as session:
        own = select(UserSession).join(User).where(User.name == "Vlasta")
        assert len(session.scalars(own).all()) == 1, "one browser has one session"
    await context.close()


async def test_the_user_header_is_accepted_only_from_the_proxy(addresses: tuple[str, str]) -> None:
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


async def test_a_user_of_the_proxy_unknown_to_the_dashboard_gets_403_with_the_name(
    addresses: tuple[str, str],
) -> None:
    proxy, _dashboard = addresses
    async with aiohttp.ClientSession() as http, http.get(proxy, headers=_as("Eva")) as answer:
        assert answer.status == 403
        assert "Eva" in await answer.text()
