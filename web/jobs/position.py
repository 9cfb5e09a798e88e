"""A job's place in lists, written for URLs: whether it is running, its due time, its id."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from manager.jobs.views import JobPlace

_PLACE: Final = re.compile(r"([01])\.(-?[0-9]{1,18})\.([0-9]{1,9})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def written(place: JobPlace) -> str:
    """Return the place as text for URLs, for example `0.1767323045000000.42`."""
    return f"{place.under_way:d}.{(place.due - _EPOCH) // _MICROSECOND}.{place.job_id}"


def read_place(text: str) -> JobPlace | None:
    """Parse a place; None if the text is not one."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    try:
        due = _EPOCH + int(found[2]) * _MICROSECOND
    except OverflowError:
        return None
    return JobPlace(under_way=found[1] == "1", due=due, job_id=int(found[3]))
