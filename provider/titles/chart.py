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
_LABEL: Final = 72
"""Least distance of two years' labels, so that they can be enlarged on a narrow screen."""


def years_of(captures: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return year and captures in order, with the years between that have none."""
    known = {int(year): count for year, count in captures.items()}
    if not known:
        return []
    every = range(min(known), max(known) + 1)
    return [(year, known.get(year, 0)) for year in (every if len(every) <= _MOST else sorted(known))]


def chart(years: Sequence[tuple[int, int]], *, label: str, caption: Callable[[int, int], str]) -> Markup:
    """Return a column for each year; `label` describes the chart, `caption` a year and its captures."""
    top = max((count for _, count in years), default=0) or 1
    step = min(_WIDTH / max(len(years), 1), _WIDEST)
    parts = [f'<path class="grid" d="M0 {_TOP + _HEIGHT}H{_WIDTH}"/>']
    labelled = -float(_LABEL)
    for place, (year, count) in enumerate(years):
        x, high = place * step, _HEIGHT * count / top
        if count:
            parts.append(
                f'<rect class="bar" x="{x + step * 0.1:.1f}" y="{_TOP + _HEIGHT - max(high, 1):.1f}"'
                f' width="{step * 0.8:.1f}" height="{max(high, 1):.1f}">'
                f"<title>{escape(caption(year, count))}</title></rect>"
            )
        if x - labelled >= _LABEL:
            parts.append(f'<text x="{x + step * 0.1:.1f}" y="{_TOP + _HEIGHT + _BELOW - 6}">{year}</text>')
            labelled = x
    return Markup(  # noqa: S704 our own numbers; texts are escaped
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_TOP + _HEIGHT + _BELOW}" role="img"'
        f' aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
