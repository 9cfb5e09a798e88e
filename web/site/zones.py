"""The time zone of a request: whose clock its pages show, and whose days its plots and filters count.

It is the one that the user chose, or else that of the installation (`web.time_zone`).
"""

from contextvars import ContextVar
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
from web.site.i18n import _
from web.site.keys import SETTINGS

_UTC: Final = "UTC"
_AREAS: Final = frozenset(
    {
        "Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian",
        "Pacific",
    }
)  # fmt: skip
"""Names beside these are old spellings, or shifts that know no summer."""

zone: ContextVar[ZoneInfo] = ContextVar("zone", default=ZoneInfo(_UTC))  # noqa: B039 never changed


@web.middleware
async def zones(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Live in the installation's time zone, until it is known whose the request is."""
    live_in(request.config_dict[SETTINGS].web.time_zone)
    return await handler(request)


def live_in(name: str | None) -> None:
    """Let the times of this request be those of the zone; one that this machine lacks changes nothing."""
    try:
        found = parse_zone(name) if name else None
    except UsageError:
        return
    if found is not None:
        zone.set(found)


def here() -> ZoneInfo:
    """The zone of this request."""
    return zone.get()


def local(moment: datetime) -> datetime:
    """The moment on the reader's clock."""
    return moment.astimezone(here())


def today() -> date:
    """The reader's day."""
    return local(utc_now()).date()


def midnight(day: date) -> datetime:
    """When the reader's day begins (UTC), also where its clock skips or repeats that hour."""
    return datetime.combine(day, time(), here()).astimezone(UTC)


def zone_choices(installation: str) -> list[tuple[str, str]]:
    """The zones that a user may choose from: the installation's, UTC, then all by their names."""
    usual = _("default of this installation: %(zone)s") % {"zone": installation}
    return [("", usual), *((name, name) for name in _names())]


@cache
def _names() -> tuple[str, ...]:
    return (_UTC, *sorted(name for name in available_timezones() if name.partition("/")[0] in _AREAS))


def known_zone(session: Session, name: str) -> str:
    """The name, where we and the database know such a zone: plots are counted there.

    Raises UsageError for another.
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
