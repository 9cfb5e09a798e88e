"""The commands of the harvester, described; their handlers are in `commands.py`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from oai.cli import add_command, add_group, add_shared_options

if TYPE_CHECKING:
    from oai.cli import Subcommands

_VALIDATION_HELP = "strict: well-formed answers; very-strict: valid records; loose: skip what is broken"


def add_commands(commands: "Subcommands") -> None:
    """Add this part's commands."""
    harvest = add_command(
        commands, "harvest", help="harvest a repository into files", handler="harvester.commands:harvest"
    )
    harvest.add_argument("repository", metavar="URL|ID", help="base URL, or the number of a repository")
    harvest.add_argument(
        "--out", metavar="DIR", help="folder for the record files (default: named after the host)"
    )
    harvest.add_argument(
        "--format", default="oai_dc", metavar="PREFIX", help="metadataPrefix (default: oai_dc)"
    )
    harvest.add_argument(
        "--set", default="", metavar="SPEC", help="setSpec; without it, the whole repository"
    )
    harvest.add_argument("--from", dest="from_", metavar="DATE", help="earliest datestamp")
    harvest.add_argument("--until", metavar="DATE", help="latest datestamp")
    harvest.add_argument(
        "--full", action="store_true", help="everything, not only what changed since the last time"
    )
    harvest.add_argument(
        "--method", choices=("records", "identifiers"), default="records",
        help="ListRecords, or ListIdentifiers with a GetRecord for each (default: %(default)s)",
    )  # fmt: skip
    harvest.add_argument(
        "--validation", choices=("strict", "very-strict", "loose"), default="loose",
        help=f"{_VALIDATION_HELP} (default: %(default)s)",
    )  # fmt: skip
    harvest.add_argument("--filter", type=Path, metavar="FILE", help="rules that choose records")
    harvest.add_argument(
        "--normalise", "--normalize", type=Path, metavar="FILE", help="rules that add values"
    )
    harvest.add_argument("--max", type=int, metavar="N", help="a sample: stop after so many records")
    harvest.add_argument("--no-parse-id", action="store_true", help="all files in one folder")
    harvest.add_argument("--files-per-dir", type=int, metavar="N", help="files in one folder (default: 5000)")
    _add_repository(commands)


def _add_repository(commands: "Subcommands") -> None:
    group = add_group(commands, "repository", help="the repositories that are harvested")
    add = add_command(
        group,
        "add",
        help="ask a repository who it is, and add it",
        handler="harvester.commands:repository_add",
    )
    add.add_argument("url", metavar="URL", help="base URL")
    add.add_argument(
        "dir", metavar="DIR", nargs="?", help="folder for its files (default: named after the host)"
    )
    add_command(group, "list", help="list the repositories", handler="harvester.commands:repository_list")
    for name, what in (
        ("show", "show one repository with its sets and formats"),
        ("remove", "remove a repository and its rows; its files stay"),
        ("refresh", "ask a repository again for its identity, sets and formats"),
    ):
        one = add_command(group, name, help=what, handler=f"harvester.commands:repository_{name}")
        one.add_argument("id", metavar="ID", type=int, help="the repository's number")


def build_process_parser() -> argparse.ArgumentParser:
    """The command line of the harvest process, `python -m harvester` (UIUC, "Harvester Program")."""
    parser = argparse.ArgumentParser(
        prog="python -m harvester", description="Harvest one repository.", allow_abbrev=False
    )
    parser.set_defaults(handler="harvester.commands:harvest_process")
    parser.add_argument(
        "--repository-id", type=int, required=True, metavar="N", help="the repository's number"
    )
    parser.add_argument("--job-id", type=int, metavar="N", help="the job that this is")
    parser.add_argument("--recurring-id", type=int, metavar="N", help="the schedule that the job comes from")
    parser.add_argument(
        "--method", type=int, choices=(0, 1), default=0, help="0 ListRecords, 1 ListIdentifiers and GetRecord"
    )
    parser.add_argument("--set-spec", default="", metavar="SPEC", help="setSpec")
    parser.add_argument("--harvest-from", metavar="DATE", help="earliest datestamp")
    parser.add_argument("--harvest-to", metavar="DATE", help="latest datestamp")
    parser.add_argument("--metadata-prefix", default="oai_dc", metavar="PREFIX", help="metadata format")
    parser.add_argument("--filter-file", type=Path, metavar="FILE", help="rules that choose records")
    parser.add_argument("--normalize-file", type=Path, metavar="FILE", help="rules that add values")
    parser.add_argument(
        "--validation", type=int, choices=(0, 1, 2), default=2, help="0 strict, 1 very strict, 2 loose"
    )
    parser.add_argument(
        "--parse-id", action=argparse.BooleanOptionalAction, default=True, help="folders from identifiers"
    )
    parser.add_argument("--files-per-dir", type=int, metavar="N", help="files in one folder")
    parser.add_argument("--full", action="store_true", help="everything, not only what changed")
    parser.add_argument(
        "--end-with-parent",
        action="store_true",
        help="stop when standard input ends, as it does with the parent",
    )
    add_shared_options(parser)
    return parser


def positional(value: str) -> int | None:
    """The repository's number, where the argument is one."""
    return int(value) if value.isascii() and value.isdigit() else None
