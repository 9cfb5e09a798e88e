"""What the form of a schedule begins with: suggestions for a new one, or the schedule as it is."""

from typing import Any, Final
from zoneinfo import ZoneInfo

from harvester.access import access_of
from harvester.doctor.findings import Profile
from harvester.plan import Surface, carried
from manager.models import RecurringJob
from web.catalogue import Details
from web.planning import ScheduleForm
from web.zones import here

_WALL_CLOCK: Final = "%Y-%m-%d %H:%M"


def suggested_values(details: Details) -> dict[str, str]:
    """What the form for a new schedule begins with: the examination's profile where there is one."""
    formats = [row.metadata_prefix for row in details.formats]
    access = access_of(details.repository.protocol)
    usual = access.usual_format
    prefix = usual if usual in formats or not formats else formats[0]
    profile = Profile.from_json(details.repository.profile) or Profile(metadata_prefix=prefix)
    return {
        "metadata_prefix": profile.metadata_prefix,
        "frequency": "daily at 02:30",
        "time_zone": here().key,
        "incremental": "yes" if profile.incremental and access.query is None else "",
        "validation": str(profile.validation),
        "method": str(profile.method),
        "slice": profile.slice or "",
        "parse_id": "true",
    }


def values_of(schedule: RecurringJob) -> dict[str, str]:
    """The schedule as its form shows it."""
    values: dict[str, Any] = {
        name: getattr(schedule, name) for name in ScheduleForm.model_fields if name != "repository_id"
    }
    for name in ("start_date", "end_date"):
        moment = values[name]
        values[name] = moment.astimezone(ZoneInfo(schedule.time_zone)).strftime(_WALL_CLOCK) if moment else ""
    for one in carried(Surface.FORM):
        if one.kind is bool:
            yes, no = ("true", "false") if one.form else ("yes", "")
            values[one.column] = yes if values[one.column] else no
    return {name: "" if value is None else str(value) for name, value in values.items()}
