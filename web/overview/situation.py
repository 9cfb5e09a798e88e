"""Data of the overview: key figures, and last runs that need attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, select, union
from sqlalchemy.orm import Session, aliased

from harvester.models import History, Repository
from harvester.vocabulary import NOT_RUN
from manager.jobs.runs import TROUBLED, awaits_approval, needs_attention
from manager.models import Job, RecurringJob, RecurringState
from manager.notices.models import Mute
from manager.notices.mutes import is_muted, mutes_run
from manager.store_audits import AuditView, last_audits
from manager.worker.registry import is_late, is_ready, places
from oai.datestamps import utc_now
from oai.failures import Failure
from oai.models import from_row
from web.runs.words import is_made_up

_ATTENTION_DAYS: Final = 30
_COUNTS: Final = (
    History.record_count,
    History.new_count,
    History.updated_count,
    History.deleted_count,
    History.invalid_count,
)
MOST: Final = 10
"""Rows that an overview shows of what needs attention."""

Among = Select[int] | None
"""Repositories to count; None for all."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Counts at the top of the overview; counts of runs cover the last 24 hours."""

    repositories: int
    schedules: int
    paused: int
    set_aside: int
    runs: int
    troubled: int
    records: int
    new: int
    changed: int
    """Updated and deleted records."""
    refused: int
    late: int
    """Jobs that have been due for a minute and wait for a worker or a limit."""
    stuck: int


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """The last run of a selective harvest that did not end well, or one that waits for approval."""

    history_id: int
    repository_id: int
    repository_name: str
    protocol: str
    metadata_prefix: str | None
    set_spec: str | None
    status: str
    reason: str | None
    failure: Failure | None
    refused: int
    """Records that could not be read or are not valid."""
    ended: datetime
    made_up: bool
    """Whether the demo generated the run."""
    mute: Mute | None = None
    """By which it needs no attention, if it was asked for."""


@dataclass(frozen=True, kw_only=True)
class FailedRuns:
    """The newest failed runs, and how many there are in all."""

    rows: Sequence[FailedRun]
    total: int


@dataclass(frozen=True, kw_only=True)
class Attention:
    """What needs attention, and the failures that do not because they are acknowledged or muted."""

    failed: FailedRuns
    muted: FailedRuns
    damaged: Sequence[AuditView]
    """Last audits of stores that found something or did not finish, by repository."""
    more_damaged: bool
    """Whether there are further ones."""
    jobs_without_worker: int
    """Jobs that could start if a worker took jobs; 0 if one does."""


def figures(session: Session, among: Among = None) -> Figures:
    """Return the present figures."""
    day = select(
        func.count().filter(History.status.not_in(NOT_RUN)),
        func.count().filter(History.status.in_(TROUBLED)),
        *(func.coalesce(func.sum(column), 0) for column in _COUNTS),
    ).where(
        History.harvest_end_time > utc_now() - timedelta(days=1),
        History.continued_by.is_(None),
        *_seen(History.repository_id, among),
    )
    runs, troubled, *counts = session.execute(day).one()
    records, new, updated, deleted, refused = map(int, counts)
    off = (RecurringState.SET_ASIDE, RecurringState.SUSPENDED)
    kept = select(
        func.count(),
        func.count().filter(RecurringJob.state == RecurringState.PAUSED),
        func.count().filter(RecurringJob.state.in_(off)),
    ).where(*_seen(RecurringJob.repository_id, among))
    schedules, paused, set_aside = session.execute(kept).one()
    jobs = select(func.count().filter(is_late()), func.count(Job.stuck_since))
    late, stuck = session.execute(jobs.where(*_seen(Job.repository_id, among))).one()
    repositories = select(func.count()).select_from(Repository).where(*_seen(Repository.repository_id, among))
    return Figures(
        repositories=session.scalars(repositories).one(),
        schedules=schedules,
        paused=paused,
        set_aside=set_aside,
        runs=runs,
        troubled=troubled,
        records=records,
        new=new,
        changed=updated + deleted,
        refused=refused,
        late=late,
        stuck=stuck,
    )


def failed_runs(
    session: Session, among: Among = None, *, muted: bool = False, most: int = MOST
) -> FailedRuns:
    """Return, per repository, format and set, the last run of 30 days if it failed; the `most` newest first.

    Runs that wait for approval are included, however old and even if they are not the last.

    With `muted`, only those that are acknowledged, muted or in a maintenance window; otherwise the others.
    """
    chosen = select(History.history_id).where(
        is_muted() if muted else ~is_muted(), needs_attention(History), *_seen(History.repository_id, among)
    )
    recent = History.harvest_end_time > utc_now() - timedelta(days=_ATTENTION_DAYS)
    # An OR of both conditions would read the whole history.
    found = union(chosen.where(recent, ~_followed()), chosen.where(awaits_approval())).subquery()
    newest = (
        select(found.c.history_id, func.count().over().label("total"))
        .order_by(found.c.history_id.desc())
        .limit(most)
        .subquery()
    )
    # Which mute it is, only the few that are shown need.
    covering = select(func.min(Mute.mute_id)).where(mutes_run()).correlate(History).scalar_subquery()
    statement = (
        select(History, Repository.display_name, Repository.protocol, Mute, newest.c.total)
        .join(newest, newest.c.history_id == History.history_id)
        .join(Repository, Repository.repository_id == History.repository_id)
        .outerjoin(Mute, Mute.mute_id == covering)
        .order_by(History.history_id.desc())
    )
    rows = session.execute(statement).all()
    return FailedRuns(rows=[_failed_run(*row[:-1]) for row in rows], total=rows[0][-1] if rows else 0)


def attention(session: Session, among: Among = None, *, most: int = MOST) -> Attention:
    """Return what needs attention: at most `most` of each kind."""
    damaged = last_audits(session, among=among, troubled=True, limit=most + 1)
    return Attention(
        failed=failed_runs(session, among, most=most),
        muted=failed_runs(session, among, muted=True, most=most),
        damaged=damaged[:most],
        more_damaged=len(damaged) > most,
        jobs_without_worker=0 if places(session) else _ready(session, among),
    )


def _ready(session: Session, among: Among) -> int:
    jobs = select(func.count()).select_from(Job).where(is_ready(), *_seen(Job.repository_id, among))
    return session.scalars(jobs).one()


def _followed() -> ColumnElement[bool]:
    """Return the SQL condition that the same harvest has a later run."""
    # From the few troubled runs to their successors: each lookup uses an index. EXISTS would allow a join
    # with the whole history, which the planner prefers for some thousand runs.
    later = aliased(History)
    one = select(later.history_id).where(
        later.repository_id == History.repository_id,
        later.metadata_prefix.is_not_distinct_from(History.metadata_prefix),
        later.set_spec.is_not_distinct_from(History.set_spec),
        later.history_id > History.history_id,
        later.status.not_in(NOT_RUN),
    )
    return one.correlate(History).limit(1).scalar_subquery().is_not(None)


def _failed_run(run: History, name: str, protocol: str, mute: Mute | None) -> FailedRun:
    return from_row(
        FailedRun,
        run,
        repository_name=name,
        protocol=protocol,
        reason=run.failure_reason,
        refused=run.invalid_count,
        ended=run.harvest_end_time,
        made_up=is_made_up(run),
        mute=mute,
    )


def _seen(column: Any, among: Among) -> list[ColumnElement[bool]]:  # noqa: ANN401 of any table
    # An array, which is made once: a join may look for the failed runs of all again for each repository.
    return [] if among is None else [column == func.any(func.array(among.scalar_subquery()))]
