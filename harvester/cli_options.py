"""Options that several of the harvester's commands have."""

import argparse


def add_course(parser: argparse.ArgumentParser) -> None:
    """Add the options of all ways to harvest; they win over what the repository wishes."""
    parser.add_argument(
        "--slice", choices=("month", "day"),
        help="a list for each month or day, where tokens expire before a whole list is read",
    )  # fmt: skip
    parser.add_argument(
        "--ignore-wait", action="store_true", help="ask although the repository asked to be left alone longer"
    )
    parser.add_argument("--files-per-dir", type=int, metavar="N", help="files in one folder (default: 5000)")
    parser.add_argument(
        "--full", action="store_true", help="everything, not only what changed since last time"
    )


def add_protocol(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how a repository is asked."""
    parser.add_argument(
        "--protocol", choices=("oai-pmh", "sru", "z39.50"),
        help="how to ask (default: z39.50 of z3950://host:port/database, else oai-pmh)",
    )  # fmt: skip


def add_manners(parser: argparse.ArgumentParser) -> None:
    """Add the options that win over the settings of the client."""
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="longest time for one request")
    parser.add_argument(
        "--delay", type=float, metavar="SECONDS", help="pause between two requests to the server"
    )
    parser.add_argument("--user-agent", metavar="TEXT", help="the name that is sent with each request")


def add_patience(parser: argparse.ArgumentParser) -> None:
    """Add the further options of the client that only a harvest needs."""
    parser.add_argument("--retries", type=int, metavar="N", help="further tries of a request that failed")
    parser.add_argument(
        "--max-wait", type=float, metavar="SECONDS",
        help="longest Retry-After to sit out; a longer one ends the run as `try later`",
    )  # fmt: skip
    parser.add_argument(
        "--keep-raw", action="store_true", default=None, help="keep requests and answers in a WARC file"
    )
