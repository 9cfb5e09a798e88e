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
        help="restore archived documents from a Zatva provider, as a browsable copy or as WARC files",
        handler="harvester.restore_commands:restore_site",
    )
    restore.add_argument(
        "what",
        metavar="SET|URL-PREFIX",
        help="setSpec, or the beginning of the URLs: http://www.example.cz/",
    )
    restore.add_argument(
        "folder", metavar="DIR", type=Path, help="new folder, or the folder of a restore to continue"
    )
    restore.add_argument(
        "--from", dest="base_url", metavar="BASEURL",
        help="base URL of the provider (default: the provider of the settings)",
    )  # fmt: skip
    restore.add_argument(
        "--at",
        metavar="TIME",
        help="restore the capture of each URL that is nearest to this date or time (UTC)",
    )
    restore.add_argument(
        "--as", dest="form", choices=("files", "warc"), default="files",
        help="a copy to browse from disk, or WARC files (default: %(default)s)",
    )  # fmt: skip
    restore.add_argument(
        "--dry-run", action="store_true", help="show what would be fetched, without fetching or writing"
    )
    _add_patience(restore)


def _add_patience(restore: argparse.ArgumentParser) -> None:
    add_manners(restore)
    restore.add_argument("--retries", type=int, metavar="N", help="retries of a failed request")
    restore.add_argument(
        "--max-wait", type=float, metavar="SECONDS",
        help="longest Retry-After to wait for; a longer one ends the run with `try later`",
    )  # fmt: skip
