"""The parsers of `zatva harvest` and of the harvest process."""

import argparse
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harvester.harvest_plan import Option, Parameter, Surface, carried
from oai.cli import add_command, add_shared_options
from oai.command_parser import bigint, filled, name_or_number

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_parameters(parser: argparse.ArgumentParser, *places: int) -> None:
    """Add the options of `zatva harvest` with these places in its help."""
    options = [(one.command, one) for one in carried(Surface.COMMAND) if one.command]
    for option, one in sorted(options, key=lambda pair: pair[0].place):
        if option.place in places:
            how, text = _in_words(one, option), option.help
            text += " (default: %(default)s)" if one.choices and how["default"] else ""
            parser.add_argument(*option.flags.split(), dest=option.target, help=text, **how)


def _in_words(one: Parameter, option: Option) -> dict[str, Any]:
    if one.kind is bool:
        return {"action": "store_true"}
    if one.choices is not None:
        default = next((word for word, choice in one.words.items() if choice is one.default), None)
        return {"choices": tuple(one.words), "default": default}
    return {"type": one.kind, "metavar": option.metavar, "default": one.default if one.kind is str else None}


def add_process_parameters(parser: argparse.ArgumentParser) -> None:
    """Add the options of the harvest process."""
    for one in carried(Surface.PROCESS):
        option = one.schedule or one.command
        how: dict[str, Any] = {"type": str if one.kind is Path else one.kind}
        if one.kind is bool:
            how = {"action": argparse.BooleanOptionalAction, "default": one.default}
        elif one.choices is not None:
            how["choices"] = tuple(choice.value for choice in one.choices)
        parser.add_argument(f"--{one.process.replace('_', '-')}", help=option.help if option else None, **how)


def add_protocol(parser: argparse.ArgumentParser) -> None:
    """Add the option for a repository's protocol."""
    parser.add_argument(
        "--protocol", choices=("oai-pmh", "sru", "z39.50"),
        help="protocol (default: z39.50 for z3950://host:port/database, otherwise oai-pmh)",
    )  # fmt: skip


def add_request_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that override the settings of the client."""
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="seconds to wait for the answer to one request"
    )
    parser.add_argument(
        "--delay", type=float, metavar="SECONDS", help="seconds between two requests to the server"
    )
    parser.add_argument("--user-agent", metavar="TEXT", help="User-Agent sent with each request")


def add_retry_options(parser: argparse.ArgumentParser) -> None:
    """Add those options, and the ones for failed requests."""
    add_request_options(parser)
    parser.add_argument("--retries", type=int, metavar="N", help="retries of a failed request")
    parser.add_argument(
        "--max-wait", type=float, metavar="SECONDS",
        help="longest Retry-After to wait for; a longer one ends the run with `try later`",
    )  # fmt: skip


def _add_client_options(parser: argparse.ArgumentParser) -> None:
    add_retry_options(parser)
    parser.add_argument(
        "--keep-raw", action="store_true", default=None, help="store requests and answers in a WARC file"
    )


def add_harvest(commands: "Subcommands") -> None:
    """Add `zatva harvest`."""
    harvest = add_command(
        commands,
        "harvest",
        help="harvest a repository into files",
        handler="harvester.cli.harvest:harvest",
    )
    harvest.add_argument(
        "repository",
        type=name_or_number,
        metavar="URL|ID",
        nargs="?",
        help="base URL, or the number of a repository",
    )
    harvest.add_argument(
        "--out",
        type=filled,
        metavar="DIR",
        help="folder for the record files (default: named after the host)",
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
    _add_client_options(harvest)
    harvest.add_argument(
        "--replay", type=bigint, metavar="HISTORY_ID",
        help="process the stored answers of this run again, with the current rules, instead of "
        "querying a repository",
    )  # fmt: skip


@cache
def build_process_parser() -> argparse.ArgumentParser:
    """Return the parser of the harvest process, `python -m harvester` (UIUC, "Harvester Program")."""
    parser = argparse.ArgumentParser(
        prog="python -m harvester", description="Harvest one repository.", allow_abbrev=False
    )
    parser.set_defaults(handler="harvester.cli.harvest:harvest_process")
    parser.add_argument(
        "--repository-id", type=int, required=True, metavar="N", help="number of the repository"
    )
    parser.add_argument("--job-id", type=int, metavar="N", help="number of the job")
    parser.add_argument("--recurring-id", type=int, metavar="N", help="number of the job's schedule")
    add_process_parameters(parser)
    _add_client_options(parser)
    parser.add_argument(
        "--end-with-parent",
        action="store_true",
        help="stop when standard input is closed, as when the parent process ends",
    )
    add_shared_options(parser)
    return parser
