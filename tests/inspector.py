"""Pages under axe's eyes, light and dark, wide and narrow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.async_api import BrowserContext, Page, ViewportSize

WIDE, NARROW = 1180, 390
"""Pixels: a window in which tables are narrowest before they become cards, and a phone."""
_COLOURS: Final = ("color-contrast", "link-in-text-block")
"""The rules that depend on colours; they take two thirds of axe's time.

They look at one text of each kind that no page has shown before, in each scheme; `--long` has all in light.
"""
_EVERYTHING: Final = {"resultTypes": ["violations"], "preload": {"assets": ["media"]}}
"""What passes is found all the same, but not written down element by element; no rule reads style sheets."""
_STRUCTURE: Final = {**_EVERYTHING, "rules": {rule: {"enabled": False} for rule in _COLOURS}}
"""By default for one element of each kind that no page has shown before, by `--long` for all."""
_CONTRAST: Final = {**_EVERYTHING, "runOnly": _COLOURS}
_WHOLE: Final = {
    **_EVERYTHING,
    "runOnly": (
        *("bypass", "document-title", "html-has-lang", "html-lang-valid", "meta-viewport", "skip-link"),
        *("page-has-heading-one", "heading-order", "region", "duplicate-id-aria", "accesskeys"),
        *("landmark-one-main", "landmark-unique", "landmark-no-duplicate-banner"),
        *("landmark-no-duplicate-contentinfo", "landmark-no-duplicate-main", "landmark-main-is-top-level"),
        *("landmark-banner-is-top-level", "landmark-contentinfo-is-top-level"),
        *("td-headers-attr", "th-has-data-cells", "form-field-multiple-labels", "empty-heading"),
    ),
}
"""The rules whose findings depend on several elements of a page, for each page."""
_LOOK: Final = Path(__file__).with_name("look.js").read_text(encoding="utf-8")
_LAYOUT: Final = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")
_WIDTHS: Final = (NARROW, 1024, WIDE)
ALL_WIDTHS: Final = (320, NARROW, 768, 1024, WIDE, 1280, 1440)
"""Those that `--long` looks at; 320 is a window of 1,280 that shows everything enlarged (WCAG 1.4.10)."""
_PAPER: Final = (718, 1047)
"""A sheet of A4 with margins of a centimetre, upright and in landscape."""
_Scheme = Literal["light", "dark"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """A way to show a page, and what is looked at then: all, or what can be different."""

    width: int
    scheme: _Scheme
    options: Mapping[str, Any] | None = None
    whole: Mapping[str, Any] | None = None
    """The rules for the whole page, where `options` are for what no page has shown before."""
    contrast: Mapping[str, Any] | None = None
    if_new: bool = False
    """Whether the page is looked at so only if the look before has met an unknown kind of text on it."""


_DARK: Final = Look(width=WIDE, scheme="dark", contrast=_CONTRAST)
_LOOKS: Final = (
    Look(width=WIDE, scheme="light", options=_STRUCTURE, whole=_WHOLE, contrast=_CONTRAST),
    replace(_DARK, if_new=True),
)
_LONG_LOOKS: Final = (
    Look(width=WIDE, scheme="light", options=_EVERYTHING),
    _DARK,
    Look(width=NARROW, scheme="dark", contrast=_CONTRAST),
    Look(width=NARROW, scheme="light", options=_STRUCTURE),
)
"""Colours and most rules of axe do not depend on the width, and the layout is looked at in each width."""
_KNOWN: Final[dict[_Scheme, set[int]]] = {"light": set(), "dark": set()}
"""The kinds of text, by computed style, whose contrast this process has found sufficient in each scheme.

All tests share them: without an unknown kind, axe need not run, which saves it its look at the whole page.
"""
_KNOWN_SHAPES: Final[set[int]] = set()
"""The kinds of elements, by shape and parents, in which this process has found nothing wrong."""


class Inspector:
    """Looks at pages."""

    def __init__(self, page: Page, *, long: bool = False) -> None:
        self.page = page
        self._widths: Sequence[int] = ALL_WIDTHS if long else _WIDTHS
        self._looks = _LONG_LOOKS if long else _LOOKS
        self._scheme: _Scheme = "light"

    async def check(self, *addresses: str) -> None:
        """Look at those pages, or at what is shown, in each width and scheme; nothing is cut off."""
        for address in addresses:
            answer = await self.page.goto(address)
            assert answer is not None
            assert answer.ok or address.endswith("/no-such-page"), f"{address}: {answer.status}"
            await self._look_around()
        if not addresses:
            await self._look_around()
        await self._widen(WIDE)

    async def _look_around(self) -> None:
        """Begin as wide as the page before was shown last, because each change takes time."""
        size = self.page.viewport_size
        is_narrow = size is not None and size["width"] == NARROW
        for width in sorted(self._widths, reverse=not is_narrow):
            await self._widen(width)
            is_new = False
            for look in self._looks:
                if look.width == width and (is_new or not look.if_new):
                    await self._colour(look.scheme)
                    is_new = await self._check_as_shown(look)
            await self._colour("light")
            await self._check_layout(width)

    async def check_prints(self, *addresses: str) -> None:
        """Look at the layout of those pages on paper; nothing is cut off."""
        await self.page.emulate_media(media="print")
        for address in addresses:
            await self.page.goto(address)
            for width in _PAPER:
                await self._widen(width)
                await self._check_layout(width)
        await self.page.emulate_media(media="screen")

    async def _check_layout(self, width: int) -> None:
        faults = await self.page.evaluate(_LAYOUT)
        assert not faults, f"{self.page.url} {width}\n" + "\n".join(faults)

    async def _widen(self, width: int) -> None:
        size: ViewportSize = {"width": width, "height": 800}
        if self.page.viewport_size != size:
            await self.page.set_viewport_size(size)

    async def _colour(self, scheme: _Scheme) -> None:
        if self._scheme != scheme:
            await self.page.emulate_media(color_scheme=scheme)
            self._scheme = scheme

    async def _check_as_shown(self, look: Look) -> bool:
        """Return whether there is text of a kind that was not known."""
        known = _KNOWN[look.scheme]
        asked = {
            "options": look.options, "whole": look.whole, "contrast": look.contrast,
            "known": list(known), "knownShapes": list(_KNOWN_SHAPES),
        }  # fmt: skip
        found = await self.page.evaluate(_LOOK, asked)
        results = AxeResults(found)
        place = f"{self.page.url} {look.scheme}, {look.width}"
        assert results.violations_count == 0, f"{place}\n{results.generate_report()}"
        known.update(found["kinds"])
        _KNOWN_SHAPES.update(found["shapes"])
        return bool(found["kinds"])


async def inspecting(context: BrowserContext, *, long: bool = False) -> Inspector:
    """One that looks at a tab of its own, where axe is in every page from the beginning."""
    await context.add_init_script(AXE_SCRIPT)
    return Inspector(await context.new_page(), long=long)
