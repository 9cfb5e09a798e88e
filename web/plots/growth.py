"""How the archive has grown: documents by month of capture, the parts of each month by type."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from web.formats import number
from web.plots.drawing import frame, mark, nice_top, text

_LEFT: Final = 64
_WIDTH: Final = 720
_HEIGHT: Final = 140
_WIDEST: Final = 48
_MOST: Final = 120
"""Columns; older months are added up by years where there are more."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A month or a year: how many documents came, and how many there were by its end."""

    when: str
    new: int
    total: int
    types: Mapping[str, int]


def columns(rows: Iterable[Mapping[str, Any]]) -> Sequence[Column]:
    """The columns for rows of month (YYYY-MM), type and documents, in their order."""
    months: dict[str, Counter[str]] = {}
    for row in rows:
        months.setdefault(row["month"], Counter())[row["type"]] += row["documents"]
    if len(months) > _MOST:
        years: dict[str, Counter[str]] = {}
        for month, types in months.items():
            years.setdefault(month[:4], Counter()).update(types)
        months = years
    found = []
    total = 0
    for when, types in sorted(months.items()):
        total += types.total()
        found.append(Column(when=when, new=types.total(), total=total, types=dict(types.most_common())))
    return found


def growth(shown: Sequence[Column], *, label: str) -> Markup:
    """Columns for what came, and a line for what there was."""
    if not shown:
        return Markup("")
    top = nice_top(shown[-1].total)
    step = min((_WIDTH - _LEFT - 8) / len(shown), _WIDEST)
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = 8 + _HEIGHT * (1 - share)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH}"/>')
        parts.append(text(_LEFT - 6, y + 4, number(round(top * share)), anchor="end"))
    places = []
    for at, column in enumerate(shown):
        x, high = _LEFT + at * step, _HEIGHT * column.new / top
        shape = (
            f'<rect class="bar" x="{x + step * 0.1:.1f}" y="{8 + _HEIGHT - high:.1f}"'
            f' width="{max(step * 0.8, 1):.1f}" height="{max(high, 1):.1f}"'
        )
        parts.append(mark(shape, f"{column.when}: +{number(column.new)} = {number(column.total)}"))
        places.append(f"{x + step / 2:.1f},{8 + _HEIGHT * (1 - column.total / top):.1f}")
    parts.append(f'<polyline class="line" points="{" ".join(places)}"/>')
    if len(shown) * step > 2 * _LEFT:
        parts.append(text(_LEFT, _HEIGHT + 26, shown[0].when))
    parts.append(text(_LEFT + max(step * len(shown), _LEFT), _HEIGHT + 26, shown[-1].when, anchor="end"))
    return frame(_WIDTH, _HEIGHT + 32, label, parts)
