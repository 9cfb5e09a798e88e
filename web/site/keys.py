"""Typed application keys that several modules share."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from oai.database import Database
from oai.executor import DatabaseExecutor
from oai.settings import Settings


@dataclass(frozen=True, kw_only=True)
class PageSizes:
    """The maximum that some pages show."""

    records: int = 50
    timeline_runs: int = 300
    week_groups: int = 100
    """Number of plans in a week; schedules with the same times are one plan."""


SETTINGS = web.AppKey("settings", Settings)
PAGE_SIZES = web.AppKey("page_sizes", PageSizes)
DATABASE = web.AppKey("database", DatabaseExecutor)
THREADS: Final = 4
_WAITING: Final = 1000
"""After a restart, every browser that follows a live page reconnects at once."""


PROBES = web.AppKey("probes", DatabaseExecutor)
"""A thread of its own for `/readyz`: slow searches must not make the process look dead."""


def database_of(request: web.Request) -> DatabaseExecutor:
    """Return the application's database executor."""
    return request.config_dict[DATABASE]


def margin_of(request: web.Request) -> float:
    """Return the seconds by which changes of the archive are dated ahead."""
    return request.config_dict[SETTINGS].provider.publish_margin


def open_executor(database: Database, *, waiting: int = _WAITING) -> DatabaseExecutor:
    """Return the dashboard's executor over an open database."""
    return DatabaseExecutor(database, threads=THREADS, name="web-database", waiting=waiting)


def open_probes(database: Database) -> DatabaseExecutor:
    """Return the executor of readiness checks."""
    return DatabaseExecutor(database, threads=1, name="web-probes", waiting=_WAITING)
