"""Handlers of `zatva schedule`: what to harvest, from when on, and how often."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy.orm import Session

from harvester.harvest_plan import Surface, carried
from harvester.repositories import check_repositories
from manager.job_commands import job_row
from manager.jobs.views import find_job
from manager.models import Job, RecurringJob, in_plain_words
from manager.rule_access import RULE_COLUMNS, check_rule_access
from manager.schedules import service as schedules
from manager.schedules.plan import check_rule_file, read_plan
from manager.schedules.service import ScheduleView, find_schedules, find_view
from manager.schedules.what_if import forecast
from oai.cli import Invocation
from oai.console import counted
from oai.datestamps import utc_now
from oai.errors import UsageError, required
from oai.models import columns_of

_SCHEDULE_COLUMNS = {
    "id": "schedule",
    "repository_name": "repository",
    "metadata_prefix": "format",
    "set_spec": "set",
    "frequency": "frequency",
    "time_zone": "zone",
    "state_word": "state",
    "next_due": "next due",
    "state_reason": "because",
}
_SHOWN_RUNS: Final = 3
_OPTIONS: Final = {
    one.column: one.schedule.flags.split()[0] for one in carried(Surface.SCHEDULE_COMMAND) if one.schedule
}
_COLUMN: Final = re.compile("|".join(rf"\b{column}\b" for column in _OPTIONS if "_" in column))
_MOMENTS: Final = frozenset(one.column for one in carried(Surface.SCHEDULE_COMMAND) if one.kind is datetime)


@contextmanager
def _errors_with_options() -> Iterator[None]:
    """Name options in errors, where the API and the manager name columns."""
    try:
        yield
    except UsageError as error:
        error.args = (_COLUMN.sub(lambda found: _OPTIONS[found[0]], str(error)),)
        raise


@_errors_with_options()
def add_schedule(invocation: Invocation) -> None:
    """Add a schedule that harvests a repository."""
    with invocation.session() as session:
        schedule = schedules.new_schedule(session, **_given(invocation))
        check_rule_access(session, schedule, invocation.settings.data)
        if invocation.arguments.dry_run:
            _show_forecast(invocation, session, schedule)
            return
        session.add(schedule)
        session.commit()
        invocation.about(schedule.id)
        invocation.console.result(columns_of(schedule), f"schedule {schedule.id} added")


def _show_forecast(invocation: Invocation, session: Session, schedule: RecurringJob) -> None:
    minutes = invocation.settings.manager.partner_minutes
    dues, found = forecast(session, schedule, now=utc_now(), partner_minutes=minutes)
    clashes = [
        f"  {one.at:%Y-%m-%d %H:%M}Z schedule {one.recurring_id}: {one.repository_name}"
        + (" (the same repository: one of both waits)" if one.same_repository else "")
        for one in found.clashes
    ]
    size = found.usual
    lines = [
        f"not added; it would run {', '.join(f'{due:%Y-%m-%d %H:%M}Z' for due in dues[:_SHOWN_RUNS])}"
        if dues
        else "not added; it would not run",
        f"a run takes about {size.seconds:,.0f} s, {counted(size.requests, 'request')},"
        f" {counted(size.records, 'record')}"
        if size
        else "how long a run takes is not known before the first complete run",
        *(["at the same time, from the same server:", *clashes] if clashes else []),
        *([f"the server is quickest from {found.quickest}:00"] if found.quickest is not None else []),
    ]
    facts = {**asdict(found), "complete_runs": found.runs, "quickest": found.quickest}
    invocation.console.result({**facts, "runs": dues[:_SHOWN_RUNS]}, "\n".join(lines))


@_errors_with_options()
def edit_schedule(invocation: Invocation) -> None:
    """Change the given columns; a running harvest continues unchanged."""
    recurring_id = invocation.arguments.recurring_id
    columns = {name: None if value == "" else value for name, value in _given(invocation).items()}
    if not columns:
        raise UsageError(
            f"schedule edit {recurring_id}: no changes given; give an option such as --frequency, "
            "or see `zatva schedule edit --help`"
        )
    with invocation.session() as session:
        schedule = schedules.change_schedule(session, recurring_id, **columns)
        check_rule_access(session, schedule, invocation.settings.data)
        session.commit()
        invocation.console.result(columns_of(schedule), f"schedule {recurring_id} changed")


def show_schedule(invocation: Invocation) -> None:
    """Show all details of a schedule, and when it is due next."""
    with invocation.session() as session:
        view = find_view(session, invocation.arguments.recurring_id)
        facts = _row(view)
    facts["runs"] = []
    # Without a next run, the row may be one that cannot be read.
    if view.next_due is not None:
        plan = read_plan(view.schedule, partner_minutes=invocation.settings.manager.partner_minutes)
        due = max(view.next_due, utc_now())
        further = [due := found for _ in range(_SHOWN_RUNS - 1) if (found := plan.next_run(due)) is not None]
        facts["runs"] = [view.next_due, *further]
    invocation.console.facts(facts, facts | {"state_word": in_plain_words(facts["state_word"])})


def list_schedules(invocation: Invocation) -> None:
    """List schedules."""
    with invocation.session() as session:
        check_repositories(session, invocation.arguments.repository)
        views = find_schedules(session, repository_id=invocation.arguments.repository)
        rows = [_row(view) for view in views]
    if not invocation.console.as_json:
        rows = [row | {"state_word": in_plain_words(row["state_word"])} for row in rows]
    invocation.console.table(rows, _SCHEDULE_COLUMNS, empty="no schedules; add one with `zatva schedule add`")


def remove_schedule(invocation: Invocation) -> None:
    """Remove a schedule and its planned jobs."""
    _change_schedule(invocation, schedules.remove_schedule, "removed")


def pause_schedule(invocation: Invocation) -> None:
    """Pause a schedule: it makes no jobs until it is resumed, and those that have not begun are removed."""
    recurring_id = invocation.arguments.recurring_id
    with invocation.transaction() as session:
        removed = schedules.pause_schedule(session, recurring_id).jobs_removed
    facts = {"id": recurring_id, "paused": True, "jobs_removed": removed}
    jobs = f", {counted(removed, 'planned job')} removed" if removed else ""
    invocation.console.result(facts, f"schedule {recurring_id}: paused{jobs}")


def resume_schedule(invocation: Invocation) -> None:
    """Resume a paused schedule."""
    _change_schedule(invocation, schedules.resume_schedule, "resumed")


def run_schedule(invocation: Invocation) -> None:
    """Harvest now, in addition to the schedule."""
    with invocation.session() as session:
        job = schedules.run_now(session, invocation.arguments.recurring_id)
        facts = _job_facts(session, job)
        session.commit()
        invocation.about(invocation.arguments.recurring_id, job_id=job.job_id)
        invocation.console.result(facts, f"job {job.job_id}: due now")


def sample_schedule(invocation: Invocation) -> None:
    """Harvest a few records now, in addition to the schedule."""
    arguments = invocation.arguments
    with invocation.session() as session:
        job = schedules.sample_schedule(session, arguments.recurring_id, arguments.records)
        facts = _job_facts(session, job)
        session.commit()
        invocation.about(arguments.recurring_id, job_id=job.job_id, records=arguments.records)
        words = f"job {job.job_id}: due now, ends after {counted(arguments.records, 'record')}"
        invocation.console.result(facts, words)


def _job_facts(session: Session, job: Job) -> dict[str, Any]:
    """Return a job's columns, with what `job list` shows of it."""
    session.flush()
    view = required(find_job(session, job.job_id), "it has just been added")
    return {**job_row(view), **columns_of(job)}


def _change_schedule(invocation: Invocation, change: Callable[[Session, int], object], done: str) -> None:
    recurring_id = invocation.arguments.recurring_id
    with invocation.transaction() as session:
        change(session, recurring_id)
    invocation.console.result({"id": recurring_id, done: True}, f"schedule {recurring_id}: {done}")


def _row(view: ScheduleView) -> dict[str, Any]:
    """Return a schedule as tables and JSON show it."""
    return {
        **columns_of(view.schedule),
        "schedule_id": view.schedule.id,
        "repository_name": view.repository_name,
        "state_word": view.state,
        "next_due": view.next_due,
    }


def _given(invocation: Invocation) -> dict[str, Any]:
    """Return the columns whose options were given, or which have a default."""
    given = {name: value for name, value in vars(invocation.arguments).items() if value is not None}
    data = invocation.settings.data
    return {name: _read(name, value, data) for name, value in given.items() if name in schedules.CHANGEABLE}


def _read(name: str, value: Any, data: Path) -> Any:  # noqa: ANN401 each column's own type
    """Return a column's value from its option; an empty value stays empty."""
    if value and name in _MOMENTS:
        return _moment(value)
    return _rule_file(name, value, data) if value and name in RULE_COLUMNS else value


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a valid time; write it as 2026-01-31T02:30+01:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _rule_file(name: str, path: str, data: Path) -> str:
    """Return the absolute path of a rule file in the current folder or else in the data folder.

    It is absolute because the manager may run in another folder. Raises UsageError if the file is not usable.
    """
    places = [str(folder / path) for folder in (Path.cwd(), data.resolve())]
    # Path.exists raises an error for a folder that may not be entered.
    chosen = next((place for place in places if os.path.exists(place)), places[0])  # noqa: PTH110
    check_rule_file(name, chosen, chosen)
    return chosen
