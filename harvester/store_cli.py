"""`zatva store`, described."""

from pathlib import Path
from typing import TYPE_CHECKING

from oai.cli import add_command, add_group

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_store(commands: "Subcommands") -> None:
    """Add `zatva store`."""
    group = add_group(commands, "store", help="manage the files of harvested records")
    verify = add_command(
        group,
        "verify",
        help="find missing, altered and stray files",
        handler="harvester.store_commands:verify",
    )
    verify.add_argument(
        "repository",
        metavar="REPOSITORY",
        type=int,
        nargs="?",
        help="number of the repository (default: all)",
    )
    verify.add_argument(
        "--repair", action="store_true", help="remove unfinished temporary files, but no other files"
    )
    _add_rebuild(group)
    _add_export(group)


def _add_rebuild(group: "Subcommands") -> None:
    rebuild = add_command(
        group,
        "rebuild",
        help="rebuild the database rows from the record files",
        handler="harvester.store_commands:rebuild",
    )
    rebuild.add_argument(
        "repository", metavar="REPOSITORY", type=int, nargs="?", help="number of the repository"
    )
    rebuild.add_argument("--dir", metavar="DIR", help="folder of a current or former repository")
    rebuild.add_argument(
        "--url", metavar="URL", help="base URL of a repository that is no longer in the database"
    )
    rebuild.add_argument(
        "--format",
        default="oai_dc",
        metavar="PREFIX",
        help="metadataPrefix of files whose names do not contain one, if it is unknown (default: "
        "%(default)s)",
    )


def _add_export(group: "Subcommands") -> None:
    export = add_command(
        group,
        "export",
        help="export records into one file",
        handler="harvester.store_commands:export_records",
    )
    export.add_argument(
        "repository", metavar="REPOSITORY", type=int, nargs="?", help="all records of this repository"
    )
    export.add_argument("--run", type=int, metavar="HISTORY_ID", help="the records that this run changed")
    export.add_argument(
        "--as", dest="form", choices=("tar", "zip", "jsonl"), required=True, help="format of the export"
    )
    export.add_argument("--out", type=Path, metavar="FILE", help="file (default: standard output)")
