"""Days as pages and plots count them, and the addresses of a day's runs."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Final

from web.zones import midnight

PLOTTED_DAYS: Final = 60
STRIP_DAYS: Final = 30
YEAR_DAYS: Final = 371
"""Fifty-three weeks: a year with its first week whole."""


def first_day(today: date, count: int) -> datetime:
    """When the first of so many of the reader's days begins (UTC), of which today is the last."""
    return midnight(today - timedelta(days=count - 1))


def day_link(repository_id: int | None = None) -> Callable[[date], str]:
    """Gives the address of a day's runs, of one repository or all."""
    which = f"repository={repository_id}&" if repository_id is not None else ""
    return lambda day: f"/runs?{which}since={day.isoformat()}&until={day.isoformat()}"
