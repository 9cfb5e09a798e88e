"""Pages under axe's eyes, light and dark, wide and narrow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.async_api import BrowserContext, Page, ViewportSize

WIDE, NARROW = 1280, 390
"""Pixels."""
_COLOURS: Final = ("color-contrast", "link-in-text-block")
"""The rules that depend on colours; they take two thirds of axe's time.

They look at one text of each kind that no page has shown before, in each scheme; `--long` has all in light.
"""
_EVERYTHING: Final = {"resultTypes": ["violations"]}
"""What passes is found all the same, but not written down element by element."""
_STRUCTURE: Final = {**_EVERYTHING, "rules": {rule: {"enabled": False} for rule in _COLOURS}}
_CONTRAST: Final = {**_EVERYTHING, "runOnly": _COLOURS}
_LOOK: Final = Path(__file__).with_name("look.js").read_text(encoding="utf-8")
_LAYOUT: Final = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")
_WIDTHS: Final = (390, 1024, 1180)
"""Of phones, and of windows in which tables are narrowest before they become cards."""
ALL_WIDTHS: Final = (390, 768, 1024, 1180, 1280, 1440)
"""Those that `--long` looks at."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """A way to show a page, and what is looked at then: all, or what can be different."""

    width: int
    scheme: Literal["light", "dark"]
    options: Mapping[str, Any] | None
    contrast: Mapping[str, Any] | None


_DARK: Final = Look(width=WIDE, scheme="dark", options=None, contrast=_CONTRAST)
_LOOKS: Final = (Look(width=WIDE, scheme="light", options=_STRUCTURE, contrast=_CONTRAST), _DARK)
_LONG_LOOKS: Final = (
    Look(width=WIDE, scheme="light", options=_EVERYTHING, contrast=None),
    _DARK,
    Look(width=NARROW, scheme="dark", options=None, contrast=_CONTRAST),
    Look(width=NARROW, scheme="light", options=_STRUCTURE, contrast=None),
)
"""Colours and most rules of axe do not depend on the width, and the layout is looked at in each width."""
_KNOWN: Final[dict[str, set[str]]] = {"light": set(), "dark": set()}
"""The kinds of text, by computed style, whose contrast this process has found sufficient in each scheme.

All tests share them: without an unknown kind, axe need not run, which saves it its look at the whole page.
"""


class Inspector:
    """Looks at pages."""

    def __init__(self, page: Page, *, long: bool = False) -> None:
        self.page = page
        self._widths: Sequence[int] = ALL_WIDTHS if long else _WIDTHS
        self._looks = _LONG_LOOKS if long else _LOOKS

    async def check(self, address: str | None = None) -> None:
        """Look at that page, or at what is shown, in each width and scheme; nothing is cut off or broken."""
        if address is not None:
            answer = await self.page.goto(address)
            assert answer is not None
            assert answer.ok or address.endswith("/no-such-page"), f"{address}: {answer.status}"
        for look in self._looks:
            await self._widen(look.width)
            await self.page.emulate_media(color_scheme=look.scheme)
            await self._check_as_shown(look)
        for width in self._widths:
            await self._widen(width)
            faults = await self.page.evaluate(_LAYOUT)
            assert not faults, f"{self.page.url} {width}\n" + "\n".join(faults)
        await self._widen(WIDE)

    async def _widen(self, width: int) -> None:
        size: ViewportSize = {"width": width, "height": 800}
        if self.page.viewport_size != size:
            await self.page.set_viewport_size(size)

    async def _check_as_shown(self, look: Look) -> None:
        known = _KNOWN[look.scheme]
        asked = {"options": look.options, "contrast": look.contrast, "known": list(known)}
        found = await self.page.evaluate(_LOOK, asked)
        results = AxeResults(found)
        place = f"{self.page.url} {look.scheme}, {look.width}"
        assert results.violations_count == 0, f"{place}\n{results.generate_report()}"
        known.update(found["kinds"])


async def inspecting(context: BrowserContext, *, long: bool = False) -> Inspector:
    """One that looks at a tab of its own, where axe is in every page from the beginning."""
    await context.add_init_script(AXE_SCRIPT)
    return Inspector(await context.new_page(), long=long)
