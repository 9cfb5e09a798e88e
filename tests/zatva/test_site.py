"""The documentation site: links, what it loads, and the names of buttons."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from babel.messages.pofile import read_po

_ROOT: Final = Path(__file__).parents[2]
_LOADED: Final = re.compile(
    r'<(?:script|img|iframe|link rel="?(?:stylesheet|preconnect))[^>]*(?:src|href)="?(?:https?:)?//'
)
_QUOTED: Final = re.compile(r"(?<!\*)\*([^*\n]+)\*(?!\*)")


def test_the_site_has_no_dead_links_and_loads_nothing_from_other_sites(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=_ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr

    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(list((_ROOT / "docs").rglob("*.md")))
    assert [page for page in pages if _LOADED.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("language", ["cs", "sk"])
def test_a_translated_tutorial_names_buttons_as_the_dashboard_does(language: str) -> None:
    with (_ROOT / "web" / "translations" / f"{language}.po").open("rb") as file:
        shown = {message.string for message in read_po(file)}
    page = (_ROOT / "docs" / "tutorial" / f"librarian.{language}.md").read_text(encoding="utf-8")
    quoted = {name for group in _QUOTED.findall(page) for name in group.split(" → ")}
    assert quoted
    assert quoted - shown == set()
