"""Options that several of the harvester's commands have."""

import argparse


def add_course(parser: argparse.ArgumentParser) -> None:
    """Add the options of all ways to harvest; they win over what the repository wishes."""
    parser.add_argument(
        "--slice", choices=("month", "day"),
        help="split the list by month or day, for repositories whose tokens expire before the whole "
        "list is read",
    )  # fmt: skip
    parser.add_argument(
        "--ignore-wait", action="store_true", help="harvest even if the repository asked to wait longer"
    )
    parser.add_argument("--files-per-dir", type=int, metavar="N", help="files in one folder (default: 5000)")
    parser.add_argument(
        "--full",
        action="store_true",
        help="harvest all records, not only those that changed since the last harvest",
    )


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
