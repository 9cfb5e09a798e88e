"""`zatva harvest` and the harvest process, described."""

import argparse
from typing import TYPE_CHECKING

from harvester.cli_options import (
    add_manners,
    add_parameters,
    add_patience,
    add_process_parameters,
    add_protocol,
)
from oai.cli import add_command, add_shared_options

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_harvest(commands: "Subcommands") -> None:
    """Add `zatva harvest`."""
    harvest = add_command(
        commands,
        "harvest",
        help="harvest a repository into files",
        handler="harvester.harvest_commands:harvest",
    )
    harvest.add_argument(
        "repository", metavar="URL|ID", nargs="?", help="base URL, or the number of a repository"
    )
    harvest.add_argument(
        "--out", metavar="DIR", help="folder for the record files (default: named after the host)"
    )
    add_protocol(harvest)
    add_parameters(harvest, 0)
    harvest.add_argument(
        "--dry-run", action="store_true", help="show the planned requests and the reasons, without harvesting"
    )
    add_parameters(harvest, 1)
    harvest.add_argument(
        "--resume", action="store_true",
        help="fail unless there is an interrupted run to resume (by default, a harvest resumes one if "
        "there is one)",
    )  # fmt: skip
    add_parameters(harvest, *range(2, 6))
    add_manners(harvest)
    add_patience(harvest)
    harvest.add_argument(
        "--replay", type=int, metavar="HISTORY_ID",
        help="process the stored answers of this run again, with the current rules, instead of "
        "querying a repository",
    )  # fmt: skip


def build_process_parser() -> argparse.ArgumentParser:
    """The command line of the harvest process, `python -m harvester` (UIUC, "Harvester Program")."""
    parser = argparse.ArgumentParser(
        prog="python -m harvester", description="Harvest one repository.", allow_abbrev=False
    )
    parser.set_defaults(handler="harvester.harvest_commands:harvest_process")
    parser.add_argument(
        "--repository-id", type=int, required=True, metavar="N", help="number of the repository"
    )
    parser.add_argument("--job-id", type=int, metavar="N", help="number of the job")
    parser.add_argument("--recurring-id", type=int, metavar="N", help="number of the job's schedule")
    add_process_parameters(parser)
    add_manners(parser)
    add_patience(parser)
    parser.add_argument(
        "--end-with-parent",
        action="store_true",
        help="stop when standard input is closed, as when the parent process ends",
    )
    add_shared_options(parser)
    return parser
