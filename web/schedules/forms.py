"""The form that plans a harvest, validated field by field, and its description in words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from zoneinfo import ZoneInfo

from aiohttp import web
from pydantic import Field, ValidationInfo, create_model, field_validator, model_validator
from sqlalchemy.orm import Session

from harvester.access import Access, SelectionError
from harvester.harvest_plan import PREFIX, Parameter, Surface, carried
from harvester.rules.filters import load_filters
from harvester.rules.normalisation import load_mappings
from harvester.vocabulary import RuleKind
from manager.models import Job, RecurringJob
from manager.rule_access import RuleAccessError
from manager.schedules.frequency import parse_frequency, parse_zone
from manager.schedules.limits import LimitError
from manager.schedules.plan import SchedulePlan, computed_from, is_begun
from manager.schedules.what_if import WhatIf, due_times, what_if
from oai.datestamps import parse_datestamp, utc_now
from oai.errors import UsageError, ZatvaError
from oai.owners import owner_of
from web.auth.access import visible_repositories, who_asks
from web.schedules.rules import RULES, rule_chosen
from web.schedules.timing import NO_TIME, NO_WEEKDAY, When, often, timing_in, weekday_names
from web.site.forms import Form, FormModel, StaleFormError, empty_is_none, read_time
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of

FURTHER: Final = [one for one in carried(Surface.FORM) if one.label]
"""Parameters that pages lay out as declared."""
_TIMES: Final = ("start_date", "end_date")
_WALL_CLOCK: Final = "%Y-%m-%dT%H:%M"
_NO_FLOOR: Final = timedelta(0)
_WEEK_OF_HOURS: Final = 7 * 24
_SHOWN_RUNS: Final = 3


def _form_field(one: Parameter) -> tuple[Any, Any]:
    """Return type and field in pydantic's form."""
    kind: Any = str if one.kind is Path else one.kind
    default, limits = one.form, dict(one.limits)
    if one.choices is not None and kind is int:
        limits |= {"ge": min(one.choices), "le": max(one.choices)}
    elif one.choices is not None:
        kind = one.choices
        default = None if default is None else kind(default)
    may_be_null = default is None or one.stored is None
    return kind | None if may_be_null else kind, Field(default, description=one.about, **limits)


class TimedForm(FormModel):
    """A form with the fields `frequency` and `time_zone`; our pages send what `timing.html` offers."""

    @model_validator(mode="before")
    @classmethod
    def _kind_is_frequency(cls, values: Any) -> Any:  # noqa: ANN401 whatever the form sends
        """Compose the frequency from the kind and its details, which only our pages send."""
        if isinstance(values, Mapping) and values.get("when") not in {None, When.EXPERT}:
            return {**values, "frequency": timing_in(values).frequency}
        return values

    @field_validator("frequency", check_fields=False)
    @classmethod
    def _frequency_is_known(cls, value: str | None) -> str:
        if value == NO_WEEKDAY:
            raise ValueError(_("Choose at least one day of the week."))
        if value == NO_TIME:
            raise ValueError(_("Enter a time, such as 02:30."))
        if value:
            _as_value_error(parse_frequency, value)
        return value or ""

    @field_validator("time_zone", check_fields=False)
    @classmethod
    def _zone_is_known(cls, value: str) -> str:
        _as_value_error(parse_zone, value or "UTC")
        return value or "UTC"


if TYPE_CHECKING:
    # Fields that users of a validated form may rely on; `harvester.harvest_plan` declares them.

    class _Parameters(TimedForm):
        metadata_prefix: str
        set_spec: str | None
        frequency: str
        time_zone: str
        start_date: datetime | None
        end_date: datetime | None
        harvest_from: str | None
        incremental: bool
        filter_file_path: str | None
        normalize_file_path: str | None

else:
    _Parameters = create_model(
        "_Parameters", __base__=TimedForm, **{one.column: _form_field(one) for one in carried(Surface.FORM)}
    )


class PlanForm(_Parameters):
    """What to harvest, when and how; an empty text means what the field's hint says."""

    _empty_is_none = empty_is_none(*(one.column for one in carried(Surface.FORM) if one.form is None))

    @field_validator(*_TIMES, mode="before")
    @classmethod
    def _text_is_a_time(cls, value: object) -> object:
        # What a Python function hands on must be a `datetime`: the strict validation of bodies takes no text.
        return (read_time(value.strip()) or value) if isinstance(value, str) else value

    @field_validator("priority", mode="before")
    @classmethod
    def _empty_is_zero(cls, value: object) -> object:
        return 0 if isinstance(value, str) and not value.strip() else value

    @field_validator("harvest_from", "harvest_to")
    @classmethod
    def _is_a_datestamp(cls, value: str | None) -> str | None:
        try:
            return value and str(parse_datestamp(value))
        except ValueError:
            raise ValueError(_("Enter a day, or a time such as 2026-01-31T12:00:00Z.")) from None

    @field_validator("filter_file_path")
    @classmethod
    def _filters_are_good(cls, value: str | None, info: ValidationInfo) -> str | None:
        return _rule_file(value, info, RuleKind.FILTER, load_filters)

    @field_validator("normalize_file_path")
    @classmethod
    def _mappings_are_good(cls, value: str | None, info: ValidationInfo) -> str | None:
        return _rule_file(value, info, RuleKind.NORMALISE, load_mappings)

    @model_validator(mode="after")
    def _times_are_local(self) -> Self:
        """Give start and end the schedule's time zone: the fields contain local times."""
        zone = ZoneInfo(self.time_zone)
        local = {
            name: value.replace(tzinfo=zone)
            for name in _TIMES
            if (value := getattr(self, name)) is not None and value.tzinfo is None
        }
        return self.model_copy(update=local) if local else self

    def columns(self) -> dict[str, Any]:
        """Return the columns of a new schedule; an empty start is set by the database's clock."""
        columns = self.model_dump()
        if columns["start_date"] is None:
            del columns["start_date"]
        return columns

    def next_runs(self, since: datetime, floor: timedelta = _NO_FLOOR) -> list[datetime]:
        """Return the next three run times (UTC) at most, at least `floor` apart; empty for a one-off."""
        return list(islice(self._runs(since, floor), _SHOWN_RUNS)) if self.frequency else []

    def times_within_week(self, since: datetime, floor: timedelta = _NO_FLOOR) -> list[datetime]:
        """Return the run times (UTC) of the coming week, at least `floor` apart; for a one-off, the start."""
        if not self.frequency:
            return [max(self.start_date or since, since)]
        return due_times(islice(self._runs(since, floor), _WEEK_OF_HOURS), since)

    def _runs(self, since: datetime, floor: timedelta) -> Iterator[datetime]:
        plan = SchedulePlan(
            frequency=parse_frequency(self.frequency),
            zone=ZoneInfo(self.time_zone),
            # An interval without a start begins now, with its first run.
            start=self.start_date or since,
            end=self.end_date,
            floor=floor,
        )
        return plan.runs(since=since)

    def in_words(self, access: Access) -> str:
        """Return the plan as a sentence, for a repository with the given capabilities."""
        if not self.set_spec:
            what = _("the whole repository in the format %(prefix)s")
        elif access.query is None:
            what = _("the set %(set)s in the format %(prefix)s")
        else:
            what = _("the records found by the query %(set)s in the format %(prefix)s")
        what %= {"set": self.set_spec, "prefix": self.metadata_prefix}
        if not self.frequency:
            return _("Once, on request: %(what)s.") % {"what": what}
        changes = self.incremental and access.query is None
        how = _("only changed records") if changes else _("all records each time")
        return _("%(often)s (%(zone)s): %(what)s, %(how)s.") % {
            "often": _capital(often(self.frequency)),
            "zone": self.time_zone,
            "what": what,
            "how": how,
        }


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


class ScheduleForm(PlanForm):
    """A plan for one repository."""

    repository_id: int = Field(ge=1, le=999_999_999)
    metadata_prefix: str = Field(pattern=PREFIX, max_length=60)


def values_of(schedule: RecurringJob) -> dict[str, str]:
    """Return the form values of a schedule."""
    values: dict[str, Any] = {
        name: getattr(schedule, name) for name in ScheduleForm.model_fields if name != "repository_id"
    }
    for name in _TIMES:
        moment = values[name]
        values[name] = moment.astimezone(ZoneInfo(schedule.time_zone)).strftime(_WALL_CLOCK) if moment else ""
    for one in carried(Surface.FORM):
        if one.kind is bool:
            yes, no = ("true", "false") if one.form else ("yes", "")
            values[one.column] = yes if values[one.column] else no
    return {name: "" if value is None else str(value) for name, value in values.items()}


def refused(form: Form, error: UsageError | StaleFormError) -> Form:
    """Return the form to show again after a change failed; a frequency that others chose is in words."""
    if isinstance(error, UsageError):
        return form.with_error(field_of(error), error_text(error))
    if "frequency" not in error.form.errors:
        return error.form
    now = _("Now: %(value)s") % {"value": often(str(error.form.stored["frequency"]))}
    return error.form.with_error("frequency", now)


def unchanged_times(schedule: RecurringJob, columns: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """Return the stored times whose fields are as they were shown, by column.

    The fields contain no seconds, and a time of the repeated hour could be in either.
    """
    if columns["time_zone"] != schedule.time_zone:
        return {}
    shown = values_of(schedule)
    return {name: getattr(schedule, name) for name in _TIMES if form.values.get(name) == shown[name]}


class SampleForm(FormModel):
    """Number of records of a sample."""

    records: int = Field(ge=1, le=100_000)


SAMPLE: Final = Form(values={"records": "10"})
"""The form of a sample before anything is entered."""


async def what_it_means(
    request: web.Request,
    repository_id: int,
    plan: ScheduleForm,
    dues: Sequence[datetime],
    schedule: RecurringJob | None,
) -> WhatIf:
    """Return what a plan with these due times would mean, as far as the user may know of other schedules."""
    return await database_of(request).run(
        what_if,
        repository_id,
        plan.metadata_prefix,
        plan.set_spec,
        dues,
        ZoneInfo(plan.time_zone),
        schedule=schedule.id if schedule else None,
        among=visible_repositories(who_asks(request)),
    )


async def changes_since(
    request: web.Request, repository_id: int, plan: ScheduleForm, schedule: RecurringJob | None
) -> str | None:
    """Return the `from` of a harvest of changes; None if the next harvest does not request changes."""
    # Without `harvest_to`, which must not hide a `from` that is after it.
    job = Job(
        repository_id=repository_id,
        metadata_prefix=plan.metadata_prefix,
        set_spec=plan.set_spec,
        incremental=plan.incremental,
    )
    overlap, floor = request.config_dict[SETTINGS].harvester.overlap, plan.harvest_from or None

    def found(session: Session) -> str | None:
        begun = schedule is not None and is_begun(session, schedule.id)
        return computed_from(session, job, overlap, floor) if begun or floor is None else None

    return await database_of(request).run(found)


async def is_owned(request: web.Request, repository_id: int, schedule: RecurringJob | None) -> bool:
    """Return whether the schedule, or a new one of the repository, belongs to an organisation."""
    if schedule is not None:
        return bool(schedule.owner)
    return await database_of(request).run(owner_of, repository_id) is not None


def run_spacing(
    request: web.Request, schedule: RecurringJob | None, *, owned: bool
) -> tuple[datetime, timedelta]:
    """Return the earliest time (UTC) of the next run, and the least time between two runs."""
    now = utc_now()
    floor = timedelta(minutes=request.config_dict[SETTINGS].manager.partner_minutes if owned else 0)
    # A change removes a planned job, as if it had been due now: the next one keeps the distance from that.
    last = schedule.last_due if schedule else None
    return (now if last is None else max(now, min(last, now) + floor)), floor


def layouts() -> list[tuple[str, str]]:
    """Return how record files are arranged, with labels."""
    return [("true", _("In folders by identifier")), ("false", _("All in one folder"))]


def partner_minutes(request: web.Request) -> float | None:
    """Return the minutes between two runs that the user's plans must leave; None for administrators."""
    if who_asks(request).sees_everything:
        return None
    minutes: float = request.config_dict[SETTINGS].manager.partner_minutes
    return minutes


def field_of(error: UsageError, otherwise: str = "frequency") -> str:
    """Return the field at which to show an error of the plan as a whole."""
    if isinstance(error, LimitError):
        return error.field
    if isinstance(error, RuleAccessError):
        return error.column
    return "set_spec" if isinstance(error, SelectionError) else otherwise


def methods() -> list[tuple[str, str]]:
    """Return the harvest methods, with labels."""
    return [
        ("0", _("ListRecords: whole pages of records")),
        ("1", _("ListIdentifiers, then GetRecord for each record: for repositories whose lists break off")),
    ]


def levels() -> list[tuple[str, str]]:
    """Return the validation levels, with labels."""
    return [
        ("2", _("Loose: skip invalid records and report them")),
        ("0", _("Strict: stop at XML that is not well-formed")),
        ("1", _("Very strict: each record must fit its schema")),
    ]


def slices() -> list[tuple[str, str]]:
    """Return the ways of slicing a list, with labels."""
    return [
        ("", _("Not divided")),
        ("month", _("Month by month: if lists break off before the end")),
        ("day", _("Day by day: if lists break off even month by month")),
    ]


def overlaps() -> list[tuple[str, str]]:
    """Return what may happen to a run that is due while the previous one is running, with labels."""
    return [
        ("skip", _("Skip it")),
        ("queue", _("Start it when the last run has ended")),
    ]


def options() -> dict[str, Any]:
    """Return the options of the form's choices and its further parameters, by their names in its template."""
    return {
        "methods": methods(),
        "levels": levels(),
        "slices": slices(),
        "overlaps": overlaps(),
        "layouts": layouts(),
        "weekdays": weekday_names(),
        "further": FURTHER,
    }


def _rule_file(
    value: str | None, info: ValidationInfo, kind: RuleKind, load: Callable[[Path], object]
) -> str | None:
    """Return the absolute path of one of the user's rules, or of any usable file in the data folder."""
    if value is None:
        return None
    context = info.context or {}
    if (own := context.get(RULES)) is not None:
        return rule_chosen(value, kind, own)
    root = Path(context["data"]).resolve()
    path = (root / value).resolve()
    # Errors reveal a file's existence and content, so paths outside the directory are rejected unread.
    if not path.is_relative_to(root):
        raise ValueError(
            _("Rule files must be in the data folder; enter a path below it, such as rules/books.xml.")
        )
    _as_value_error(load, path)
    return str(path)


def _as_value_error(check: Callable[[Any], object], value: object) -> None:
    try:
        check(value)
    except ZatvaError as error:
        raise ValueError(error_text(error)) from None
