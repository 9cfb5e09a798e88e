"""What all plots are made of: marks with titles and links, in an SVG that scales with its place."""

from collections.abc import Iterable

from markupsafe import Markup, escape


def mark(shape: str, title: str, *, link: str | None = None, label: str | None = None) -> str:
    """A shape (safe markup without its end tag, such as ``<rect x="1" …``) with its title, and its link.

    `label` is what a link is called where the title is not enough.
    """
    name = shape.partition(" ")[0].removeprefix("<")
    drawn = f"{shape}><title>{escape(title)}</title></{name}>"
    if link is None:
        return drawn
    return f'<a href="{escape(link)}" aria-label="{escape(label or title)}">{drawn}</a>'


def text(x: float, y: float, words: str, *, kind: str = "axis", anchor: str = "start") -> str:
    """A text at that place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def frame(width: float, height: float, label: str, parts: Iterable[str], *, links: bool = False) -> Markup:
    """The SVG; a group where it holds links, so that they are reached, else one image."""
    role = "group" if links else "img"
    return Markup(  # noqa: S704 numbers of ours, texts escaped above
        f'<svg class="plot" viewBox="0 0 {width:g} {height:g}" role="{role}" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def nice_top(value: float) -> float:
    """The round number at or above the value where an axis ends: 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
