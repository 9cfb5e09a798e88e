"""Read and check rows of schedules and jobs: when they are due, and whether their parameters are valid.

Such rows may be written by plain SQL; this module finds the errors that no constraint of the tables can
refuse.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final

from sqlalchemy import bindparam, exists, select
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.harvest.plan import incremental_from
from harvester.harvest.watermark import CompleteHarvest
from harvester.harvest_plan import Surface, carried
from harvester.models import Harvest, History, Repository
from harvester.recognition import check_base_url
from harvester.rules.filters import load_filters
from harvester.rules.normalisation import load_mappings
from harvester.vocabulary import Verdict
from manager.jobs.reasons import Code, WaitReason
from manager.models import Job, RecurringJob
from manager.rule_access import check_rule_access, rule_file_shown
from manager.schedules.frequency import Frequency, parse_frequency, parse_zone
from oai.datestamps import parse_datestamp
from oai.errors import UsageError, ZatvaError, failure_of

_INSTANT: Final = timedelta(microseconds=1)
_YEARS: Final = range(1970, 9000)
_CHOICES: Final = {
    one: tuple(choice.value for choice in one.choices)
    for one in carried(Surface.SCHEDULE)
    if one.choices is not None
}
_PRIORITIES: Final = range(-1000, 1001)
_UNRESERVED: Final = r"[A-Za-z0-9\-_.!~*'()]+"
_PREFIX: Final = re.compile(_UNRESERVED)
_RULES: Final[dict[str, Callable[..., object]]] = {
    "filter_file_path": load_filters,
    "normalize_file_path": load_mappings,
}


@dataclass(frozen=True, kw_only=True)
class SchedulePlan:
    """When a schedule is due."""

    frequency: Frequency | None
    """None for a one-off."""
    zone: tzinfo
    start: datetime
    end: datetime | None
    floor: timedelta = timedelta(0)
    """The least time between two runs."""

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first due time (UTC) after `moment`; None for a one-off and after the end."""
        if self.frequency is None:
            return None
        return self._unless_over(self.frequency.next_after(moment, start=self.start, zone=self.zone))

    def next_run(self, last: datetime, *, not_before: datetime | None = None) -> datetime | None:
        """Return the first due time (UTC) after the run that was due at `last`, and at least the floor later.

        Due times in between are no missed runs: the schedule does not have them.
        """
        after = last + max(self.floor - _INSTANT, timedelta(0))
        return self.next_after(max(after, not_before or after))

    def first(self, *, since: datetime | None = None) -> datetime | None:
        """Return the first due time (UTC); None if the end comes before it.

        Due times of a frequency that are before `since`, when the schedule was added, do not count.
        """
        if self.frequency is None:
            return self._unless_over(self.start)
        return self._unless_over(self.frequency.first(start=self.start, zone=self.zone, since=since))

    def runs(self, *, since: datetime | None = None) -> Iterator[datetime]:
        """Yield the due times (UTC) in order, each at least the floor after the one before."""
        due = self.first(since=since)
        while due is not None:
            yield due
            due = self.next_run(due)

    def is_over(self, moment: datetime) -> bool:
        """Return whether the end is before that moment."""
        return self.end is not None and moment > self.end

    def _unless_over(self, due: datetime) -> datetime | None:
        return None if self.is_over(due) else due


def read_plan(schedule: RecurringJob, *, partner_minutes: float = 0) -> SchedulePlan:
    """Read a row's plan and check its parameters; raises UsageError that says what is wrong.

    `partner_minutes` is the floor of schedules that have an owner.
    """
    for one, allowed in _CHOICES.items():
        value = getattr(schedule, one.column)
        if one.stored is not None and value not in (*allowed, None):
            listed = ", ".join(map(str, allowed))
            raise UsageError(f"{one.column} {value!r}: allowed are {listed}")
    if schedule.priority not in (*_PRIORITIES, None):
        raise UsageError(f"priority {schedule.priority!r}: give a number from -1000 to 1000")
    _check_times(schedule)
    _check_parameters(schedule)
    text = (schedule.frequency or "").strip()
    return SchedulePlan(
        frequency=parse_frequency(text) if text else None,
        zone=parse_zone(schedule.time_zone),
        start=schedule.start_date,
        end=schedule.end_date,
        floor=timedelta(minutes=partner_minutes if schedule.owner else 0),
    )


def check_surroundings(session: Session, row: RecurringJob | Job, data: Path | None) -> None:
    """Check what the row refers to: the repository's base URL, and the rule files.

    Raises UsageError that says what is wrong. Rule files must have the same path on every machine that runs
    managers or workers; `data` is the folder below which those of organisations are.
    """
    repository = session.get(Repository, row.repository_id)
    if repository is not None:
        check_base_url(repository.base_url, repository.protocol)
        check_access(repository, row)
    check_rule_access(session, row, data)
    for name in _RULES:
        path = getattr(row, name)
        if path and not Path(path).is_absolute():
            raise UsageError(
                "%(name)s %(path)s: give the absolute path, because workers run in other folders",
                name=name,
                path=repr(path),
            )
        if path:
            check_rule_file(name, path, rule_file_shown(path, data))


def check_rule_file(name: str, path: str, shown: str) -> None:
    """Raise UsageError if the rule file of the column `name` cannot be used; the message calls it `shown`."""
    try:
        if Path(path).is_fifo():  # To open it would wait until another process does.
            raise ValueError("a named pipe; name a file")  # noqa: TRY301 like the errors of the file
        _RULES[name](Path(path), source=shown)
    except (ZatvaError, OSError, ValueError) as error:
        raise UsageError(f"{name} {shown!r}: {str(error).removeprefix(f'{shown}: ')}") from error


def check_job(session: Session, job: Job, data: Path | None) -> WaitReason | None:
    """Return why a job cannot be run; None if it can."""
    try:
        _check_parameters(job)
        check_surroundings(session, job, data)
    except UsageError as error:
        return WaitReason(
            code=Code.SET_ASIDE, facts={"text": str(error), "failure": failure_of(error).as_json()}
        )
    return None


def check_access(repository: Repository, row: RecurringJob | Job) -> None:
    """Raise UsageError if the repository's protocol does not support the row's selection."""
    access = access_of(repository.protocol)
    access.check(row.set_spec)
    access.check_dates(row.harvest_from, row.harvest_to, row.slice)


def _check_parameters(row: RecurringJob | Job) -> None:
    """Check the columns that schedules and jobs share; None means a column's default."""
    if not _PREFIX.fullmatch(row.metadata_prefix):
        raise UsageError(f"metadata_prefix {row.metadata_prefix!r}: use only letters, digits and -_.!~*'()")
    if row.files_per_dir is not None and row.files_per_dir < 1:
        raise UsageError(f"files_per_dir {row.files_per_dir!r}: give 1 or more")
    for one, allowed in _CHOICES.items():
        # The tables' constraints check the other columns.
        if one.stored is None and (value := getattr(row, one.column)) and value not in allowed:
            raise UsageError(f"{one.column} {value!r}: give {', '.join(map(str, allowed))} or none")
    ends = {}
    for name in ("harvest_from", "harvest_to"):
        try:
            ends[name] = parse_datestamp(getattr(row, name) or "1970-01-01")
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
    if row.harvest_from and row.harvest_to and ends["harvest_to"].last_second < ends["harvest_from"].moment:
        raise UsageError(
            "harvest_to %(harvest_to)s is before harvest_from %(harvest_from)s",
            harvest_to=repr(row.harvest_to),
            harvest_from=repr(row.harvest_from),
        )


def _check_times(schedule: RecurringJob) -> None:
    for name in ("start_date", "end_date"):
        value = getattr(schedule, name)
        if value is not None and (value.tzinfo is None or value.year not in _YEARS):
            raise UsageError(
                "%(name)s %(value)s: give a time with a time zone, in the years 1970 to 8999",
                name=name,
                value=str(value),
            )
    if schedule.end_date is not None and schedule.end_date < schedule.start_date:
        raise UsageError(
            "the end, %(end_date)s, is before the start, %(start_date)s",
            end_date=schedule.end_date,
            start_date=schedule.start_date,
        )


def is_begun(session: Session, recurring_id: int) -> bool:
    """Return whether one of the schedule's harvests was complete."""
    complete = exists().where(History.recurring_id == recurring_id, History.verdict == Verdict.COMPLETE.value)
    return bool(session.scalar(select(complete)))


_COMPLETE: Final = (
    select(
        Harvest.watermark,
        Harvest.complete_from,
        Harvest.restarts,
        Repository.granularity,
        Repository.protocol,
    )
    .join(Repository, Repository.repository_id == Harvest.repository_id)
    .where(
        Harvest.repository_id == bindparam("repository"),
        Harvest.metadata_prefix == bindparam("prefix"),
        Harvest.set_spec == bindparam("set"),
    )
)


def computed_from(session: Session, job: Job, overlap: float, floor: str | None = None) -> str | None:
    """Return the `from` that the job harvests if its row names none: the watermark less `overlap` seconds.

    Before a complete harvest that reaches back to `floor`, the schedule's `harvest_from`, that is the floor
    itself. None for a full harvest, and for a repository that is harvested by query.
    """
    if not job.incremental:
        return None
    complete, granularity = _complete_harvest(session, job)
    watermark = complete.since(floor)
    if watermark is None:
        return complete.lower_bound(floor)
    computed = incremental_from(watermark, granularity, overlap)
    # A range that ended before is not a valid one; the repository answers it as it always has.
    return computed if not job.harvest_to or computed[: len(job.harvest_to)] <= job.harvest_to else None


def _complete_harvest(session: Session, job: Job) -> tuple[CompleteHarvest, str | None]:
    """Return what a job continues, and the repository's granularity."""
    harvest = {"repository": job.repository_id, "prefix": job.metadata_prefix, "set": job.set_spec or ""}
    found = session.execute(_COMPLETE, harvest).one_or_none()
    if found is None or access_of(found.protocol).query is not None:
        return CompleteHarvest(), None
    complete = CompleteHarvest(
        watermark=found.watermark, complete_from=found.complete_from, restarts=found.restarts
    )
    return complete, found.granularity


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """That the harvester computes the `from` of a job, from the last complete harvest back to `floor`."""

    floor: str | None
    """The schedule's `harvest_from`; None if the harvest must have requested all records."""


def bring_up_to_date(session: Session, job: Job, overlap: float) -> Continuation | None:
    """Write the `from` of a job that begins now; return None if the harvester is to take it from the row.

    A watermark that was removed since the job was planned (`zatva store rebuild`) asks for a full harvest, or
    for one from the floor.
    """
    computed, floor, starts = computed_from(session, job, overlap), None, False
    if computed is None and job.incremental and job.recurring_id is not None:
        schedule = session.get_one(RecurringJob, job.recurring_id)
        if is_begun(session, schedule.id):
            floor = schedule.harvest_from or None
            starts = _complete_harvest(session, job)[0].since(floor) is None
            computed = computed_from(session, job, overlap, floor)
    if starts or job.harvest_from in {None, "", computed, floor}:
        job.harvest_from = computed
        return Continuation(floor=floor)
    return None
