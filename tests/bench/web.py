"""Benchmark of the dashboard: every page and API list, with few and with many rows in the tables."""

import asyncio
import contextlib
import re
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from oai.database import Database, open_database
from oai.settings import Settings, load_settings
from tests.bench import rows
from tests.bench.dashboard_rows import fill_dashboard
from tests.bench.measuring import ms, say
from tests.bench.rows import switch_off_statistics
from web.app import create_app
from web.auth.organisations import add_organisation
from web.auth.sessions import start_session
from web.auth.users import add_user
from web.models import Role
from web.site.keys import THREADS

_TIMES: Final = 9
"""Number of requests for each page, small and large alternately.

The shortest counts, because other load on the machine affects it least.
"""
_AGAIN: Final = 5
_ALLOWED: Final = 3.0
_FLOOR: Final = 0.005
"""Seconds below which a ratio is not meaningful."""
_VARIABLE: Final = re.compile(r"\{([^}:]+)[^}]*\}")
_LEFT_OUT: Final = (
    "/static", "/events", "/sign-in", "/export", "{token}", "{card}", "doctor.json", "/explorer",
)  # fmt: skip
"""Not measured: no page, no row here, exports of a whole table, or a request to a repository."""
_VIEWS: Final = (
    "/schedules?view=week", "/schedules?repository=1", "/schedules?view=week&repository=1",
    "/runs?view=timeline", "/runs?view=calendar", "/runs?view=timeline&repository=1",
    "/runs?view=calendar&repository=1", "/runs?repository=1", "/runs/1/log?level=error",
    "/archive/sets?tree=domain", "/archive/sets?tree=mimetype", "/archive/sets?below=domain:cz",
    "/alerts/deliveries?state=sent", "/admin/users?role=partner",
    "/repositories?sort=-last", "/repositories?sort=next", "/repositories?sort=name&state=trouble",
    "/jobs?view=planned", "/rules/new?repository=1", "/records?find=slovnik",
)  # fmt: skip
"""Pages with different content by their query string."""
_KEY: Final = "c4ca4238-a0b9-2382-0dcc-509a6f75849b"
"""Key of a document and of a harvester: the MD5 of 1."""
_PLACES: Final = {
    "control": "pause", "spec": "collection", "collection": "collection", "kind": "csv", "key": _KEY,
    "client": _KEY, "document": _KEY,
}  # fmt: skip
"""Values of path variables other than 1."""

Filled = tuple[Settings, Database, Mapping[str, str]]
"""A database with its settings, and session cookies by role."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """The number of rows in the tables."""

    repositories: int
    documents: int

    def __str__(self) -> str:
        return f"{self.repositories:,} repositories, {self.documents:,} documents"


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A running dashboard, and session cookies by role."""

    app: web.Application
    base_url: str
    cookies: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Result for a page: statuses, and shortest times in seconds."""

    statuses: frozenset[int]
    small: float
    large: float

    @property
    def ratio(self) -> float:
        """Ratio of the times with many and with few rows."""
        return self.large / max(self.small, _FLOOR)


_SMALL: Final = Size(repositories=120, documents=3000)
"""Enough to fill a page of every list."""


def measure(*, repositories: int, documents: int) -> None:
    """Print a Markdown table with each page's time at both sizes, largest growth first."""
    large = Size(repositories=repositories, documents=documents)
    with dashboard_database(_SMALL) as small, dashboard_database(large) as much:
        found = asyncio.run(compare(small, much))
    _print(found, _SMALL, large)


@contextlib.contextmanager
def dashboard_database(size: Size, *, statistics: bool = True) -> Iterator[Filled]:
    """Create a database of that size, with sessions of an administrator and of a partner.

    Without `statistics`, the generated rows have none.
    """
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        settings = load_settings(data=root / "data", database_url=None)
        settings = settings.model_copy(update={"web": settings.web.model_copy(update={"api_per_minute": 0})})
        with open_database(settings, pool_size=THREADS) as database:
            if not statistics:
                switch_off_statistics(database)
            cookies = _cookies(settings, database)
            rows.fill(database, size.documents, lambda _: None, statistics=statistics)
            fill_dashboard(database, size.repositories, statistics=statistics)
            yield settings, database, cookies


def _cookies(settings: Settings, database: Database) -> Mapping[str, str]:
    with database.session() as session:
        organisation = add_organisation(session, short_name="bench")
        users = (
            add_user(session, "bench", Role.ADMINISTRATOR),
            add_user(session, "partner", Role.PARTNER, organisation_id=organisation.organisation_id),
        )
        cookies = {user.role: start_session(session, settings.web, user.user_id) for user in users}
        session.commit()
    return cookies


async def compare(small: Filled, large: Filled) -> Mapping[tuple[str, str], Asked]:
    """Measure each page, by role and path."""
    async with _listening(*small) as one, _listening(*large) as other:
        return {
            (role, path): await _asked(one, other, role, _concrete(path))
            for role in one.cookies
            for path in _pages(one.app)
        }


@contextlib.asynccontextmanager
async def _listening(
    settings: Settings, database: Database, cookies: Mapping[str, str]
) -> AsyncIterator[Dashboard]:
    app = create_app(settings, database)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield Dashboard(app=app, base_url=base_url, cookies=cookies)
    finally:
        await runner.cleanup()


def _pages(app: web.Application) -> list[str]:
    paths = {
        route.resource.canonical
        for route in app.router.routes()
        if route.method == "GET" and route.resource is not None
    }
    asked = [path for path in paths if not any(part in path for part in _LEFT_OUT)]
    return sorted([*asked, *_VIEWS])


def _concrete(path: str) -> str:
    """Return the page's path with existing objects: the first repository, the last row in every index."""
    if path.endswith("/documents"):
        return f"{path}?url=site1.cz&match=domain"
    return _VARIABLE.sub(lambda found: _PLACES.get(found[1], "1"), path)


async def _asked(small: Dashboard, large: Dashboard, role: str, path: str) -> Asked:
    """Return the page's times; asks again if it seems slow, in case other load caused that."""
    found = await _ask(small, large, role, path)
    for _ in range(_AGAIN):
        if found.ratio <= _ALLOWED:
            break
        more = await _ask(small, large, role, path)
        found = Asked(
            statuses=found.statuses | more.statuses,
            small=min(found.small, more.small),
            large=min(found.large, more.large),
        )
    return found


async def _ask(small: Dashboard, large: Dashboard, role: str, path: str) -> Asked:
    taken: dict[str, list[float]] = {small.base_url: [], large.base_url: []}
    statuses = set()
    async with aiohttp.ClientSession() as http:
        for _ in range(_TIMES):
            for dashboard in (small, large):
                headers = {"Cookie": f"zatva_session={dashboard.cookies[role]}"}
                begun = time.perf_counter()
                async with http.get(
                    dashboard.base_url + path, headers=headers, allow_redirects=False
                ) as answer:
                    # For a whole table only the first bytes count, because its size determines the rest.
                    whole = not path.partition("?")[0].endswith(".csv")
                    await (answer.read() if whole else answer.content.readany())
                    statuses.add(answer.status)
                    taken[dashboard.base_url].append(time.perf_counter() - begun)
    return Asked(
        statuses=frozenset(statuses), small=min(taken[small.base_url]), large=min(taken[large.base_url])
    )


def _print(found: Mapping[tuple[str, str], Asked], before: Size, after: Size) -> None:
    say("Page", "Asked by", "Status", str(before), str(after), "Ratio", "")
    say("---", "---", "---:", "---:", "---:", "---:", "---")
    # A page that the role may not see takes no time.
    shown = {key: asked for key, asked in found.items() if asked.statuses != {403}}
    for (role, path), asked in sorted(shown.items(), key=lambda item: -item[1].ratio):
        verdict = "slow" if asked.ratio > _ALLOWED else ""
        status = " ".join(map(str, sorted(asked.statuses)))
        say(path, role, status, ms(asked.small), ms(asked.large), f"{asked.ratio:.1f}", verdict)
    slow = sum(asked.ratio > _ALLOWED for asked in shown.values())
    say("in all", "", "", "", "", "", f"{slow} of {len(shown)} slow")
