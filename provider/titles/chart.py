"""The chart of a title's captures by year: an SVG without styles or scripts of its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from markupsafe import Markup, escape

_WIDTH: Final = 720
_HEIGHT: Final = 150
_TOP: Final = 26
"""Room for the largest number."""
_BELOW: Final = 30
"""Room for the years."""
_WIDEST: Final = 56
_MOST: Final = 120
"""Years shown without a gap; captures dated further apart are shown side by side."""
_LABEL: Final = 96
"""Least distance of two labels, so that they can be enlarged on a narrow screen."""

_GLYPH: Final = 16
"""Width of a digit when labels are enlarged."""


def years_of(captures: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return year and captures in order, with the years between that have none."""
    known = {int(year): count for year, count in captures.items()}
    if not known:
        return []
    every = range(min(known), max(known) + 1)
    return [(year, known.get(year, 0)) for year in (every if len(every) <= _MOST else sorted(known))]


def chart(
    years: Sequence[tuple[int, int]],
    *,
    label: str,
    number: Callable[[int], str],
    caption: Callable[[int, int], str],
) -> Markup:
    """Return a column for each year, with the number above the highest one.

    `label` describes the chart, `caption` a year and its captures.
    """
    step = min(_WIDTH / max(len(years), 1), _WIDEST)
    parts = [f'<path class="grid" d="M0 {_TOP + _HEIGHT}H{_WIDTH}"/>']
    counts = [count for _, count in years]
    top = max(counts, default=0) or 1
    labelled = -float(_LABEL)
    for place, (year, count) in enumerate(years):
        middle, high = (place + 0.5) * step, _HEIGHT * count / top
        if count:
            parts.append(_column(middle, step, max(high, 1), caption(year, count)))
        if place == counts.index(max(counts)):
            parts.append(_text(middle, _TOP - 8, number(count)))
        if middle - labelled >= _LABEL:
            parts.append(_text(middle, _TOP + _HEIGHT + _BELOW - 6, str(year)))
            labelled = middle
    return Markup(  # noqa: S704 our own numbers; texts are escaped
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_TOP + _HEIGHT + _BELOW}" role="img"'
        f' aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _column(middle: float, step: float, high: float, caption: str) -> str:
    return (
        f'<rect class="bar" x="{middle - step * 0.4:.1f}" y="{_TOP + _HEIGHT - high:.1f}"'
        f' width="{step * 0.8:.1f}" height="{high:.1f}"><title>{escape(caption)}</title></rect>'
    )


def _text(middle: float, y: float, words: str) -> str:
    """Return a text below or above a column; where it would be cut off, it begins or ends at the edge."""
    half = len(words) * _GLYPH / 2
    if middle < half:
        x, anchor = 0.0, "start"
    elif middle > _WIDTH - half:
        x, anchor = float(_WIDTH), "end"
    else:
        x, anchor = middle, "middle"
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
