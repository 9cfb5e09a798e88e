"""The arguments of a look-up at `/cdx`, as CDX servers have them, read into what is to be looked up."""

import calendar
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from multidict import MultiMapping

from oai.errors import UsageError
from provider.holdings.found import field_name
from provider.holdings.index_batches import Order
from provider.holdings.lookup import Match, Place, Query, read_wildcard
from provider.holdings.sieve import read_collapse, read_filters, read_number
from provider.models import Access

ARGUMENTS: Final = (
    "url", "matchType", "from", "to", "closest", "sort", "limit", "filter", "collapse", "output", "fl",
    "fields", "showResumeKey", "resumeKey",
)  # fmt: skip
OUTPUTS: Final = ("text", "json", "cdxj")

_SEVERAL: Final = frozenset({"filter"})
_TIMESTAMP: Final = re.compile(r"[0-9]{4}(?:[0-9]{2}){0,5}", re.ASCII)
_EARLIEST: Final = "00000101000000"
_LATEST: Final = "99991231235959"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one look-up may have."""

    lines: int
    examined: int
    rules: Sequence[Access]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A look-up, and how its answer is to be written."""

    query: Query
    output: str
    fields: tuple[str, ...]
    """Those that are asked for; none for all."""
    with_key: bool
    """Whether the client knows how to go on behind the end of an answer."""


def read_arguments(
    arguments: MultiMapping[str], limits: Limits, place_of: Callable[[str, Query], Place]
) -> Asked:
    """Read them; `place_of` gives the place that a key stands for in a look-up.

    Raises UsageError that says which is wrong, and how it may be written.
    """
    _check_names(arguments)
    query = _query(arguments, limits)
    key = arguments.get("resumeKey")
    if key:
        query = replace(query, begin=place_of(key, query))
    return Asked(
        query=query,
        output=_choice(arguments, "output", OUTPUTS),
        fields=tuple(
            field_name(name)
            for name in (arguments.get("fl") or arguments.get("fields") or "").split(",")
            if name
        ),
        with_key=_choice(arguments, "showResumeKey", ("false", "true")) == "true",
    )


def _check_names(arguments: MultiMapping[str]) -> None:
    names = Counter(name for name, _ in arguments.items())
    unknown = names.keys() - ARGUMENTS
    if unknown:
        raise UsageError(f"unknown argument {min(unknown)!r}; the arguments are {', '.join(ARGUMENTS)}")
    repeated = {name for name, times in names.items() if times > 1} - _SEVERAL
    if repeated:
        raise UsageError(f"argument {min(repeated)!r} is given more than once")


def _query(arguments: MultiMapping[str], limits: Limits) -> Query:
    url = arguments.get("url", "")
    match = Match(_choice(arguments, "matchType", tuple(Match)))
    if "matchType" not in arguments:
        url, match = read_wildcard(url)
    order, closest = _order(arguments, match)
    written = arguments.get("limit") or str(limits.lines)
    limit = read_number(written)
    if limit is None:
        raise UsageError(f"limit {written[:100]!r} is not a number of 1 or more")
    return Query(
        url=url,
        match=match,
        since=_moment(arguments, "from", _EARLIEST),
        until=_moment(arguments, "to", _LATEST),
        order=order,
        closest=closest,
        limit=min(limit, limits.lines),
        examined=limits.examined,
        rules=tuple(limits.rules),
        filters=read_filters(arguments.getall("filter", [])),
        collapse=read_collapse(arguments.get("collapse")),
    )


def _order(arguments: MultiMapping[str], match: Match) -> tuple[Order, datetime | None]:
    """The order of one URL's captures; pywb sends `closest` and `sort=closest` with every question."""
    sort = _choice(arguments, "sort", ("default", "closest", "reverse"))
    closest = _moment(arguments, "closest", _EARLIEST)
    if sort == "reverse":
        return Order.REVERSE, None
    if closest is None or match is not Match.EXACT:
        return Order.FORWARD, None
    return Order.CLOSEST, closest


def _choice(arguments: MultiMapping[str], name: str, choices: Sequence[str]) -> str:
    """The argument's value, the first choice where there is none."""
    value = arguments.get(name) or choices[0]
    if value not in choices:
        raise UsageError(f"unknown {name} {value!r}; allowed are {', '.join(choices)}")
    return value


def _moment(arguments: MultiMapping[str], name: str, rest: str) -> datetime | None:
    """A time as `YYYYMMDDhhmmss`, UTC; what is left out at its end is taken from `rest`."""
    value = arguments.get(name)
    if not value:
        return None
    if not _TIMESTAMP.fullmatch(value):
        raise UsageError(f"{name} {value!r} is not a time; write YYYYMMDDhhmmss or the beginning of it")
    digits = value + rest[len(value) :]
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:8])
    try:
        day = min(day, calendar.monthrange(year, month)[1]) if len(value) < len("YYYYMMDD") else day
        hour, minute, second = (int(digits[place : place + 2]) for place in (8, 10, 12))
        fraction = 999_999 if rest == _LATEST else 0
        return datetime(year, month, day, hour, minute, second, fraction, tzinfo=UTC)
    except (ValueError, calendar.IllegalMonthError):
        raise UsageError(f"{name} {value!r} is not a valid time") from None
