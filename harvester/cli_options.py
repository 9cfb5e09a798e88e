"""Options that several of the harvester's commands have."""

import argparse
from pathlib import Path
from typing import Any

from harvester.plan import Option, Parameter, Surface, carried


def add_parameters(parser: argparse.ArgumentParser, *places: int) -> None:
    """Add the options of `zatva harvest` that have these places in its help."""
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
    """Add the option that says how a repository is asked."""
    parser.add_argument(
        "--protocol", choices=("oai-pmh", "sru", "z39.50"),
        help="protocol (default: z39.50 for z3950://host:port/database, otherwise oai-pmh)",
    )  # fmt: skip


def add_manners(parser: argparse.ArgumentParser) -> None:
    """Add the options that win over the settings of the client."""
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="seconds to wait for the answer to one request"
    )
    parser.add_argument(
        "--delay", type=float, metavar="SECONDS", help="seconds between two requests to the server"
    )
    parser.add_argument("--user-agent", metavar="TEXT", help="User-Agent sent with each request")


def add_patience(parser: argparse.ArgumentParser) -> None:
    """Add the further options of the client that only a harvest needs."""
    parser.add_argument("--retries", type=int, metavar="N", help="retries of a failed request")
    parser.add_argument(
        "--max-wait", type=float, metavar="SECONDS",
        help="longest Retry-After to wait for; a longer one ends the run with `try later`",
    )  # fmt: skip
    parser.add_argument(
        "--keep-raw", action="store_true", default=None, help="store requests and answers in a WARC file"
    )
