"""`zatva restore`, described."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harvester.cli_options import add_manners
from oai.cli import add_command

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_restore(commands: "Subcommands") -> None:
    """Add `zatva restore`."""
    restore = add_command(
        commands,
        "restore",
        help="fetch archived documents from a Zatva provider, as a copy to look at or as WARC files",
        handler="harvester.restore_commands:restore_site",
    )
    restore.add_argument(
        "what",
        metavar="SET|URL-PREFIX",
        help="a setSpec, or what the URLs begin with: http://www.example.cz/",
    )
    restore.add_argument("folder", metavar="DIR", type=Path, help="a new folder, or one to go on with")
    restore.add_argument(
        "--from", dest="base_url", metavar="BASEURL",
        help="base URL of the provider (default: the one of the settings)",
    )  # fmt: skip
    restore.add_argument(
        "--at", metavar="TIME", help="the capture of each URL that is nearest to this day or moment (UTC)"
    )
    restore.add_argument(
        "--as", dest="form", choices=("files", "warc"), default="files",
        help="a copy that a browser shows from disk, or WARC files (default: %(default)s)",
    )  # fmt: skip
    restore.add_argument(
        "--dry-run", action="store_true", help="tell what would be fetched, and fetch and write nothing"
    )
    _add_patience(restore)


def _add_patience(restore: argparse.ArgumentParser) -> None:
    add_manners(restore)
    restore.add_argument("--retries", type=int, metavar="N", help="further tries of a request that failed")
    restore.add_argument(
        "--max-wait", type=float, metavar="SECONDS",
        help="longest Retry-After to sit out; a longer one ends the run as `try later`",
    )  # fmt: skip
