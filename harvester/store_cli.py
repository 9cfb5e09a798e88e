"""`zatva store`, described."""

from pathlib import Path
from typing import TYPE_CHECKING

from oai.cli import add_command, add_group

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_store(commands: "Subcommands") -> None:
    """Add `zatva store`."""
    group = add_group(commands, "store", help="the files of harvested records")
    verify = add_command(
        group,
        "verify",
        help="find missing, altered and stray files",
        handler="harvester.store_commands:verify",
    )
    verify.add_argument("repository", metavar="REPOSITORY", type=int, nargs="?", help="its number; else all")
    verify.add_argument(
        "--repair", action="store_true", help="remove files that were left half-written, and nothing else"
    )
    _add_rebuild(group)
    _add_export(group)


def _add_rebuild(group: "Subcommands") -> None:
    rebuild = add_command(
        group,
        "rebuild",
        help="make the database say what the files say",
        handler="harvester.store_commands:rebuild",
    )
    rebuild.add_argument("repository", metavar="REPOSITORY", type=int, nargs="?", help="its number")
    rebuild.add_argument("--dir", metavar="DIR", help="folder of a repository that the database has or had")
    rebuild.add_argument("--url", metavar="URL", help="its base URL, where the database has it no more")
    rebuild.add_argument(
        "--format",
        default="oai_dc",
        metavar="PREFIX",
        help="metadataPrefix of files without one in their names, where nobody knows (default: %(default)s)",
    )


def _add_export(group: "Subcommands") -> None:
    export = add_command(
        group,
        "export",
        help="write records into one file for others",
        handler="harvester.store_commands:export_records",
    )
    export.add_argument("repository", metavar="REPOSITORY", type=int, nargs="?", help="all of this one's")
    export.add_argument("--run", type=int, metavar="HISTORY_ID", help="those that this run changed")
    export.add_argument(
        "--as", dest="form", choices=("tar", "zip", "jsonl"), required=True, help="how they are written"
    )
    export.add_argument("--out", type=Path, metavar="FILE", help="file (default: standard output)")
