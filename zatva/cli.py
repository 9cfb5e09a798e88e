"""The command `zatva`: joins the commands of all parts."""

import argparse
import sys
from collections.abc import Sequence

import harvester.cli
import manager.cli
import provider.cli
import web.cli
from oai.cli import add_command, add_group, run
from zatva import __version__


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="zatva", description="OAI-PMH 2.0 for web archives and libraries.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"zatva {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    init = add_command(
        commands,
        "init",
        help="write zatva.toml, make the data folder and the tables",
        handler="zatva.init:init",
    )
    init.add_argument("--force", action="store_true", help="write zatva.toml anew where there is one")
    demo = add_command(
        commands, "demo", help="show everything at work on generated data", handler="zatva.demo:demo"
    )
    demo.add_argument("--once", action="store_true", help="run through, print a summary, and end")
    add_command(
        commands, "doctor", help="look whether everything needed is there", handler="zatva.doctor:doctor"
    )
    database = add_group(commands, "database", help="the database's tables")
    add_command(
        database, "upgrade", help="bring the tables to this version", handler="zatva.database:upgrade"
    )
    add_command(database, "current", help="show the tables' version", handler="zatva.database:current")
    serve = add_command(
        commands, "serve", help="run provider, manager and dashboard together", handler="zatva.serve:serve"
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=int, default=8080, help="the provider's port (default: %(default)s)")
    serve.add_argument(
        "--web-port", type=int, default=8090, help="the dashboard's port (default: %(default)s)"
    )
    for part in (provider, harvester, manager, web):
        part.cli.add_commands(commands)
    manager.cli.add_queue_option(provider.cli.index_command(commands))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit code."""
    return run(build_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
