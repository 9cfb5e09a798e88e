"""Plots of days: a heat map of a year by the worst state, a strip of the last ones, bars of records."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Final

from markupsafe import Markup

from manager.runs import Day
from web.formats import number
from web.plots.drawing import frame, mark, nice_top, text
from web.states import look_of
from web.words import _, ngettext

_CELL: Final = 13
_STEP: Final = 15
_LEFT: Final = 34
_TOP: Final = 18
_WEEK: Final = 7
_BAR_HEIGHT: Final = 120
_BAR_LEFT: Final = 60

Link = Callable[[date], str]


def title_of(day: date, found: Day | None) -> str:
    """What is said of a day."""
    if found is None:
        return _("%(day)s: no runs") % {"day": day.isoformat()}
    runs = ngettext("%(count)s run", "%(count)s runs", found.runs) % {"count": number(found.runs)}
    return _("%(day)s: %(runs)s, %(records)s records, worst outcome: %(worst)s") % {
        "day": day.isoformat(),
        "runs": runs,
        "records": number(found.records),
        "worst": _(found.worst),
    }


def heat_map(days: Sequence[Day], first: date, last: date, *, link: Link, label: str) -> Markup:
    """A cell for each day, a column for each week, coloured by the worst state of the day's runs."""
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
    """A row of cells, one for each day."""
    count = (last - first).days + 1
    cells = [
        _cell(day, days.get(day), place * _STEP, 0, link)
        for place, day in ((place, first + timedelta(days=place)) for place in range(count))
    ]
    return frame(count * _STEP, _STEP, label, cells, links=bool(days))


def bars(days: Sequence[Day], first: date, last: date, *, link: Link, label: str) -> Markup:
    """A bar for each day as high as its records, the changes in it in a stronger colour."""
    known = {found.day: found for found in days}
    count = (last - first).days + 1
    top = nice_top(max((found.records for found in days), default=0))
    step = max(6.0, min(24.0, 720 / count))
    width = _BAR_LEFT + count * step
    parts = _axis(top, width)
    for place in range(count):
        found = known.get(first + timedelta(days=place))
        if found is None:
            continue
        x = _BAR_LEFT + place * step
        title = title_of(found.day, found)
        whole, part = _height(found.records, top), _height(found.changes, top)
        shapes = _bar(x, whole, step, "bar") + f"><title>{title}</title></rect>"
        parts.append(f"{shapes}" if not part else shapes)
        parts.append(mark(_bar(x, part, step, "bar strong"), title, link=link(found.day)))
    parts.append(text(_BAR_LEFT, _BAR_HEIGHT + 26, first.isoformat()))
    parts.append(text(width, _BAR_HEIGHT + 26, last.isoformat(), anchor="end"))
    return frame(width, _BAR_HEIGHT + 32, label, parts, links=bool(days))


def sparkline(values: Sequence[float], label: str) -> Markup:
    """A small line without axes, with the values in its label's company on the page."""
    if not values:
        return Markup("")
    top = max(*values, 1)
    step = 100 / max(len(values) - 1, 1)
    points = " ".join(f"{place * step:.1f},{26 - value / top * 24:.1f}" for place, value in enumerate(values))
    return frame(100, 28, label, [f'<polyline class="line" points="{points}"/>'])


def _cell(day: date, found: Day | None, x: float, y: float, link: Link) -> str:
    tone = look_of(found.worst).tone if found else "none"
    shape = f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="2" class="cell {tone}"'
    return mark(shape, title_of(day, found), link=link(day) if found else None)


def _axis(top: float, width: float) -> list[str]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = 8 + _BAR_HEIGHT * (1 - share)
        parts.append(f'<path class="grid" d="M{_BAR_LEFT} {y:.1f}H{width:.1f}"/>')
        parts.append(text(_BAR_LEFT - 6, y + 4, number(round(top * share)), anchor="end"))
    return parts


def _height(value: float, top: float) -> float:
    return value / top * _BAR_HEIGHT


def _bar(x: float, height: float, step: float, kind: str) -> str:
    y = 8 + _BAR_HEIGHT - height
    return f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{step - 2:.1f}" height="{height:.1f}" class="{kind}"'
