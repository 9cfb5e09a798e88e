"""Plots of spans: a timeline with a row for each repository and a bar for each run; a week of due times."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from web.plots.drawing import frame, mark, text
from web.zones import local, midnight

_LEFT: Final = 190
_WIDTH: Final = 900
_ROW: Final = 26
_TOP: Final = 24
_LEAST: Final = 4.0
_LONGEST_NAME: Final = 26
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Span:
    """A bar: whose row it is in, from when to when, its tone of `style.css`, its title and link."""

    row: str
    begun: datetime
    ended: datetime
    tone: str
    title: str
    link: str


def timeline(spans: Sequence[Span], begin: datetime, end: datetime, *, label: str) -> Markup:
    """The spans between two moments; rows in the order in which they come first."""
    rows = list(dict.fromkeys(span.row for span in spans))
    height = _TOP + len(rows) * _ROW
    scale = (_WIDTH - _LEFT) / max((end - begin).total_seconds(), 1)
    parts = _days(begin, end, scale, height)
    for place, row in enumerate(rows):
        name = row if len(row) <= _LONGEST_NAME else row[: _LONGEST_NAME - 1] + "…"
        parts.append(text(0, _TOP + place * _ROW + 16, name, kind="axis name"))
    for span in spans:
        x = _LEFT + max((span.begun - begin).total_seconds(), 0) * scale
        wide = max((span.ended - max(span.begun, begin)).total_seconds() * scale, _LEAST)
        x = min(x, _WIDTH - _LEAST)
        y = _TOP + rows.index(span.row) * _ROW + 5
        shape = f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="15" rx="2" class="cell {span.tone}"'
        parts.append(mark(shape, span.title, link=span.link))
    return frame(_WIDTH, height, label, parts, links=bool(spans))


def _days(begin: datetime, end: datetime, scale: float, height: float) -> list[str]:
    parts = []
    day = local(begin).date() + _DAY
    while (begins := midnight(day)) < end:
        x = _LEFT + (begins - begin).total_seconds() * scale
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP - 6}V{height}"/>')
        parts.append(text(x, _TOP - 10, f"{day:%m-%d}"))
        day += _DAY
    return parts
