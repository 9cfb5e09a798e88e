"""The situation at a glance: a few figures, and the last runs that need somebody's attention."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import History, Repository, RunStatus
from manager.models import RecurringJob, RecurringState
from oai.datestamps import utc_now

_TROUBLED: Final = frozenset(
    {
        RunStatus.COMPLETED_WITH_ERRORS,
        RunStatus.INCOMPLETE,
        RunStatus.FAILED,
        RunStatus.KILLED,
        RunStatus.LOST,
    }
)
_ATTENTION_DAYS: Final = 30
_ATTENTION_ROWS: Final = 10


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Counts for the top of the overview; those of runs cover the last 24 hours."""

    repositories: int
    schedules: int
    paused: int
    runs: int
    troubled: int
    records: int


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """The last run of one selective harvest, where it did not end well."""

    history_id: int
    repository_id: int
    repository_name: str
    metadata_prefix: str | None
    set_spec: str | None
    status: str
    reason: str | None
    ended: datetime


def figures(session: Session) -> Figures:
    """The figures of this moment."""
    day = select(
        func.count(),
        func.count().filter(History.status.in_(_TROUBLED)),
        func.coalesce(func.sum(History.record_count), 0),
    ).where(History.harvest_end_time > utc_now() - timedelta(days=1))
    runs, troubled, records = session.execute(day).one()
    kept = select(func.count(), func.count().filter(RecurringJob.state == RecurringState.PAUSED)).select_from(
        RecurringJob
    )
    schedules, paused = session.execute(kept).one()
    return Figures(
        repositories=session.scalars(select(func.count()).select_from(Repository)).one(),
        schedules=schedules,
        paused=paused,
        runs=runs,
        troubled=troubled,
        records=int(records),
    )


def troubles(session: Session) -> list[Trouble]:
    """Of each repository, format and set the last run of 30 days, where it went wrong; newest first."""
    last = (
        select(func.max(History.history_id))
        .where(History.harvest_end_time > utc_now() - timedelta(days=_ATTENTION_DAYS))
        .group_by(History.repository_id, History.metadata_prefix, History.set_spec)
    )
    statement = (
        select(History, func.coalesce(Repository.repository_name, Repository.base_url))
        .join(Repository, Repository.repository_id == History.repository_id)
        .where(History.history_id.in_(last), History.status.in_(_TROUBLED))
        .order_by(History.history_id.desc())
        .limit(_ATTENTION_ROWS)
    )
    return [
        Trouble(
            history_id=run.history_id,
            repository_id=run.repository_id,
            repository_name=name,
            metadata_prefix=run.metadata_prefix,
            set_spec=run.set_spec,
            status=run.status,
            reason=run.failure_reason,
            ended=run.harvest_end_time,
        )
        for run, name in session.execute(statement)
    ]
