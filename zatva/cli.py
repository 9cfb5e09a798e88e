"""The command `zatva`: combines the commands of all parts."""

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import harvester.cli
import manager.cli
import provider.cli
import web.cli
from oai.cli import add_command, add_group, group_of, run
from oai.command_parser import CommandParser
from zatva import __version__
from zatva.examples import EXAMPLES, FIRST

if TYPE_CHECKING:
    from oai.cli import Subcommands


_PURPOSES: Final = {
    "start": ("demo", "init", "doctor", "settings", "serve"),
    "harvest": ("probe", "harvest", "repository", "schedule", "job", "rule", "store", "import", "restore"),
    "archive": ("provider",),
    "run": ("manager", "worker", "web"),
    "administer": ("user", "organisation", "token", "notify", "keys", "database"),
}
"""The commands in the order in which people need them."""
_MOST_HOURS: Final = 10_000
"""More than a year; longer overlaps would make the replacement pointless."""


@cache
def build_parser() -> CommandParser:
    """Return the parser of the whole command line.

    Cached, because building it takes longer than many commands; forked processes inherit it.
    """
    parser = CommandParser(
        prog="zatva", description="OAI-PMH 2.0 for web archives and libraries.", allow_abbrev=False
    )
    parser.purposes, parser.examples = _PURPOSES, FIRST
    parser.add_argument("--version", action="version", version=f"zatva {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    _add_start(commands)
    _add_database(add_group(commands, "database", help="manage the database: tables and backups"))
    _add_keys(add_group(commands, "keys", help="manage the keys that sign resumption tokens"))
    for part in (provider, harvester, manager, web):
        part.cli.add_commands(commands)
    manager.cli.add_store_audits(group_of(commands, "store"))
    _add_enrichment(group_of(group_of(commands, "provider"), "titles"))
    manager.cli.add_prepared_exports(group_of(commands, "provider"))
    manager.cli.add_queue_option(provider.cli.index_command(commands))
    for line in EXAMPLES.strip().splitlines():
        _add_example(parser, line)
    return parser


def _add_start(commands: "Subcommands") -> None:
    """Add the commands of the whole program, with which people start."""
    init = add_command(
        commands,
        "init",
        help="create the settings file, the data folder and the tables",
        handler="zatva.init:init",
    )
    init.set_defaults(writes_settings=True)
    init.add_argument("--force", action="store_true", help="overwrite an existing settings file")
    demo = add_command(
        commands, "demo", help="demonstrate all parts with generated data", handler="zatva.demo:demo"
    )
    demo.add_argument("--once", action="store_true", help="run without interaction, print a summary and exit")
    add_command(
        commands, "doctor", help="check that Zatva can run on this machine", handler="zatva.doctor:doctor"
    )
    settings = add_command(
        commands,
        "settings",
        help="show the settings and where each comes from",
        handler="zatva.init:show_settings",
    )
    settings.add_argument("--changed", action="store_true", help="only those that are not the defaults")
    serve = add_command(
        commands,
        "serve",
        help="run the provider, manager and dashboard together",
        handler="zatva.serve:serve",
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=int, default=8080, help="the provider's port (default: %(default)s)")
    serve.add_argument(
        "--web-port", type=int, default=8090, help="the dashboard's port (default: %(default)s)"
    )


def _add_enrichment(titles: "Subcommands") -> None:
    """Add the command that joins titles with harvested records; neither package knows the other."""
    enrich = add_command(
        titles,
        "enrich",
        help="complete titles from the MARC records of the library's catalogue",
        handler="zatva.enrichment:enrich",
    )
    enrich.add_argument("files", nargs="*", type=Path, metavar="FILE", help="MARCXML or ISO 2709")
    enrich.add_argument("--source", required=True, metavar="NAME", help="source of the titles to complete")
    enrich.add_argument("--repository", type=int, metavar="ID", help="read the records harvested from it")
    enrich.add_argument(
        "--format",
        metavar="PREFIX",
        help="metadata format of the harvested records (default: the one with MARC records)",
    )
    enrich.add_argument("--dry-run", action="store_true", help="only show what would change")
    enrich.add_argument(
        "--approve",
        action="store_true",
        help="also if it changes or removes more than provider.title_change_percent of what was added before",
    )


def _add_example(parser: CommandParser, line: str) -> None:
    """Add the example to the help of its command: that of the longest sequence of names."""
    for word in line.split()[1:]:
        if parser.commands is None or word not in parser.commands.choices:
            break
        parser = parser.commands.choices[word]
    parser.examples = (*parser.examples, line)


def _add_database(database: "Subcommands") -> None:
    for name, help_text in (
        ("upgrade", "upgrade the tables to this version"),
        ("current", "show the version of the tables"),
        ("check", "check that the tables are complete and match this version, and show the address for psql"),
    ):
        add_command(database, name, help=help_text, handler=f"zatva.database:{name}")
    backup = add_command(
        database,
        "backup",
        help="back up the whole database into one file; with --store, also record files and raw answers",
        handler="zatva.backup:backup",
    )
    backup.add_argument("file", type=Path, metavar="FILE", help="new file to write")
    backup.add_argument(
        "--store",
        type=Path,
        metavar="FOLDER",
        help="also put the record files and raw answers into this new folder",
    )
    restore = add_command(
        database, "restore", help="replace the database with a backup", handler="zatva.backup:restore"
    )
    restore.add_argument("file", type=Path, metavar="FILE", help="file written by `zatva database backup`")
    restore.add_argument("--force", action="store_true", help="replace existing tables")
    restore.add_argument(
        "--store",
        type=Path,
        metavar="FOLDER",
        help="also restore the record files and raw answers of this folder",
    )
    restore.add_argument(
        "--overwrite-files",
        action="store_true",
        help="replace record files outside the data folder that the replaced database does not have",
    )


def _add_keys(keys: "Subcommands") -> None:
    add_command(keys, "list", help="list the keys, without their secrets", handler="zatva.keys:list_keys")
    rotate = add_command(
        keys, "rotate", help="replace the keys; for a while, both are accepted", handler="zatva.keys:rotate"
    )
    ending = rotate.add_mutually_exclusive_group()
    ending.add_argument(
        "--overlap-hours",
        type=_hours,
        metavar="HOURS",
        help="hours for which former keys are accepted (default: provider.token_hours)",
    )
    ending.add_argument(
        "--now", action="store_true", help="end former keys at once: harvesters start their lists again"
    )


def _hours(text: str) -> int:
    hours = int(text) if text.isascii() and text.isdecimal() else 0
    if not 1 <= hours <= _MOST_HOURS:
        raise argparse.ArgumentTypeError(f"{text!r}: use 1 to {_MOST_HOURS} hours, or --now")
    return hours


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run(build_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
