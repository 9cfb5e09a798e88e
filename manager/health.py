"""The manager's health over HTTP: `/healthz`, `/readyz` and `/metrics`, if a port is set."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Final, Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector
from psycopg.errors import LockNotAvailable
from sqlalchemy import case, func, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from harvester.models import History
from harvester.vocabulary import RunStatus
from manager.disks import DiskForecast, forecast_disks
from manager.models import IN_HAND, Job
from manager.notices.models import Notice, NoticeState
from manager.store_audits import AuditView, last_audits
from manager.worker.registry import WAITING, ManagerStatus, is_late, is_ready, manager_status
from oai import probes
from oai.connections import ConnectionLimits, bound
from oai.disk import floor_of
from oai.executor import DatabaseExecutor
from oai.owners import Organisation, limits_of
from oai.sections import HarvesterSettings
from oai.serving import create_runner, open_listener, serving
from oai.settings import Settings

_SHUTDOWN: Final = 1.0
_NOT_COUNTED: Final = frozenset({NoticeState.SENT, NoticeState.MUTED})


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The state of the whole system, over all machines."""

    status: ManagerStatus
    due: int
    """Jobs that are due and have not begun, including the late ones."""
    late: int
    """Without those that wait for their repository."""
    running: int
    lag: float
    """Seconds since the due time of the job that has been waiting longest, except for its repository."""
    ended: Mapping[str, int]
    """Harvests that ended in the last 24 hours, and rows about due times not run, by status."""
    notices: Mapping[str, int]
    """Notices that are waiting or could not be sent, by state."""
    retried: int
    """Notices that wait for another attempt after one that failed."""
    audits: Sequence[AuditView]
    """The last complete audit of each repository's store."""
    organisations: Sequence[Organisation]
    disks: Sequence[DiskForecast]


class LeaderState(Protocol):
    """What a manager says about its leadership."""

    def leads(self) -> bool:
        """Return whether this manager leads now."""

    def call_seconds(self) -> Mapping[str, float]:
        """Return for how many seconds the call of each duty has lasted; none where this manager stands by."""


def figures_unless_locked(session: Session) -> Figures | None:
    """Return the figures; None if a table is locked for so long that Prometheus would not wait."""
    session.execute(text("SET LOCAL lock_timeout = '4s'"))
    try:
        return read_figures(session)
    except OperationalError as error:
        if isinstance(error.orig, LockNotAvailable):
            session.rollback()
            return None
        raise


def read_figures(session: Session) -> Figures:
    """Count the figures; each table is read through an index, except for the jobs, of which there are few."""
    due_now = Job.status.in_(WAITING) & (Job.harvest_start_time <= func.now())
    oldest = func.min(case((is_ready(), Job.harvest_start_time)))
    due, late, running, lag = session.execute(
        select(
            func.count().filter(due_now),
            func.count().filter(is_late()),
            func.count().filter(Job.status.in_(IN_HAND)),
            func.coalesce(func.extract("epoch", func.now() - oldest), 0),
        )
    ).one()
    ended = session.execute(
        select(History.status, func.count())
        .where(History.harvest_end_time > func.now() - timedelta(days=1), History.continued_by.is_(None))
        .group_by(History.status)
    )
    notices = session.execute(
        select(Notice.state, func.count())
        .where(Notice.state.not_in(_NOT_COUNTED), Notice.report_id.is_(None))
        .group_by(Notice.state)
    )
    failed_once = (Notice.ended.is_(None), Notice.tries > 0, Notice.last_error.is_not(None))
    return Figures(
        status=manager_status(session),
        due=due,
        late=late,
        running=running,
        lag=max(float(lag), 0.0),
        # With zeros: Prometheus sees no increase in a series that begins with 1.
        ended=dict.fromkeys(RunStatus, 0) | {row[0]: row[1] for row in ended},
        notices=dict.fromkeys(set(NoticeState) - _NOT_COUNTED, 0) | {row[0]: row[1] for row in notices},
        retried=session.scalar(select(func.count()).where(*failed_once)) or 0,
        audits=last_audits(session, complete=True),
        organisations=session.scalars(select(Organisation)).all(),
        disks=forecast_disks(session),
    )


def registry_of(
    figures: Figures | None,
    settings: HarvesterSettings,
    *,
    server: probes.ServerState,
    leads: bool,
    calls: Mapping[str, float] = MappingProxyType({}),
) -> CollectorRegistry:
    """Return the figures, if they could be read, and the state of server and process as metrics."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    free, waits = server.connections_free, server.lock_seconds
    for name, meaning, value in (
        ("leads", "1 if this manager is the leader.", float(leads)),
        ("database_connections_free", "Connections that the database's server still admits.", free),
        ("lock_wait_seconds", "Time since the first statement in a lock's queue began to wait.", waits),
    ):
        Gauge(f"zatva_manager_{name}", meaning, registry=registry).set(value)
    call_seconds = Gauge(
        "zatva_manager_call_seconds",
        "How long the leader's call of a function has lasted; 0: none.",
        ("function",),
        registry=registry,
    )
    for function, seconds in calls.items():
        call_seconds.labels(function).set(seconds)
    if figures is not None:
        _add_figures(registry, figures)
        _add_audits(registry, figures.audits)
        _add_organisations(registry, figures.organisations, settings)
        _add_disks(registry, figures.disks, settings)
    return registry


def _add_figures(registry: CollectorRegistry, figures: Figures) -> None:
    for name, meaning, value in (
        ("led", "1 if any manager is the leader.", float(figures.status.leader is not None)),
        ("workers", "Workers registered with the queue.", len(figures.status.workers)),
        ("jobs_due", "Jobs that are due and not started.", figures.due),
        ("jobs_late", "Jobs due for more than a minute that wait for a worker or a limit.", figures.late),
        ("jobs_stuck", "Running harvests that make no progress.", figures.status.stuck),
        ("jobs_running", "Running harvests.", figures.running),
        ("notices_retried", "Notifications that wait for another attempt.", figures.retried),
        ("lag_seconds", "Time since the longest waiting job was due.", figures.lag),
    ):
        Gauge(f"zatva_manager_{name}", meaning, registry=registry).set(value)
    for name, meaning, label, counts in (
        ("jobs", "Jobs by status.", "status", figures.status.jobs),
        ("schedules", "Schedules by state.", "state", figures.status.schedules),
        ("ended", "Harvests that ended, and due times not run, in 24 hours.", "status", figures.ended),
        ("notices", "Notifications that are waiting or could not be sent.", "state", figures.notices),
    ):
        gauge = Gauge(f"zatva_manager_{name}", meaning, (label,), registry=registry)
        for word, count in counts.items():
            gauge.labels(word).set(count)


def _add_disks(
    registry: CollectorRegistry, disks: Sequence[DiskForecast], settings: HarvesterSettings
) -> None:
    labels = ("host", "folder")
    free = Gauge("zatva_disk_free_bytes", "Free disk space, sampled every hour.", labels, registry=registry)
    floor = Gauge(
        "zatva_disk_floor_bytes", "Free space below which no harvest starts.", labels, registry=registry
    )
    full = Gauge(
        "zatva_disk_full_timestamp_seconds", "When the disk will be full.", labels, registry=registry
    )
    for disk in disks:
        free.labels(disk.host, disk.folder).set(disk.free)
        least = floor_of(disk.total, settings.floor_bytes, settings.floor_percent)
        floor.labels(disk.host, disk.folder).set(least)
        if disk.full is not None:
            full.labels(disk.host, disk.folder).set(disk.full.timestamp())


def _add_organisations(
    registry: CollectorRegistry, organisations: Sequence[Organisation], settings: HarvesterSettings
) -> None:
    labels = ("organisation",)
    for place, what in enumerate(("records", "bytes")):
        stored = Gauge(f"zatva_organisation_{what}", f"Stored {what}.", labels, registry=registry)
        limit = Gauge(
            f"zatva_organisation_{what}_limit", f"Limit of stored {what}; 0: none.", labels, registry=registry
        )
        for one in organisations:
            stored.labels(one.short_name).set(getattr(one, what))
            limit.labels(one.short_name).set(limits_of(one, settings)[place])


def _add_audits(registry: CollectorRegistry, audits: Sequence[AuditView]) -> None:
    last = Gauge(
        "zatva_store_audit_last_timestamp_seconds",
        "When the last complete audit of the repository's store ended.",
        ("repository",),
        registry=registry,
    )
    findings = Gauge(
        "zatva_store_audit_findings",
        "Files with a problem that the last complete audit of the repository's store found.",
        ("repository", "kind"),
        registry=registry,
    )
    for audit in (view.audit for view in audits):
        number = str(audit.repository_id)
        last.labels(number).set(audit.ended.timestamp() if audit.ended else 0)
        # Without unreadable files: an audit that could not read all is not complete.
        for kind in ("missing", "altered", "stray"):
            # Without zeros, which for thousands of repositories are most of the series.
            if count := getattr(audit, kind):
                findings.labels(number, kind).set(count)


@contextlib.asynccontextmanager
async def health(
    settings: Settings, transactions: DatabaseExecutor, state: LeaderState
) -> AsyncIterator[None]:
    """Serve the health addresses during the block if `manager.health_port` is set.

    Raises UsageError if the port is in use.
    """
    ours = settings.manager
    if not ours.health_port:
        yield
        return
    listener = open_listener(ours.health_host, ours.health_port, option="the setting manager.health_port")
    # With threads of its own: the manager's may all wait for a lock of a table.
    with DatabaseExecutor(transactions.database, threads=2, name="manager-health", waiting=4) as probing:
        app = create_app(probing, state, settings.harvester)
        async with serving(create_runner(app, log=__name__, stop_seconds=_SHUTDOWN), listener):
            yield


def create_app(
    transactions: DatabaseExecutor, state: LeaderState, settings: HarvesterSettings
) -> web.Application:
    """Return the application with the three addresses."""

    async def ready(_: web.Request) -> web.Response:
        word = "ready: leads" if state.leads() else "ready: stands by"
        return await probes.ready(lambda: transactions.run(probes.answers), word)

    async def metrics(_: web.Request) -> web.Response:
        registries: list[CollectorRegistry] = []

        async def read() -> None:
            server = await transactions.run(probes.server_state)
            figures = await transactions.run(figures_unless_locked)
            leads, calls = state.leads(), state.call_seconds()
            registries.append(registry_of(figures, settings, server=server, leads=leads, calls=calls))

        answer = await probes.ready(read)
        return probes.metrics(registries[0]) if registries else answer

    app = web.Application()
    bound(app, ConnectionLimits())
    app.router.add_get(probes.ALIVE, probes.alive)
    app.router.add_get(probes.READY, ready)
    app.router.add_get(probes.METRICS, metrics)
    return app
