"""Reads the arguments of a CDX look-up in a dialect: what is looked up, and what is done with what is found.

What the index cannot do (sorting the captures of several URLs, collapsing before sorting, counting from the
end) is done with all captures found, if they are no more than an answer may have lines.
"""

import calendar
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from multidict import MultiMapping

from oai.datestamps import utc_now
from oai.errors import UsageError
from provider.holdings.capture import (
    MOST_FILTERS,
    Collapse,
    Field,
    FoundCapture,
    read_collapse,
    read_number,
)
from provider.holdings.index_reads import ReadOrder
from provider.holdings.lookup import LookupPlace, MatchType, Query
from provider.http import cdx_ordering
from provider.http.cdx_dialects import EARLIEST, LATEST, RANGE, Dialect, columns_of
from provider.http.cdx_ordering import Step
from provider.http.cdx_output import Output
from provider.models import Access

_TIMESTAMP: Final = re.compile(r"[0-9]{4}(?:[0-9]{2}){0,5}", re.ASCII)
_TRUTHS: Final = ("false", "0", "true", "1")

Arguments = MultiMapping[str]


@dataclass(frozen=True, kw_only=True)
class CdxLimits:
    """Limits of one look-up."""

    lines: int
    examined: int
    filter_seconds: float
    rules: Sequence[Access]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A look-up, and the form of its answer."""

    dialect: Dialect
    query: Query
    output: Output
    columns: Sequence[tuple[str, Field]]
    with_key: bool
    """Whether the client requested the key to continue after the end of an answer."""
    steps: Sequence[Step] = ()
    """Applied to what is found."""
    whole: bool = False
    """Whether the steps need all captures."""
    continues: bool = True
    """Whether a further answer can follow."""


@dataclass(frozen=True, kw_only=True)
class _Count:
    """Which captures of a look-up are wanted."""

    most: int
    skipped: int = 0
    from_end: bool = False

    def cut(self, found: list[FoundCapture]) -> list[FoundCapture]:
        """Return them, out of all."""
        rest = found[self.skipped :]
        return rest[-self.most :] if self.from_end else rest[: self.most]


def read_arguments(
    arguments: Arguments, dialect: Dialect, limits: CdxLimits, place_of: Callable[[str, Query], LookupPlace]
) -> Asked:
    """Parse the arguments; `place_of` returns the position of a key in a look-up.

    Raises UsageError that names the wrong argument and its allowed values.
    """
    _check_names(arguments, dialect)
    query, count = _query(arguments, dialect, limits)
    asked = _arranged(arguments, dialect, query, count)
    key = arguments.get("resumeKey")
    if not key:
        return asked
    if not asked.continues:
        raise UsageError("resumeKey cannot be combined with this sort, collapse or limit; remove one of them")
    return replace(asked, query=replace(asked.query, begin=place_of(key, asked.query)))


def _check_names(arguments: Arguments, dialect: Dialect) -> None:
    names = Counter(name for name, _ in arguments.items())
    unknown = names.keys() - dialect.arguments - dialect.inert.keys()
    if unknown:
        raise UsageError(
            f"unknown argument {min(unknown)!r}; the arguments are {', '.join(dialect.arguments)}"
        )
    repeated = {name for name, times in names.items() if times > 1} - dialect.repeatable
    if repeated:
        raise UsageError(f"argument {min(repeated)!r} is given more than once")
    for name, values in dialect.inert.items():
        _choice(arguments, name, values)


def _query(arguments: Arguments, dialect: Dialect, limits: CdxLimits) -> tuple[Query, _Count]:
    """Return what is looked up, without limit and collapsing, and how much of it is wanted."""
    url = arguments.get("url", "")
    name = _choice(arguments, "matchType", dialect.matches)
    match = MatchType.EXACT if name == RANGE else MatchType(name)
    if "matchType" not in arguments:
        url, match = dialect.wildcard(url)
    query = Query(
        url=url,
        match=match,
        onward=name == RANGE,
        limit=limits.lines,
        examined=limits.examined,
        filter_seconds=limits.filter_seconds,
        rules=tuple(limits.rules),
    )
    order, closest = _order(arguments, dialect, query)
    count = _count(arguments, dialect, limits.lines)
    since, until = _dates(arguments, dialect, is_timeline=query.is_single and order is not ReadOrder.CLOSEST)
    filters = dialect.filters.read(arguments.getall("filter", []))
    return replace(query, order=order, closest=closest, since=since, until=until, filters=filters), count


def _dates(
    arguments: Arguments, dialect: Dialect, *, is_timeline: bool
) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last time; `is_timeline` for captures of one URL in the order of time."""
    beginning = "from" if arguments.get("from") or "from_ts" not in dialect.arguments else "from_ts"
    since, until = _moment(arguments, beginning, EARLIEST), _moment(arguments, "to", LATEST)
    if dialect.dates_of_one_url and not is_timeline and (since or until):
        raise UsageError("from and to need matchType=exact and cannot be combined with sort=closest")
    return since, until


def _order(arguments: Arguments, dialect: Dialect, query: Query) -> tuple[ReadOrder, datetime | None]:
    """Return the order of captures; pywb sends `closest` and `sort=closest` with every request."""
    order = dialect.sorts[_choice(arguments, "sort", tuple(dialect.sorts))]
    if dialect.reverse_flag and _truth(arguments, "reverse"):
        order = ReadOrder.REVERSE
    closest = _closest(arguments, dialect)
    if order is ReadOrder.REVERSE and (closest is None or not dialect.closest_first):
        return order, None
    if closest is None:
        if order is ReadOrder.CLOSEST and not dialect.closest_alone and "closest" not in arguments:
            raise UsageError("sort=closest needs the argument closest, a time")
        return ReadOrder.FORWARD, None
    if order is not ReadOrder.CLOSEST and not dialect.closest_alone:
        raise UsageError("closest needs sort=closest in this dialect")
    if dialect.closest_alone and not (query.is_single or dialect.sorts_many):
        return ReadOrder.FORWARD, None
    return ReadOrder.CLOSEST, closest


def _closest(arguments: Arguments, dialect: Dialect) -> datetime | None:
    if dialect.closest_now and arguments.get("closest") == "now":
        return utc_now()
    return _moment(arguments, "closest", dialect.closest_rest)


def _arranged(arguments: Arguments, dialect: Dialect, query: Query, count: _Count) -> Asked:
    """Return the look-up with its order and limit, divided between the index and the steps after it."""
    query, steps = _collapsed_and_sorted(arguments, dialect, query)
    plain = not (steps or query.collapse or count.skipped) and query.order is ReadOrder.FORWARD
    turned = count.from_end and plain and query.is_single
    whole = bool(steps) or (count.from_end and not turned)
    if turned:
        query, steps = replace(query, order=ReadOrder.REVERSE), [cdx_ordering.turn]
    elif whole or count.skipped:
        steps = [*steps, count.cut]
    return Asked(
        dialect=dialect,
        query=query if whole else replace(query, limit=count.skipped + count.most),
        output=dialect.outputs[_choice(arguments, "output", tuple(dialect.outputs))],
        columns=columns_of(dialect, _names(arguments, dialect)),
        with_key=_truth(arguments, "showResumeKey", ("false", "true")),
        steps=steps,
        whole=whole,
        continues=not (whole or turned),
    )


def _collapsed_and_sorted(
    arguments: Arguments, dialect: Dialect, query: Query
) -> tuple[Query, Sequence[Step]]:
    """Return the look-up and the steps that do what the index cannot do."""
    first, steps = _collapses(arguments, dialect)
    after_collapsing = query.order in dialect.sorted_last
    in_memory = query.order is not ReadOrder.FORWARD and (
        (dialect.sorts_many and not query.is_single) or (after_collapsing and bool(first or steps))
    )
    if len(first) == 1 and not in_memory:
        return replace(query, collapse=first[0]), steps
    steps = [*([cdx_ordering.keep_first(first)] if first else []), *steps]
    if not in_memory:
        return query, steps
    sort = cdx_ordering.sort(query.order, query.closest)
    query = replace(query, order=ReadOrder.FORWARD, closest=None)
    return query, [*steps, sort] if after_collapsing else [sort, *steps]


def _collapses(arguments: Arguments, dialect: Dialect) -> tuple[list[Collapse], list[Step]]:
    """Return the collapses that keep the first capture, and the steps of all others."""
    given = next((arguments.getall(name) for name in dialect.collapses if arguments.get(name)), [])
    if len(given) > MOST_FILTERS:
        raise UsageError(f"{len(given)} collapses exceed the limit of {MOST_FILTERS}")
    first = [collapse for text in given if (collapse := read_collapse(text)) is not None]
    steps: list[Step] = []
    if dialect.collapses_last and (last := read_collapse(arguments.get(dialect.collapses_last))):
        if first:
            raise UsageError(f"{dialect.collapses_last} cannot be combined with another collapse")
        steps.append(cdx_ordering.keep_last(last))
    if dialect.collapses_time and (digits := _number(arguments, dialect.collapses_time)):
        if dialect.best_status:
            steps.append(cdx_ordering.keep_best_status(digits))
        else:
            first.append(Collapse(field="timestamp", characters=digits, beside=dialect.names["status"]))
    return first, steps


def _count(arguments: Arguments, dialect: Dialect, lines: int) -> _Count:
    """Return which captures are wanted, no more of them than an answer may have lines."""
    written = arguments.get("limit") or str(lines)
    if not dialect.counts_back:
        limit = read_number(written)
        if limit is None:
            raise UsageError(f"limit {written[:100]!r} is not a number of 1 or more")
        return _Count(most=min(limit, lines))
    if _truth(arguments, "last"):
        return _Count(most=1, from_end=True)
    from_end = written.startswith("-")
    limit = lines if written == "0" else read_number(written.removeprefix("-"))
    if limit is None:
        raise UsageError(
            f"limit {written[:100]!r} is not a number; write a negative one for the last captures"
        )
    skipped = _number(arguments, "offset") or 0
    if skipped >= lines:
        raise UsageError(f"offset {skipped} exceeds the limit of {lines:,} lines; use resumeKey")
    return _Count(most=min(limit, lines - skipped), skipped=skipped, from_end=from_end)


def _number(arguments: Arguments, name: str) -> int | None:
    """Return a number of at least 1; None for a missing one and for 0."""
    value = arguments.get(name) or "0"
    number = read_number(value)
    if number is None and value != "0":
        raise UsageError(f"{name} {value[:100]!r} is not a number of 0 or more")
    return number


def _names(arguments: Arguments, dialect: Dialect) -> list[str]:
    """Return the requested fields, each once: otherwise a short request could make lines of any length."""
    given = arguments.get("fl") or arguments.get("fields") or ""
    names = list(dict.fromkeys(name for name in given.split(",") if name))
    for name in names:
        if name not in dialect.names:
            raise UsageError(f"unknown field {name!r}; the fields are {', '.join(dialect.columns)}")
    return names


def _truth(arguments: Arguments, name: str, choices: Sequence[str] = _TRUTHS) -> bool:
    return _choice(arguments, name, choices) in {"true", "1"}


def _choice(arguments: Arguments, name: str, choices: Sequence[str]) -> str:
    """Return the argument's value, or the first choice if it is missing."""
    value = arguments.get(name) or choices[0]
    if value not in choices:
        raise UsageError(f"unknown {name} {value!r}; allowed are {', '.join(choices)}")
    return value


def _moment(arguments: Arguments, name: str, rest: str) -> datetime | None:
    """Parse a time as `YYYYMMDDhhmmss`, UTC; `rest` supplies the digits omitted at its end."""
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
        fraction = 999_999 if name == "to" else 0
        return datetime(year, month, day, hour, minute, second, fraction, tzinfo=UTC)
    except (ValueError, calendar.IllegalMonthError):
        raise UsageError(f"{name} {value!r} is not a valid time") from None
