"""Fixtures of the dashboard's tests: a real server on a free port, and its standing users."""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web
from aiohttp.http import SERVER_SOFTWARE
from argon2 import PasswordHasher
from jinja2 import FileSystemBytecodeCache
from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import Page, expect
from sqlalchemy import select, text
from yarl import URL

from oai.database import Database
from oai.errors import required
from oai.settings import Settings
from tests.chromium import PATIENCE
from tests.forked_isolated import forked
from tests.manager.conftest import QUICK, manager_process
from tests.reused_database import backends, reused, settings
from tests.web.unrecorded import unrecorded_changes, watch
from web.app import create_app
from web.auth.sessions import hashed, start_session
from web.auth.sign_in import make_link
from web.auth.users import find_user
from web.models import UserSession
from web.serving import LONGEST_LINE
from web.site.keys import PageSizes
from web.site.render import environment as templates

__all__ = ["backends", "reused", "settings"]

# Without it, each process compiles all templates, which takes 3 s.
templates().bytecode_cache = FileSystemBytecodeCache()

_TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')
_POLL_SECONDS = 0.02
SESSION = "zatva_session"
"""Name of the cookie of a session that is not reached by https."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """The running dashboard."""

    app: web.Application
    base_url: str
    settings: Settings
    database: Database

    def link(self, name: str) -> str:
        """Return a new sign-in link."""
        with self.database.session() as session:
            link = make_link(session, self.settings, name, self.base_url)
            session.commit()
        return link

    def start_session(self, name: str) -> tuple[str, str]:
        """Start a session as signing in does, without its three pages; return its cookie and form token."""
        with self.database.session() as session:
            user = required(find_user(session, name), name)
            cookie = start_session(
                session, self.settings.web, user.user_id, address="127.0.0.1", browser=SERVER_SOFTWARE
            )
            started = select(UserSession.csrf_token).where(UserSession.token_hash == hashed(cookie))
            form_token = session.scalars(started).one()
            session.commit()
        return cookie, form_token


@dataclass(frozen=True, kw_only=True)
class Browser:
    """A user's browser without scripts: keeps cookies, follows no redirects, submits forms."""

    http: aiohttp.ClientSession
    base_url: str
    tokens: dict[frozenset[str], str] = field(default_factory=dict)
    """Form tokens of the account's page by the cookies of the session: each lasts as long as that."""

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page."""
        async with self.http.get(self.base_url + path, allow_redirects=False) as answer:
            return answer.status, await answer.text()

    async def token(self, path: str = "/account") -> str:
        """Return the form token on a page; that of the account's page is read once in a session."""
        cookies = self._cookies()
        if path == "/account" and cookies in self.tokens:
            return self.tokens[cookies]
        _, text = await self.get(path)
        found = _TOKEN.search(text)
        if path == "/account" and found:
            self.tokens[cookies] = found[1]
        return found[1] if found else ""

    async def post(
        self, path: str, form: Mapping[str, str | Sequence[str]] | None = None, *, token: str | None = None
    ) -> tuple[int, str, str]:
        """Submit a form as its page would, with a sequence for a field that is ticked several times.

        Returns status, text and redirect target.
        """
        given = {"csrf_token": await self.token() if token is None else token, **(form or {})}
        data = [
            (name, one)
            for name, value in given.items()
            for one in ([value] if isinstance(value, str) else value)
        ]
        async with self.http.post(self.base_url + path, data=data, allow_redirects=False) as answer:
            return answer.status, await answer.text(), answer.headers.get("Location", "")

    def _cookies(self) -> frozenset[str]:
        return frozenset(f"{one.key}={one.value}" for one in self.http.cookie_jar)

    def enter(self, cookie: str, form_token: str) -> None:
        """Continue a session that has been started."""
        self.http.cookie_jar.update_cookies({SESSION: cookie}, URL(self.base_url))
        self.tokens[self._cookies()] = form_token

    async def sign_in(self, link: str) -> None:
        """Open the link and press its button."""
        path = link.removeprefix(self.base_url)
        form = {"token": path.partition("token=")[2]}
        status, text, _ = await self.post("/sign-in", form, token=await self.token(path))
        assert status == 303, text


async def enter(page: Page, server: Server, name: str = "Alena", path: str = "/") -> None:
    """Open a page as the named user in a tab of a real browser, without the pages of signing in."""
    cookie, _ = server.start_session(name)
    await page.context.add_cookies([{"name": SESSION, "value": cookie, "url": server.base_url}])
    await page.goto(server.base_url + path)


async def sign_in(page: Page, server: Server, name: str = "Alena") -> None:
    """Sign in the named user in a tab of a real browser."""
    await page.goto(server.link(name))
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(server.base_url + "/?done=no-password")


SignIn = Callable[[str], Awaitable[Browser]]


@pytest.fixture(autouse=True)
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes that send requests to repositories from one that has imported the modules."""
    monkeypatch.setattr("harvester.isolated.started_process", forked)


@pytest.fixture
def quick_hasher(monkeypatch: pytest.MonkeyPatch) -> PasswordHasher:
    """Hash and check passwords by Argon2 at its lowest cost, where that is not what is tested."""
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    nobodys = quick.hash("the password of no account")
    monkeypatch.setattr("web.auth.passwords.hasher", lambda: quick)
    monkeypatch.setattr("web.auth.passwords.dummy_hash", lambda: nobodys)
    return quick


@pytest.fixture
def poll_seconds() -> float:
    """Seconds between two reads of followed rows; tests that do not wait for rows need fewer reads."""
    return _POLL_SECONDS


@pytest.fixture
def page_sizes() -> PageSizes:
    """How much pages show."""
    return PageSizes()


@pytest.fixture
async def server(
    settings: Settings, database: Database, poll_seconds: float, page_sizes: PageSizes
) -> AsyncIterator[Server]:
    """The dashboard with its standing users; addresses that they enter may be on this machine."""
    settings = settings.model_copy(
        update={"web": settings.web.model_copy(update={"private_addresses": True})}
    )
    with database.session() as session:
        session.execute(_STANDING_USERS)
        session.commit()
    app = create_app(settings, database, poll_seconds=poll_seconds, page_sizes=page_sizes)
    unrecorded = set[str]()
    watch(database.engine)
    app.middlewares.insert(0, unrecorded_changes(unrecorded))
    runner = web.AppRunner(app, shutdown_timeout=1, max_line_size=LONGEST_LINE)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    yield Server(app=app, base_url=f"http://127.0.0.1:{port}", settings=settings, database=database)
    await runner.cleanup()
    assert unrecorded == set(), "the audit log has no entry: use `change_one`, or redirect"


_STANDING_USERS = text(
    """
    WITH organisation AS (
        INSERT INTO web_organisation (short_name, name) VALUES ('mzk', 'mzk'), ('nk', 'nk')
        RETURNING short_name, organisation_id
    )
    INSERT INTO web_user (name, role, organisation_id)
    SELECT name, role, organisation_id
    FROM (
        VALUES
            (1, 'Alena', 'administrator', NULL), (2, 'Viktor', 'viewer', NULL), (3, 'Katka', 'curator', NULL),
            (4, 'Olga', 'partner', 'mzk'), (5, 'Karel', 'partner', 'nk')
    ) AS given (place, name, role, short_name)
    LEFT JOIN organisation USING (short_name)
    ORDER BY place
    """
)
"""They are added by one statement, because most tests of the dashboard begin with them."""


@contextlib.asynccontextmanager
async def browser_of(server: Server, name: str | None = None) -> AsyncIterator[Browser]:
    """Yield a browser, signed in as the named user."""
    jar = aiohttp.CookieJar(unsafe=True)  # by default it stores no cookies for an IP address
    async with aiohttp.ClientSession(cookie_jar=jar) as http:
        browser = Browser(http=http, base_url=server.base_url)
        if name is not None:
            browser.enter(*server.start_session(name))
        yield browser


@pytest.fixture
async def stranger(server: Server) -> AsyncIterator[Browser]:
    """A browser that is not signed in."""
    async with browser_of(server) as browser:
        yield browser


@pytest.fixture
async def administrator(server: Server) -> AsyncIterator[Browser]:
    """Alena, an administrator."""
    async with browser_of(server, "Alena") as browser:
        yield browser


@pytest.fixture
async def viewer(server: Server) -> AsyncIterator[Browser]:
    """Viktor, a viewer."""
    async with browser_of(server, "Viktor") as browser:
        yield browser


@pytest.fixture
async def owner(server: Server) -> AsyncIterator[Browser]:
    """Olga, a partner of the organisation mzk."""
    async with browser_of(server, "Olga") as browser:
        yield browser


@pytest.fixture
async def colleague(server: Server) -> AsyncIterator[Browser]:
    """Karel, a partner of another organisation, nk."""
    async with browser_of(server, "Karel") as browser:
        yield browser


@pytest.fixture
async def curator(server: Server) -> AsyncIterator[Browser]:
    """Katka, a curator of the archive."""
    async with browser_of(server, "Katka") as browser:
        yield browser


@pytest.fixture
async def manager(environment: dict[str, str]) -> AsyncIterator[None]:
    """A manager in a separate process, with short intervals and real harvests."""
    quick = {f"ZATVA_MANAGER__{name.upper()}": str(value) for name, value in QUICK.items()}
    async with manager_process(environment | quick, "zatva", "manager", "run"):
        yield


@pytest.fixture(
    params=[
        pytest.param((390, True), id="phone"),
        pytest.param((1440, False), id="desk-without-scripts", marks=pytest.mark.long),
    ]
)
async def czech(chromium: PlaywrightBrowser, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    """A tab of a Czech user: narrow with scripts, and wide without."""
    width, scripts = request.param
    context = await chromium.new_context(
        locale="cs-CZ", viewport={"width": width, "height": 900}, java_script_enabled=scripts
    )
    context.set_default_timeout(PATIENCE)
    yield await context.new_page()
    await context.close()
