"""The icons: line drawings on a grid of 16, in the colour of the text beside them."""

from types import MappingProxyType
from typing import Final

from markupsafe import Markup

_SHAPES: Final = MappingProxyType(
    {
        "ear": (
            '<path d="M8 15V6M8 6c-2 0-3-1.2-3-3 2 0 3 1.2 3 3zm0 0c2 0 3-1.2 3-3-2 0-3 1.2-3 3z'
            "M8 10c-2.2 0-3.5-1.2-3.5-3.2 2.2 0 3.5 1.2 3.5 3.2zm0 0c2.2 0 3.5-1.2 3.5-3.2C9.3"
            " 6.8 8 8 8 10zm0 3.7c-2.2 0-3.5-1.2-3.5-3.2 2.2 0 3.5 1.2 3.5 3.2zm0 0c2.2 0 3.5-1.2"
            ' 3.5-3.2-2.2 0-3.5 1.2-3.5 3.2z"/>'
        ),
        "person": ('<circle cx="8" cy="5" r="2.7"/><path d="M2.8 14c.5-3 2.6-4.6 5.2-4.6s4.7 1.6 5.2 4.6"/>'),
        "dot": '<circle cx="8" cy="8" r="2.5"/>',
        "clock": '<circle cx="8" cy="8" r="6"/><path d="M8 4.6V8l2.4 1.6"/>',
        "play": '<path d="M5 3.2v9.6l7.6-4.8z" fill="currentColor"/>',
        "hourglass": (
            '<path d="M4 2.5h8M4 13.5h8M5 2.5c0 3 3 3.8 3 5.5s-3 2.5-3 5.5M11 2.5c0 3-3 3.8-3'
            ' 5.5s3 2.5 3 5.5"/>'
        ),
        "pause": '<path d="M5.5 3.5v9M10.5 3.5v9" stroke-width="2.4"/>',
        "stop": '<rect x="4" y="4" width="8" height="8" rx="1" fill="currentColor"/>',
        "check": '<path d="M3 8.5l3.3 3.3L13 4.8" stroke-width="2"/>',
        "warning": '<path d="M8 2.5l6 11H2zM8 6.8v3M8 11.6v.3"/>',
        "equals": '<path d="M3.5 6h9M3.5 10h9" stroke-width="2"/>',
        "half": ('<circle cx="8" cy="8" r="5.5"/><path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor"/>'),
        "hand": '<path d="M8 2.5v6M8 11.5v.5" stroke-width="2"/><circle cx="8" cy="8" r="6.5"/>',
        "cross": '<path d="M4 4l8 8M12 4l-8 8" stroke-width="2"/>',
        "skip": '<path d="M3 4l5 4-5 4zM8 4l5 4-5 4z"/>',
        "repeat": '<path d="M13 7a5 5 0 0 0-9-2M3 9a5 5 0 0 0 9 2M4 2v3h3M12 14v-3H9"/>',
        "once": '<path d="M2.5 8H13M9.5 4.5L13 8l-3.5 3.5"/>',
        "plus": '<path d="M8 3v10M3 8h10" stroke-width="2"/>',
        "bin": '<path d="M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.7 9h6.6l.7-9M6.7 7v4M9.3 7v4"/>',
    }
)


def icon(name: str) -> Markup:
    """The icon as inline SVG, hidden from screen readers: a word always stands beside it."""
    return Markup(  # noqa: S704 our own drawings
        f'<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">{_SHAPES[name]}</svg>'
    )
