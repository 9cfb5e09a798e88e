"""Hooks of MkDocs: pages outside `docs` become pages of the site, and links to and from them lead there."""

from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT: Final = Path(__file__).parents[1]
_FOLDER: Final = "project/"
_PAGES: Final = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages in the root of the repository."""
    for name in _PAGES:
        files.append(File.generated(config, _FOLDER + name, abs_src_path=str(_ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 named by MkDocs
    """Rewrite links that cross the border of `docs`; the strict build reports the others."""
    here = page.file.src_uri
    if here.startswith(_FOLDER):
        return markdown.replace("](docs/", "](../")
    up = "../" * here.count("/")
    for name in _PAGES:
        markdown = markdown.replace(f"](../{up}{name}", f"]({up}{_FOLDER}{name}")
    return markdown.replace(f"](../{up}README.md)", f"]({up}index.md)")
