"""Building blocks of all plots: shapes with titles and links, in an SVG that scales with its container."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from markupsafe import Markup, escape

from manager.jobs.runs import Day
from manager.repository_states import RUNS, LastRun
from web.site.formats import clock, duration, look_of, month, number, short_day
from web.site.formats import day as formatted
from web.site.i18n import _, ngettext
from web.site.zones import local, midnight

_GROWTH_LEFT: Final = 64
_WIDTH: Final = 720
_HEIGHT: Final = 140
_WIDEST: Final = 48
_MOST: Final = 120
"""Maximum number of columns; with more, older months are summed by year."""
_PACE_LEFT: Final = 64
_PACE_HEIGHT: Final = 120
_SPAN_LEFT: Final = 190
_SPAN_WIDTH: Final = 900
_ROW: Final = 26
_SPAN_TOP: Final = 24
_LEAST: Final = 4.0
_LONGEST_NAME: Final = 26
_DAY: Final = timedelta(days=1)


def mark(
    shape: str, title: str, *, link: str | None = None, label: str | None = None, by_tab: bool = True
) -> str:
    """Return a shape (safe markup without its end tag, such as ``<rect x="1" …``) with its title and link.

    `label` names the link if the title is not enough. Without `by_tab`, the link is only for pointers.
    """
    name = shape.partition(" ")[0].removeprefix("<")
    drawn = f"{shape}><title>{escape(title)}</title></{name}>"
    if link is None:
        return drawn
    reach = "" if by_tab else ' tabindex="-1"'
    return f'<a href="{escape(link)}"{reach} aria-label="{escape(label or title)}">{drawn}</a>'


def text(x: float, y: float, words: str, *, kind: str = "axis", anchor: str = "start") -> str:
    """Return a text at that position."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def frame(
    width: float,
    height: float,
    label: str,
    parts: Iterable[str],
    *,
    links: bool = False,
    stretches: bool = False,
) -> Markup:
    """Return the SVG: a group if it contains links, so that they can be reached, else a single image.

    One that stretches fills its place in both directions.
    """
    role = "group" if links else "img"
    fit = ' preserveAspectRatio="none"' if stretches else ""
    return Markup(  # noqa: S704 our own numbers; texts are escaped above
        f'<svg class="plot" viewBox="0 0 {width:g} {height:g}" role="{role}"{fit} '
        f'aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def nice_top(value: float) -> float:
    """Return the round number at or above the value where an axis ends: 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


_CELL: Final = 13
_STEP: Final = 15
_LEFT: Final = 34
_TOP: Final = 18
_WEEK: Final = 7
_BAR_HEIGHT: Final = 120
_BAR_LEFT: Final = 60

Link = Callable[[date], str]


def title_of(day: date, found: Day | None) -> str:
    """Return the title of a day."""
    if found is None:
        return _("%(day)s: no runs") % {"day": formatted(day)}
    runs = ngettext("%(count)s run", "%(count)s runs", found.runs) % {"count": number(found.runs)}
    return _("%(day)s: %(runs)s, %(records)s records, worst outcome: %(worst)s") % {
        "day": formatted(day),
        "runs": runs,
        "records": number(found.records),
        "worst": _(found.worst),
    }


def heat_map(days: Sequence[Day], first: date, last: date, *, link: Link, label: str) -> Markup:
    """Return a cell for each day and a column for each week, coloured by the day's worst run."""
    known = {found.day: found for found in days}
    begin = first - timedelta(days=first.weekday())
    parts = [
        text(_LEFT - 6, _TOP + row * _STEP + 10, name, anchor="end")
        for row, name in ((0, _("Mon")), (2, _("Wed")), (4, _("Fri")))
    ]
    for offset in range((last - begin).days + 1):
        day = begin + timedelta(days=offset)
        if day < first:
            continue
        column, row = divmod(offset, _WEEK)
        x, y = _LEFT + column * _STEP, _TOP + row * _STEP
        if day.day == 1:
            parts.append(text(x, _TOP - 6, f"{day:%Y-%m}" if day.month == 1 else f"{day:%m}"))
        parts.append(_cell(day, known.get(day), x, y, link))
    width = _LEFT + ((last - begin).days // _WEEK + 1) * _STEP
    return frame(width, _TOP + _WEEK * _STEP, label, parts, links=bool(days))


def strip(days: Mapping[date, Day], first: date, last: date, *, link: Link, label: str) -> Markup:
    """Return a row of cells, one for each day."""
    count = (last - first).days + 1
    cells = [
        _cell(day, days.get(day), place * _STEP, 0, link)
        for place, day in ((place, first + timedelta(days=place)) for place in range(count))
    ]
    return frame(count * _STEP, _STEP, label, cells, links=bool(days))


def run_strip(runs: Sequence[LastRun]) -> Markup:
    """Return a cell for each run, the oldest first, which leads to the run.

    They are no tab stops: a page has a thousand of them, and each repository has its runs on a page.
    """
    cells = [
        mark(
            f'<rect x="{place * _STEP}" y="0" width="{_CELL}" height="{_CELL}" rx="2" '
            f'class="cell {look_of(run.status).tone}"',
            f"{clock(run.ended)}: {_(run.status)}",
            link=f"/runs/{run.history_id}",
            by_tab=False,
        )
        for place, run in enumerate(reversed(runs))
    ]
    return frame(RUNS * _STEP, _STEP, _("Last runs, by outcome"), cells, links=bool(runs))


def bars(days: Sequence[Day], first: date, last: date, *, link: Link, label: str) -> Markup:
    """Return a bar for each day, as high as its records; changed ones in a stronger colour."""
    known = {found.day: found for found in days}
    count = (last - first).days + 1
    top = nice_top(max((found.records for found in days), default=0))
    step = max(6.0, min(24.0, 720 / count))
    width = _BAR_LEFT + count * step
    parts = _axis(top, left=_BAR_LEFT, width=width, height=_BAR_HEIGHT)
    for place in range(count):
        found = known.get(first + timedelta(days=place))
        if found is None:
            continue
        x = _BAR_LEFT + place * step
        title = title_of(found.day, found)
        whole, part = _height(found.records, top), _height(found.changes, top)
        parts.append(mark(_bar(x, whole, step, "bar"), title))
        parts.append(mark(_bar(x, part, step, "bar strong"), title, link=link(found.day)))
    parts.append(text(_BAR_LEFT, _BAR_HEIGHT + 26, formatted(first)))
    parts.append(text(width, _BAR_HEIGHT + 26, formatted(last), anchor="end"))
    return frame(width, _BAR_HEIGHT + 32, label, parts, links=bool(days))


def sparkline(values: Sequence[float], label: str) -> Markup:
    """Return a small line without axes; the page shows the values beside its label."""
    if not values:
        return Markup("")
    top = max(*values, 1)
    step = 100 / max(len(values) - 1, 1)
    points = " ".join(f"{place * step:.1f},{26 - value / top * 24:.1f}" for place, value in enumerate(values))
    return frame(100, 28, label, [f'<polyline class="line" points="{points}"/>'], stretches=True)


def _cell(day: date, found: Day | None, x: float, y: float, link: Link) -> str:
    tone = look_of(found.worst).tone if found else "none"
    shape = f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="2" class="cell {tone}"'
    return mark(shape, title_of(day, found), link=link(day) if found else None)


def _axis(top: float, *, left: int, width: float, height: int) -> list[str]:
    """Return three lines across the plot, each with its value beside it; the uppermost is `top`."""
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = 8 + height * (1 - share)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{width:.1f}"/>')
        parts.append(text(left - 6, y + 4, number(round(top * share)), anchor="end"))
    return parts


def _height(value: float, top: float) -> float:
    return value / top * _BAR_HEIGHT


def _bar(x: float, height: float, step: float, kind: str) -> str:
    height = max(height, 1)  # so that the link of a day without records shows the focus
    y = 8 + _BAR_HEIGHT - height
    return f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{step - 2:.1f}" height="{height:.1f}" class="{kind}"'


@dataclass(frozen=True, kw_only=True)
class Column:
    """A month or a year: documents captured in it, and their total at its end."""

    when: str
    new: int
    total: int
    types: Mapping[str, int]


def columns(rows: Iterable[Mapping[str, Any]]) -> Sequence[Column]:
    """Return the columns for rows of month (YYYY-MM), type and documents, in order."""
    months: dict[str, Counter[str]] = {}
    for row in rows:
        months.setdefault(row["month"], Counter())[row["type"]] += row["documents"]
    monthly = len(months) <= _MOST
    if not monthly:
        years: dict[str, Counter[str]] = {}
        for when, types in months.items():
            years.setdefault(when[:4], Counter()).update(types)
        months = years
    found = []
    total = 0
    for when, types in sorted(months.items()):
        total += types.total()
        shown = month(date.fromisoformat(f"{when}-01")) if monthly else when
        found.append(Column(when=shown, new=types.total(), total=total, types=dict(types.most_common())))
    return found


def growth(shown: Sequence[Column], *, label: str) -> Markup:
    """Return columns for new documents and a line for the total."""
    if not shown:
        return Markup("")
    top = nice_top(shown[-1].total)
    step = min((_WIDTH - _GROWTH_LEFT - 8) / len(shown), _WIDEST)
    parts = _axis(top, left=_GROWTH_LEFT, width=_WIDTH, height=_HEIGHT)
    places = []
    for at, column in enumerate(shown):
        x, high = _GROWTH_LEFT + at * step, _HEIGHT * column.new / top
        shape = (
            f'<rect class="bar" x="{x + step * 0.1:.1f}" y="{8 + _HEIGHT - high:.1f}"'
            f' width="{max(step * 0.8, 1):.1f}" height="{max(high, 1):.1f}"'
        )
        parts.append(mark(shape, f"{column.when}: +{number(column.new)} = {number(column.total)}"))
        places.append(f"{x + step / 2:.1f},{8 + _HEIGHT * (1 - column.total / top):.1f}")
    parts.append(f'<polyline class="line" points="{" ".join(places)}"/>')
    if len(shown) * step > 3 * _GROWTH_LEFT:
        parts.append(text(_GROWTH_LEFT, _HEIGHT + 26, shown[0].when))
    parts.append(
        text(_GROWTH_LEFT + max(step * len(shown), _GROWTH_LEFT), _HEIGHT + 26, shown[-1].when, anchor="end")
    )
    return frame(_WIDTH, _HEIGHT + 32, label, parts)


def line_plot(points: Sequence[tuple[float, float]], *, label: str, unit: str) -> Markup:
    """Return a line through points of seconds and values, with a mark for each."""
    if not points:
        return Markup("")
    longest = max(seconds for seconds, _ in points) or 1
    top = nice_top(max(value for _, value in points))
    places = [
        (
            _PACE_LEFT + seconds / longest * (_WIDTH - _PACE_LEFT - 8),
            8 + _PACE_HEIGHT * (1 - value / top),
            f"{duration(seconds)}: {number(round(value))} {unit}",
        )
        for seconds, value in points
    ]
    parts = _axis(top, left=_PACE_LEFT, width=_WIDTH, height=_PACE_HEIGHT)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
    parts.append(f'<polyline class="line" points="{line}"/>')
    parts += [mark(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="point"', title) for x, y, title in places]
    parts.append(text(_PACE_LEFT, _PACE_HEIGHT + 26, "0 s"))
    parts.append(text(_WIDTH, _PACE_HEIGHT + 26, duration(longest), anchor="end"))
    return frame(_WIDTH, _PACE_HEIGHT + 32, label, parts)


@dataclass(frozen=True, kw_only=True)
class RunPlots:
    """How a run proceeds: its samples of seconds, records and requests, and two plots of them."""

    pace: Sequence[Sequence[float]]
    records: Markup
    responses: Markup


def run_plots(pace: Sequence[Sequence[float]]) -> RunPlots:
    """Return the course of a run from the samples in its row."""
    spans = [(one[0], one[2] - before[2], one[0] - before[0]) for before, one in pairwise(pace)]
    return RunPlots(
        pace=pace,
        records=line_plot(
            [(one[0], one[1]) for one in pace], label=_("Records during the run"), unit=_("records")
        ),
        responses=line_plot(
            [(at, 1000 * spent / asked) for at, asked, spent in spans if asked > 0],
            label=_("Milliseconds per request during the run"),
            unit=_("ms per request"),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Span:
    """A bar: key and name of its row, start and end, tone of `style.css`, title and link."""

    key: int
    row: str
    begun: datetime
    ended: datetime
    tone: str
    title: str
    link: str


def timeline(
    spans: Sequence[Span], begin: datetime, end: datetime, *, label: str, now: datetime | None = None
) -> Markup:
    """Return the spans between two times; rows are in order of first appearance, and a line shows `now`.

    Before the plot, a list has the names of the rows for narrow screens.
    """
    rows: dict[int, str] = {}
    for span in spans:
        rows.setdefault(span.key, span.row)
    places = {key: place for place, key in enumerate(rows)}
    height = _SPAN_TOP + len(rows) * _ROW
    scale = (_SPAN_WIDTH - _SPAN_LEFT) / max((end - begin).total_seconds(), 1)
    parts = _days(begin, end, scale, height)
    if now is not None:
        x = _SPAN_LEFT + (now - begin).total_seconds() * scale
        parts.append(f'<path class="now" d="M{x:.1f} {_SPAN_TOP - 6}V{height}"/>')
    names = _shortened(list(rows.values()))
    for place, name in enumerate(names):
        parts.append(text(0, _SPAN_TOP + place * _ROW + 16, name, kind="axis name"))
    for span in spans:
        x = _SPAN_LEFT + max((span.begun - begin).total_seconds(), 0) * scale
        wide = max((span.ended - max(span.begun, begin)).total_seconds() * scale, _LEAST)
        x = min(x, _SPAN_WIDTH - _LEAST)
        y = _SPAN_TOP + places[span.key] * _ROW + 5
        shape = f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="15" rx="2" class="cell {span.tone}"'
        parts.append(mark(shape, span.title, link=span.link))
    listed = Markup().join(Markup("<li>{}</li>").format(name) for name in names)
    first = Markup('<ul class="row-names" aria-hidden="true">{}</ul>').format(listed)
    return first + frame(_SPAN_WIDTH, height, label, parts, links=bool(spans))


def _shortened(names: Sequence[str]) -> list[str]:
    """Return the names as the margin holds them: their beginnings, and the end if those are the same."""
    begun = [name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…" for name in names]
    return [
        short if short == name or begun.count(short) == 1 else f"{name[:9]}…{name[10 - _LONGEST_NAME :]}"
        for name, short in zip(names, begun, strict=True)
    ]


def _days(begin: datetime, end: datetime, scale: float, height: float) -> list[str]:
    parts = []
    day = local(begin).date() + _DAY
    while (begins := midnight(day)) < end:
        x = _SPAN_LEFT + (begins - begin).total_seconds() * scale
        parts.append(f'<path class="grid" d="M{x:.1f} {_SPAN_TOP - 6}V{height}"/>')
        parts.append(text(x, _SPAN_TOP - 10, short_day(day)))
        day += _DAY
    return parts
