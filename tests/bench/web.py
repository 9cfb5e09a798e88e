"""The dashboard at size: every page and list of the API, with few rows in the tables and with many."""

import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web
from sqlalchemy import text

from oai.database import Database, open_database
from oai.settings import Settings, load_settings
from tests.bench import rows
from tests.bench.measuring import ms, say
from web.api_tokens import make_token
from web.app import create_app
from web.models import Role
from web.rights import Scope
from web.threads import THREADS
from web.users import add_user

_RUNS_EACH: Final = 10
_RECORDS_EACH: Final = 100
_TIMES: Final = 7
_ALLOWED: Final = 3.0
_FLOOR: Final = 0.005
"""Seconds; below it a ratio says nothing."""
_VARIABLE: Final = re.compile(r"\{([^}:]+)[^}]*\}")
_LEFT_OUT: Final = ("/static", "/events", "/sign-in", "/check/{", "/export")
"""What is no page, or has no row here."""

_REPOSITORIES = """
INSERT INTO oai_repository (base_url, base_dir, repository_name, admin_email)
SELECT 'https://r' || n || '.example/oai', 'r' || n, 'Library ' || n, 'admin@r' || n || '.example'
FROM generate_series(1, CAST(:repositories AS int)) AS n
"""
_FORMATS = (
    """
    INSERT INTO oai_metadata_format (metadata_prefix) VALUES ('oai_dc'), ('marc21')
    """,
    """
    INSERT INTO oai_prefix_mapping (repository_id, prefix_id)
    SELECT repository_id, prefix_id FROM oai_repository CROSS JOIN oai_metadata_format
    """,
    """
    INSERT INTO oai_set (repository_id, set_spec, set_name)
    SELECT repository_id, 's' || n, 'Set ' || n FROM oai_repository CROSS JOIN generate_series(1, 5) AS n
    """,
)
_SCHEDULES = (
    """
    INSERT INTO oai_recurring_job (repository_id, frequency, metadata_prefix, state)
    SELECT repository_id, 'daily at 02:30', 'oai_dc', 1 FROM oai_repository
    """,
    """
    INSERT INTO oai_job (repository_id, recurring_id, harvest_start_time, metadata_prefix)
    SELECT repository_id, id, now() + interval '1 day', 'oai_dc' FROM oai_recurring_job
    """,
)
_RUNS = """
INSERT INTO oai_history (
    repository_id, harvest_start_time, harvest_end_time, status, verdict, metadata_prefix, record_count,
    new_count
)
SELECT repository_id, moment, moment + interval '1 minute',
    CASE WHEN (repository_id + n) % 50 = 0 THEN 'failed' ELSE 'completed' END,
    CASE WHEN (repository_id + n) % 50 = 0 THEN 'failed' ELSE 'complete' END, 'oai_dc', 100, 10
FROM generate_series(1, :runs) AS n CROSS JOIN oai_repository
CROSS JOIN LATERAL (SELECT now() - (:runs - n) * interval '1 day' - interval '1 hour' AS moment) AS begun
ORDER BY n
"""
_RECORDS = """
INSERT INTO oai_record (
    repository_id, identifier, identifier_key, filename, datestamp, metadata_prefix, digest
)
SELECT repository_id, identifier, md5(identifier)::uuid, n || '.xml', '2026-01-01', 'oai_dc', sha256('x')
FROM generate_series(1, :records) AS n CROSS JOIN oai_repository
CROSS JOIN LATERAL (SELECT 'oai:r' || repository_id || ':' || n AS identifier) AS named
"""
_ERRORS = """
INSERT INTO oai_quarantine (
    repository_id, metadata_prefix, fault_key, identifier, reason, url, raw, raw_size, last_run, history_id
)
SELECT repository_id, metadata_prefix, md5(history_id::text)::uuid, 'oai:broken:' || history_id,
    'an attribute without quotes', 'https://r.example/oai', 'x', 1, harvest_start_time, history_id
FROM oai_history WHERE history_id % 3 = 0
"""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is in the tables."""

    repositories: int
    documents: int

    def __str__(self) -> str:
        return f"{self.repositories:,} repositories, {self.documents:,} documents"


_SMALL: Final = Size(repositories=60, documents=3000)


def measure(*, repositories: int, documents: int) -> None:
    """Print a Markdown table with each page's time at both sizes, those first that grow most."""
    small, large = _SMALL, Size(repositories=repositories, documents=documents)
    _print(_measured(small), _measured(large), small, large)


def _measured(size: Size) -> Mapping[str, tuple[int, float]]:
    """Status and time of each page of a dashboard over a database of that size."""
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        settings = load_settings(data=root / "data", database_url=None)
        settings = settings.model_copy(update={"web": settings.web.model_copy(update={"api_per_minute": 0})})
        with open_database(settings, pool_size=THREADS) as database:
            token = _token(database)
            rows.fill(database, size.documents, lambda _: None)
            _fill(database, size.repositories)
            return asyncio.run(_times(settings, database, token))


def _token(database: Database) -> str:
    with database.session() as session:
        user = add_user(session, "bench", Role.ADMINISTRATOR)
        _, token = make_token(session, user.user_id, name="bench", scopes=tuple(Scope))
        session.commit()
    return token


def _fill(database: Database, repositories: int) -> None:
    """Repositories numbered up to `repositories`, each with schedule, job, runs, records, errors."""
    values = {"repositories": repositories, "runs": _RUNS_EACH, "records": _RECORDS_EACH}
    with database.engine.begin() as connection:
        for statement in (_REPOSITORIES, *_FORMATS, *_SCHEDULES, _RUNS, _RECORDS, _ERRORS):
            connection.execute(text(statement), values)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


async def _times(settings: Settings, database: Database, token: str) -> Mapping[str, tuple[int, float]]:
    """Status and median time of each page."""
    app = create_app(settings, database)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    found = {}
    try:
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
            for path in _pages(app):
                found[path] = await _time(http, base_url + _concrete(path))
    finally:
        await runner.cleanup()
    return found


def _pages(app: web.Application) -> list[str]:
    paths = {
        route.resource.canonical
        for route in app.router.routes()
        if route.method == "GET" and route.resource is not None
    }
    return sorted(path for path in paths if not any(part in path for part in _LEFT_OUT))


def _concrete(path: str) -> str:
    """The page with rows that are there: those of the first repository, the last in every index."""
    if path.endswith("/documents"):
        return f"{path}?url=site1.cz&match=domain"
    return _VARIABLE.sub(lambda found: "collection" if found[1] in {"spec", "collection"} else "1", path)


async def _time(http: aiohttp.ClientSession, url: str) -> tuple[int, float]:
    taken = []
    status = 0
    for _ in range(_TIMES):
        begun = time.perf_counter()
        async with http.get(url, allow_redirects=False) as answer:
            await answer.read()
            status = answer.status
        taken.append(time.perf_counter() - begun)
    return status, statistics.median(taken)


def _print(
    small: Mapping[str, tuple[int, float]], large: Mapping[str, tuple[int, float]], before: Size, after: Size
) -> None:
    say("Page", "Status", str(before), str(after), "Ratio", "")
    say("---", "---:", "---:", "---:", "---:", "---")
    ratios = {path: large[path][1] / max(small[path][1], _FLOOR) for path in large}
    for path in sorted(ratios, key=lambda path: -ratios[path]):
        verdict = "slow" if ratios[path] > _ALLOWED else ""
        status, seconds = large[path]
        say(path, str(status), ms(small[path][1]), ms(seconds), f"{ratios[path]:.1f}", verdict)
    slow = sum(ratio > _ALLOWED for ratio in ratios.values())
    say("in all", "", "", "", "", f"{slow} of {len(ratios)} slow")
