"""`zatva harvest` and the harvest process, described."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harvester.cli_options import add_course, add_manners, add_patience, add_protocol
from oai.cli import add_command, add_shared_options

if TYPE_CHECKING:
    from oai.cli import Subcommands

_VALIDATION_HELP = (
    "strict: well-formed answers; very-strict: valid records; loose: lenient, skip what is broken"
)


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
    _add_selection(harvest)
    _add_treatment(harvest)
    harvest.add_argument(
        "--dry-run", action="store_true", help="show the planned requests and the reasons, without harvesting"
    )
    harvest.add_argument("--max", type=int, metavar="N", help="stop after this many records")
    harvest.add_argument("--no-parse-id", action="store_true", help="put all files into one folder")
    harvest.add_argument(
        "--resume", action="store_true",
        help="fail unless there is an interrupted run to resume (by default, a harvest resumes one if "
        "there is one)",
    )  # fmt: skip
    add_course(harvest)
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
    _add_parameters(parser)
    parser.add_argument("--max", type=int, metavar="N", help="stop after this many records")
    add_course(parser)
    add_manners(parser)
    add_patience(parser)
    parser.add_argument(
        "--end-with-parent",
        action="store_true",
        help="stop when standard input is closed, as when the parent process ends",
    )
    add_shared_options(parser)
    return parser


def _add_selection(harvest: argparse.ArgumentParser) -> None:
    harvest.add_argument(
        "--format", default="oai_dc", metavar="PREFIX", help="metadataPrefix (default: oai_dc)"
    )
    harvest.add_argument(
        "--set", "--query", default="", metavar="SPEC",
        help="setSpec (default: the whole repository); for SRU a CQL query, for Z39.50 a PQF query",
    )  # fmt: skip
    harvest.add_argument("--from", dest="from_", metavar="DATE", help="earliest datestamp")
    harvest.add_argument("--until", metavar="DATE", help="latest datestamp")


def _add_treatment(harvest: argparse.ArgumentParser) -> None:
    harvest.add_argument(
        "--method", choices=("records", "identifiers"), default="records",
        help="ListRecords, or ListIdentifiers with a GetRecord for each (default: %(default)s)",
    )  # fmt: skip
    harvest.add_argument(
        "--validation", choices=("strict", "very-strict", "loose"), default="loose",
        help=f"{_VALIDATION_HELP} (default: %(default)s)",
    )  # fmt: skip
    harvest.add_argument("--filter", type=Path, metavar="FILE", help="rules that select records")
    harvest.add_argument(
        "--normalise", "--normalize", type=Path, metavar="FILE", help="rules that add values"
    )


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add the parameters of the UIUC harvester."""
    parser.add_argument(
        "--method", type=int, choices=(0, 1), default=0, help="0 ListRecords, 1 ListIdentifiers and GetRecord"
    )
    parser.add_argument("--set-spec", default="", metavar="SPEC", help="setSpec")
    parser.add_argument("--harvest-from", metavar="DATE", help="earliest datestamp")
    parser.add_argument("--harvest-to", metavar="DATE", help="latest datestamp")
    parser.add_argument("--metadata-prefix", default="oai_dc", metavar="PREFIX", help="metadata format")
    parser.add_argument("--filter-file", type=Path, metavar="FILE", help="rules that select records")
    parser.add_argument("--normalize-file", type=Path, metavar="FILE", help="rules that add values")
    parser.add_argument(
        "--validation", type=int, choices=(0, 1, 2), default=2, help="0 strict, 1 very strict, 2 lenient"
    )
    parser.add_argument(
        "--parse-id",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="create folders from identifiers",
    )
