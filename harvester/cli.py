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
    harvest.add_argument(
        "repository", metavar="URL|ID", nargs="?", help="base URL, or the number of a repository"
    )
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
    _add_course(harvest)
    harvest.add_argument(
        "--dry-run", action="store_true", help="tell what would be asked for and why, and harvest nothing"
    )
    harvest.add_argument("--max", type=int, metavar="N", help="a sample: stop after so many records")
    harvest.add_argument("--no-parse-id", action="store_true", help="all files in one folder")
    harvest.add_argument("--files-per-dir", type=int, metavar="N", help="files in one folder (default: 5000)")
    _add_manners(harvest)
    harvest.add_argument("--retries", type=int, metavar="N", help="further tries of a request that failed")
    harvest.add_argument(
        "--max-wait", type=float, metavar="SECONDS",
        help="longest Retry-After to sit out; a longer one ends the run as `try later`",
    )  # fmt: skip
    harvest.add_argument(
        "--keep-raw", action="store_true", default=None, help="keep requests and answers in a WARC file"
    )
    harvest.add_argument(
        "--replay", type=int, metavar="HISTORY_ID",
        help="instead of asking a repository, take in again what was kept of this run, with today's rules",
    )  # fmt: skip
    probe = add_command(
        commands,
        "probe",
        help="look at any repository: who it is, what it offers, what is odd about it",
        handler="harvester.probe_commands:probe_repository",
    )
    probe.add_argument("url", metavar="URL", help="base URL")
    _add_manners(probe)
    _add_repository(commands)
    _add_store(commands)


def _add_course(parser: argparse.ArgumentParser) -> None:
    """Add the options that both ways to harvest have, and that win over what the repository wishes."""
    parser.add_argument(
        "--slice", choices=("month", "day"),
        help="a list for each month or day, where tokens expire before a whole list is read",
    )  # fmt: skip
    parser.add_argument(
        "--ignore-wait", action="store_true", help="ask although the repository asked to be left alone longer"
    )


def _add_manners(parser: argparse.ArgumentParser) -> None:
    """Add the options that win over the settings of the client."""
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="longest time for one request")
    parser.add_argument(
        "--delay", type=float, metavar="SECONDS", help="pause between two requests to the server"
    )
    parser.add_argument("--user-agent", metavar="TEXT", help="the name that is sent with each request")


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
    policy = add_command(
        group,
        "policy",
        help="what becomes of deleted records, and how much one run may do without a yes",
        handler="harvester.store_commands:repository_policy",
    )
    policy.add_argument("id", metavar="ID", type=int, help="the repository's number")
    policy.add_argument(
        "--deletions", choices=("remove", "mark", "move"), help="what becomes of a deleted record's file"
    )
    policy.add_argument(
        "--brake-deletions",
        metavar="PERCENT",
        help="share of the records that a run may delete; `default`: as set",
    )
    policy.add_argument(
        "--brake-updates",
        metavar="PERCENT",
        help="share of the records that a run may change; `default`: as set",
    )


def _add_store(commands: "Subcommands") -> None:
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
    _add_course(parser)
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
