"""A run's course: records and response time over the seconds that it took."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from web.formats import duration, number
from web.plots.drawing import frame, mark, nice_top, text

_LEFT: Final = 64
_WIDTH: Final = 720
_HEIGHT: Final = 120


def course(points: Sequence[tuple[float, float]], *, label: str, unit: str) -> Markup:
    """A line through points of seconds and values, with a mark for each."""
    if not points:
        return Markup("")
    longest = max(seconds for seconds, _ in points) or 1
    top = nice_top(max(value for _, value in points))
    places = [
        (
            _LEFT + seconds / longest * (_WIDTH - _LEFT - 8),
            8 + _HEIGHT * (1 - value / top),
            f"{duration(seconds)}: {number(round(value))} {unit}",
        )
        for seconds, value in points
    ]
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = 8 + _HEIGHT * (1 - share)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH}"/>')
        parts.append(text(_LEFT - 6, y + 4, number(round(top * share)), anchor="end"))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
    parts.append(f'<polyline class="line" points="{line}"/>')
    parts += [mark(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="point"', title) for x, y, title in places]
    parts.append(text(_LEFT, _HEIGHT + 26, "0 s"))
    parts.append(text(_WIDTH, _HEIGHT + 26, duration(longest), anchor="end"))
    return frame(_WIDTH, _HEIGHT + 32, label, parts)
