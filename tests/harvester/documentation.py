"""Extracts the examples from a page of the documentation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Example:
    """A block of code or commands, followed by the text block with its expected output."""

    language: str
    code: str
    output: str | None


def examples(page: str, language: str) -> Sequence[Example]:
    """Return the page's examples in the language, in order; `page` is a path below `docs`."""
    blocks = _BLOCK.findall((_DOCS / page).read_text(encoding="utf-8"))
    following = [*blocks[1:], ("", "")]
    return [
        Example(language=name, code=code, output=after if kind == "text" else None)
        for (name, code), (kind, after) in zip(blocks, following, strict=True)
        if name == language
    ]
