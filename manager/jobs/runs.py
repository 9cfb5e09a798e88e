"""The history as users query it: filtered, summed by day, and compared with what is usual.

A harvest that was interrupted and resumed is one run, that of its last process; `pieces_of` has the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import groupby
from statistics import median
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Date,
    DateTime,
    Double,
    Select,
    and_,
    cast,
    column,
    func,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.orm import Session, defer

from harvester.harvest.approval import HoldState
from harvester.harvest.models import Hold
from harvester.harvest.plan import made_progress
from harvester.listing import matching_repositories
from harvester.models import Harvest, History, Repository
from harvester.vocabulary import NOT_RUN, RunStatus, Verdict
from manager.jobs.views import HistoryView
from manager.models import Job, JobStatus, RecurringJob
from oai.failure_codes import NOT_STARTED, FailureCode

TROUBLED: Final = frozenset(
    {
        RunStatus.COMPLETED_WITH_ERRORS,
        RunStatus.INCOMPLETE,
        RunStatus.FAILED,
        RunStatus.KILLED,
        RunStatus.LOST,
        RunStatus.HELD,
    }
)
"""Statuses that need attention."""

WORST_FIRST: Final = (
    RunStatus.FAILED,
    RunStatus.LOST,
    RunStatus.KILLED,
    RunStatus.HELD,
    RunStatus.INCOMPLETE,
    RunStatus.COMPLETED_WITH_ERRORS,
    RunStatus.MISSED,
    RunStatus.SKIPPED,
    RunStatus.COMPLETED,
    RunStatus.NO_CHANGES,
)
_LIKE_IT: Final = 10
_SUMMED: Final = ("runs", "troubled", "records", "new", "changed")
_WITHOUT_DETAILS: Final = tuple(
    defer(column, raiseload=True)
    for column in (History.warnings, History.warning_failures, History.evidence, History.pace)
)
"""Options for lists: these columns have up to megabytes for each run, and no list of runs shows them."""


def needs_attention(run: Any) -> ColumnElement[bool]:  # noqa: ANN401 History, or a subquery of it
    """Return the condition that a run did not end well and was not approved if it was held."""
    return and_(run.status.in_(TROUBLED), run.failure_code.is_distinct_from(FailureCode.RELEASED))


def awaits_approval() -> ColumnElement[bool]:
    """Return the condition that a run is held, and neither approved nor superseded by a later run."""
    return History.history_id.in_(select(Hold.history_id).where(Hold.state == HoldState.HELD))


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """A filter of runs: None means no condition. Times are those of the runs' ends; `until` is exclusive."""

    repository_id: int | None = None
    recurring_id: int | None = None
    statuses: frozenset[str] | None = None
    metadata_prefix: str | None = None
    words: str | None = None
    """Words searched for in the repository's name, the set and the reason of a failure."""
    since: datetime | None = None
    until: datetime | None = None
    among: Select[int] | None = None
    """Selects the repositories that the user may see; None for all."""

    def within(self, since: datetime, until: datetime | None = None) -> "RunFilter":
        """Return the same filter for another period."""
        return replace(self, since=since, until=until)


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums over some runs."""

    runs: int
    """Runs that were missed or skipped are not counted."""
    troubled: int
    records: int
    new: int
    changed: int
    """Updated and deleted records."""

    @property
    def changes(self) -> int:
        """New, updated and deleted records."""
        return self.new + self.changed


@dataclass(frozen=True, kw_only=True)
class Day(Totals):
    """The runs that ended on one day in a time zone."""

    day: date
    worst: str
    """The worst of their statuses."""


@dataclass(frozen=True, kw_only=True)
class Source(Totals):
    """The runs of a repository in one format."""

    repository_id: int
    repository_name: str
    metadata_prefix: str


_Part = tuple[str, int, int, int, int]
"""Status, runs, records, new and changed ones of some runs with this status."""


@dataclass(frozen=True, kw_only=True)
class TypicalRun:
    """What is usual for runs of this kind: the median of the last successful ones."""

    runs: int
    seconds: float
    records: int


def find_runs(
    session: Session, choice: RunFilter, *, limit: int, before: int | None = None, whole: bool = False
) -> list[HistoryView]:
    """Return up to `limit` runs, newest first; `before` is the last `history_id` of the previous page.

    Only `whole` runs have warnings, evidence and pace.
    """
    query = (
        select(History, Repository.display_name, Repository.protocol)
        .join(Repository, Repository.repository_id == History.repository_id)
        .where(*_conditions(choice))
        .order_by(History.history_id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(History.history_id < before)
    if not whole:
        query = query.options(*_WITHOUT_DETAILS)
    return [
        HistoryView(history=run, repository_name=name, protocol=protocol)
        for run, name, protocol in session.execute(query)
    ]


def was_started() -> ColumnElement[bool]:
    """Return the SQL condition that nothing of ours kept the run off its repository."""
    return func.coalesce(History.failure_code, "").not_in(NOT_STARTED)


def count_runs(session: Session, choice: RunFilter) -> int:
    """Return the number of runs; `choice` should have a `since`."""
    return session.scalars(select(func.count()).select_from(History).where(*_conditions(choice))).one()


def days_of(session: Session, choice: RunFilter, *, zone: str) -> list[Day]:
    """Return the days on which runs ended, in the time zone, oldest first; `choice` should have a `since`."""
    of_few = choice.among is not None or choice.repository_id is not None
    query = _run_by_run(choice, zone) if of_few else _day_by_day(choice, zone)
    found: dict[date, list[_Part]] = {}
    for status, runs, records, new, changed, day in session.execute(query):
        found.setdefault(day, []).append((status, runs, int(records), int(new), int(changed)))
    return [_day(day, parts) for day, parts in found.items()]


def months_of(days: Sequence[Day]) -> dict[date, Totals]:
    """Return the sums of the days, oldest first, by the first day of their month."""
    months = groupby(days, key=lambda one: one.day.replace(day=1))
    return {
        month: Totals(**{name: sum(getattr(day, name) for day in found) for name in _SUMMED})
        for month, found in ((month, list(found)) for month, found in months)
    }


def sources_of(session: Session, choice: RunFilter) -> list[Source]:
    """Return the sums by repository and format of those with runs, those with most changes first."""
    by = (History.repository_id, Repository.display_name, func.coalesce(History.metadata_prefix, ""))
    query = (
        _sums(choice)
        .join(Repository, Repository.repository_id == History.repository_id)
        .add_columns(*by)
        .group_by(*by)
    )
    found: dict[tuple[int, str, str], list[_Part]] = {}
    for status, runs, records, new, changed, *source in session.execute(query):
        found.setdefault(tuple(source), []).append((status, runs, int(records), int(new), int(changed)))
    sources = [
        Source(repository_id=number, repository_name=name, metadata_prefix=prefix, **_summed(parts))
        for (number, name, prefix), parts in found.items()
        if any(status not in NOT_RUN for status, *_ in parts)
    ]
    return sorted(sources, key=lambda one: (-one.changes, one.repository_name, one.metadata_prefix))


def _run_by_run(choice: RunFilter, zone: str) -> Any:  # noqa: ANN401 a SELECT
    """Return the sums by day and status, computing for each selected run the day on which it ended."""
    day = cast(func.timezone(zone, History.harvest_end_time), Date)
    return _sums(choice).add_columns(day).group_by(day).order_by(day)


def _day_by_day(choice: RunFilter, zone: str) -> Any:  # noqa: ANN401 a SELECT
    """Return the sums by day and status, reading each day through the index on the end time.

    For the runs of all repositories this takes a quarter of the time of `_run_by_run`; for the runs of a few
    repositories it would also read the runs of all the others.
    """
    days = _local_days(choice, zone)
    begin, end = func.timezone(zone, days.c.day), func.timezone(zone, days.c.day + timedelta(days=1))
    of_day = _sums(choice).where(History.harvest_end_time >= begin, History.harvest_end_time < end)
    ended = of_day.lateral("ended")
    return select(*ended.c, cast(days.c.day, Date)).join_from(days, ended, true()).order_by(days.c.day)


def _local_days(choice: RunFilter, zone: str) -> Any:  # noqa: ANN401 an SQL expression
    """Select the days from `since`, or from the first run, to the last run, as midnights in the zone."""
    first = choice.since or select(func.min(History.harvest_end_time)).scalar_subquery()
    last = select(func.max(History.harvest_end_time)).scalar_subquery()
    midnight = func.date_trunc("day", func.timezone(zone, first))
    days = func.generate_series(midnight, func.timezone(zone, last), timedelta(days=1))
    return days.table_valued(column("day", DateTime()), name="days").render_derived()


def _sums(choice: RunFilter) -> Any:  # noqa: ANN401 a SELECT
    """Return the columns that sum runs, records, new and changed ones by status."""
    changed = History.updated_count + History.deleted_count
    query: Any = (
        select(
            History.status,
            func.count().label("runs"),
            func.sum(cast(History.record_count, Double)).label("records"),
            func.sum(cast(History.new_count, Double)).label("new"),
            func.sum(cast(changed, Double)).label("changed"),
        )
        .where(*_conditions(choice))
        .group_by(History.status)
    )
    return query


def pieces_of(session: Session, history_id: int) -> Sequence[History]:
    """Return the rows of the earlier processes of an interrupted and resumed harvest, oldest first."""
    query = select(History).where(History.continued_by == history_id).order_by(History.history_id)
    return session.scalars(query).all()


def usual_of(session: Session, run: History) -> TypicalRun | None:
    """Return what is usual for the same repository, format and set; None if no earlier run was successful."""
    query = (
        select(History)
        .options(*_WITHOUT_DETAILS)
        .where(
            History.repository_id == run.repository_id,
            History.metadata_prefix == run.metadata_prefix,
            func.coalesce(History.set_spec, "") == (run.set_spec or ""),
            History.history_id < run.history_id,
            History.verdict == Verdict.COMPLETE.value,
        )
        .order_by(History.history_id.desc())
        .limit(_LIKE_IT)
    )
    runs = session.scalars(query).all()
    if not runs:
        return None
    seconds = [(one.harvest_end_time - one.harvest_start_time).total_seconds() for one in runs]
    return TypicalRun(
        runs=len(runs), seconds=median(seconds), records=round(median(one.record_count for one in runs))
    )


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """How the harvest of a run can be started again."""

    schedule_id: int | None = None
    """Its schedule, if that still exists."""
    recurring_id: int | None = None
    """Its schedule if that is recurring, else a recurring one of the same repository, format and set."""
    job_id: int | None = None
    """A job that is due or under way for the same repository, format and set."""
    resumes: bool = False
    """Whether the next harvest continues where the run stopped."""
    next_job_id: int | None = None
    """The next job planned for the same repository, format and set, which is not due yet."""
    next_due: datetime | None = None
    """When that job is due (UTC)."""


def next_step(session: Session, run: History) -> NextStep:
    """Return how the harvest can be started again."""
    of_harvest = select(Job.job_id, Job.harvest_start_time).where(
        Job.repository_id == run.repository_id,
        Job.metadata_prefix == run.metadata_prefix,
        func.coalesce(Job.set_spec, "") == (run.set_spec or ""),
    )
    planned = and_(Job.status == JobStatus.SCHEDULED, Job.harvest_start_time > func.now())
    following = of_harvest.where(planned).order_by(Job.harvest_start_time, Job.job_id).limit(1)
    next_job = session.execute(following).one_or_none()
    interrupted = select(Harvest.resumption_token, Harvest.counts, Harvest.run_state).where(
        Harvest.harvest_id == run.harvest_id,
        Harvest.run_parameters.is_not(None),
        Harvest.job_id.is_(None),
    )
    stopped = session.execute(interrupted).one_or_none()
    return NextStep(
        schedule_id=session.scalar(select(RecurringJob.id).where(RecurringJob.id == run.recurring_id)),
        recurring_id=session.scalar(_recurring(run)),
        job_id=session.scalar(of_harvest.where(not_(planned)).order_by(Job.job_id).limit(1)),
        resumes=stopped is not None and made_progress(*stopped),
        next_job_id=next_job.job_id if next_job else None,
        next_due=next_job.harvest_start_time if next_job else None,
    )


def _recurring(run: History) -> Select[int]:
    same = and_(
        RecurringJob.repository_id == run.repository_id,
        RecurringJob.metadata_prefix == run.metadata_prefix,
        func.coalesce(RecurringJob.set_spec, "") == (run.set_spec or ""),
    )
    is_own = RecurringJob.id.is_not_distinct_from(run.recurring_id)
    return (
        select(RecurringJob.id)
        .where(RecurringJob.frequency != "", or_(is_own, same))
        .order_by(is_own.desc(), RecurringJob.id)
        .limit(1)
    )


def _day(day: date, parts: Sequence[_Part]) -> Day:
    present = {status for status, *_ in parts}
    worst = next((status.value for status in WORST_FIRST if status in present), next(iter(present)))
    return Day(day=day, worst=worst, **_summed(parts))


def _summed(parts: Sequence[_Part]) -> dict[str, int]:
    """Return the values of `Totals`."""
    return {
        "runs": sum(runs for status, runs, *_ in parts if status not in NOT_RUN),
        "troubled": sum(runs for status, runs, *_ in parts if status in TROUBLED),
        "records": sum(records for _, _, records, _, _ in parts),
        "new": sum(new for *_, new, _ in parts),
        "changed": sum(changed for *_, changed in parts),
    }


def _conditions(choice: RunFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [History.continued_by.is_(None)]
    if choice.among is not None:
        found.append(History.repository_id.in_(choice.among))
    if choice.repository_id is not None:
        found.append(History.repository_id == choice.repository_id)
    if choice.recurring_id is not None:
        found.append(History.recurring_id == choice.recurring_id)
    if choice.statuses is not None:
        found.append(History.status.in_(choice.statuses))
    if choice.metadata_prefix:
        found.append(History.metadata_prefix == choice.metadata_prefix)
    if choice.since is not None:
        found.append(History.harvest_end_time >= choice.since)
    if choice.until is not None:
        found.append(History.harvest_end_time < choice.until)
    if choice.words:
        found.append(_has_words(choice.words))
    return found


def _has_words(words: str) -> ColumnElement[bool]:
    # The repositories are looked through once, not again for each of their runs.
    named = matching_repositories(words).with_only_columns(Repository.repository_id)
    columns = (History.set_spec, History.failure_reason)
    return or_(
        History.repository_id.in_(named), *(column.icontains(words, autoescape=True) for column in columns)
    )
