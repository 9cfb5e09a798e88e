"""The manager in figures, as Prometheus reads them: what is due, late, running, failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from harvester.models import History
from manager.models import IN_HAND, Job, JobStatus
from manager.notices.models import Notice, NoticeState
from manager.status import ManagerStatus, manager_status

LATE: Final = timedelta(minutes=1)
"""A job that was due so long ago and has not begun is late."""

_WAITING: Final = (JobStatus.SCHEDULED, JobStatus.QUEUED)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The state of the whole, over all machines."""

    status: ManagerStatus
    due: int
    """Jobs whose time has come and that have not begun, the late ones included."""
    late: int
    running: int
    lag: float
    """Seconds since the job that waits longest was due."""
    ended: Mapping[str, int]
    """Harvests that ended in the last 24 hours, by status."""
    notices: Mapping[str, int]
    """Notices that wait, or could not be sent, by state."""


def read_figures(session: Session) -> Figures:
    """Count; each table is read through an index, but for the jobs, of which there are few."""
    waits = Job.status.in_(_WAITING) & (Job.harvest_start_time <= func.now())
    oldest = func.min(case((waits, Job.harvest_start_time)))
    due, late, running, lag = session.execute(
        select(
            func.count().filter(waits),
            func.count().filter(waits & (Job.harvest_start_time <= func.now() - LATE)),
            func.count().filter(Job.status.in_(IN_HAND)),
            func.coalesce(func.extract("epoch", func.now() - oldest), 0),
        )
    ).one()
    ended = session.execute(
        select(History.status, func.count())
        .where(History.harvest_end_time > func.now() - timedelta(days=1))
        .group_by(History.status)
    )
    notices = session.execute(
        select(Notice.state, func.count()).where(Notice.state != NoticeState.SENT).group_by(Notice.state)
    )
    return Figures(
        status=manager_status(session),
        due=due,
        late=late,
        running=running,
        lag=max(float(lag), 0.0),
        ended={row[0]: row[1] for row in ended},
        notices={row[0]: row[1] for row in notices},
    )


def exposition(figures: Figures, *, leads: bool) -> bytes:
    """The figures, and this process's memory and time, in Prometheus' text format."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for name, meaning, value in (
        ("leads", "1 if this manager is the leader.", float(leads)),
        ("led", "1 if any manager is the leader.", float(figures.status.leader is not None)),
        ("workers", "Workers registered with the queue.", len(figures.status.workers)),
        ("jobs_due", "Jobs that are due and not started.", figures.due),
        ("jobs_late", "Jobs that have been due for more than a minute and are not started.", figures.late),
        ("jobs_running", "Running harvests.", figures.running),
        ("lag_seconds", "Time since the longest waiting job was due.", figures.lag),
    ):
        Gauge(f"zatva_manager_{name}", meaning, registry=registry).set(value)
    for name, meaning, label, counts in (
        ("jobs", "Jobs by status.", "status", figures.status.jobs),
        ("schedules", "Schedules by state.", "state", figures.status.schedules),
        ("ended", "Harvests that ended in the last 24 hours.", "status", figures.ended),
        ("notices", "Notifications that are waiting or could not be sent.", "state", figures.notices),
    ):
        gauge = Gauge(f"zatva_manager_{name}", meaning, (label,), registry=registry)
        for word, count in counts.items():
            gauge.labels(word).set(count)
    return generate_latest(registry)
