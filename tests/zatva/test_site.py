"""The documentation site: links, what it loads, and the names of buttons."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from babel.messages.pofile import read_po

from tests.screenshots import FOLDER, PICTURES

_ROOT: Final = Path(__file__).parents[2]
_LOADED: Final = re.compile(
    r'<(?:script|img|iframe|link rel="?(?:stylesheet|preconnect))[^>]*(?:src|href)="?(?:https?:)?//'
)
_LINK: Final = re.compile(r"\]\(([^)#]+\.md)")
_QUOTED: Final = re.compile(r"(?<!\*)\*([^*\n]+)\*(?!\*)")


@pytest.mark.parametrize(
    "plugins", [pytest.param("[search]", marks=pytest.mark.long), pytest.param("[]", id="without the index")]
)
def test_the_site_has_no_dead_links_and_loads_nothing_from_other_sites(tmp_path: Path, plugins: str) -> None:
    """The search index takes a quarter of the time and has no links, so it is built with `--long` only."""
    config, site = tmp_path / "mkdocs.yml", tmp_path / "site"
    config.write_text(
        f"INHERIT: {_ROOT}/mkdocs.yml\ndocs_dir: {_ROOT}/docs\nplugins: {plugins}\n"
        f"hooks: [{_ROOT}/script/site_hooks.py]\n",
        encoding="utf-8",
    )
    words = ("build", "--strict", "--quiet", "--config-file", config, "--site-dir", site)
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", *words],
        cwd=_ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr

    pages = list(site.rglob("*.html"))
    assert len(pages) > len(list((_ROOT / "docs").rglob("*.md")))
    assert [page for page in pages if _LOADED.search(page.read_text(encoding="utf-8"))] == []


def test_the_index_links_to_every_page_and_the_list_of_decisions_to_every_decision() -> None:
    docs = _ROOT / "docs"
    linked = {
        (page.parent / link).resolve()
        for page in (docs / "index.md", docs / "decisions" / "README.md")
        for link in _LINK.findall(page.read_text(encoding="utf-8"))
    }
    pages = {page for page in docs.rglob("*.md") if page.name != "index.md"}
    assert pages - linked == set()


def test_each_picture_is_taken_by_a_script_and_shown_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (_ROOT / "docs").rglob("*.md"))

    assert {picture.stem for picture in FOLDER.glob("*.png")} == set(PICTURES)
    assert [name for name in PICTURES if f"images/{name}.png)" not in pages] == []


@pytest.mark.parametrize("language", ["cs", "sk"])
def test_a_translated_tutorial_uses_the_button_names_of_the_dashboard(language: str) -> None:
    with (_ROOT / "web" / "translations" / f"{language}.po").open("rb") as file:
        shown = {message.string for message in read_po(file)}
    page = (_ROOT / "docs" / "tutorial" / f"librarian.{language}.md").read_text(encoding="utf-8")
    quoted = {name for group in _QUOTED.findall(page) for name in group.split(" → ")}
    assert quoted
    assert quoted - shown == set()
