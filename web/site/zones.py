"""The time zone of a request, in which its pages show times and its plots and filters count days.

It is the zone that the user chose, otherwise that of the browser, otherwise that of the installation
(`web.time_zone`).
"""

from datetime import UTC, date, datetime, time
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from manager.schedules.frequency import parse_zone
from oai.datestamps import utc_now
from oai.errors import UsageError
from web.site.i18n import _, zone
from web.site.keys import SETTINGS

_UTC: Final = "UTC"
_COOKIE: Final = "zatva_zone"
"""Set by `zatva.js`."""
_AREAS: Final = frozenset(
    {
        "Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian",
        "Pacific",
    }
)  # fmt: skip
"""Other names are obsolete spellings, or fixed offsets without daylight saving time."""


@web.middleware
async def zones(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set the browser's time zone if its script has stored one, otherwise the installation's."""
    found = request.cookies.get(_COOKIE)
    live_in(found if found in _names() else request.config_dict[SETTINGS].web.time_zone)
    return await handler(request)


def live_in(name: str | None) -> None:
    """Set the time zone of this request; a zone unknown on this machine is ignored."""
    try:
        found = parse_zone(name) if name else None
    except UsageError:
        return
    if found is not None:
        zone.set(found)


def here() -> ZoneInfo:
    """Return the time zone of this request."""
    return zone.get()


def local(moment: datetime) -> datetime:
    """Return the time in the reader's zone."""
    return moment.astimezone(here())


def today() -> date:
    """Return the present date in the reader's zone."""
    return local(utc_now()).date()


def is_convertible(day: date) -> bool:
    """Return whether the day and those near it exist in all zones: not in the first and the last year."""
    return date.min.year < day.year < date.max.year


def midnight(day: date) -> datetime:
    """Return the start of the day (UTC) in the reader's zone, even if its clock skips or repeats it."""
    return datetime.combine(day, time(), here()).astimezone(UTC)


def zone_choices() -> list[tuple[str, str]]:
    """Return the zones to choose from: the browser's, UTC, then all others by name."""
    return [("", _("browser's time zone")), *((name, name) for name in _names())]


@cache
def _names() -> tuple[str, ...]:
    return (_UTC, *sorted(name for name in available_timezones() if name.partition("/")[0] in _AREAS))


def known_zone(session: Session, name: str) -> str:
    """Return the name if both this program and the database know the zone: the database counts days by it.

    Raises UsageError otherwise.
    """
    known = parse_zone(name).key
    try:
        with session.begin_nested():
            session.execute(select(func.timezone(known, func.now())))
    except DBAPIError:
        words = _(
            "the database does not know the time zone %(name)s; choose another, such as the zone "
            "of a nearby city"
        )
        raise UsageError(words % {"name": repr(known)}) from None
    return known
