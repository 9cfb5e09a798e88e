"""The parser of `zatva provider export`, and the options by which other commands choose captures, too."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from oai.cli import add_command
from oai.command_parser import count, filled

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_export(provider: "Subcommands") -> None:
    """Add `provider export`."""
    export = add_command(
        provider,
        "export",
        help="write captures to a WARC or WACZ file",
        handler="provider.export.commands:export",
    )
    add_selection(export)
    _add_output(export)
    export.add_argument(
        "--out",
        type=filled,
        metavar="FILE",
        help="output file; - for standard output, which is the default (WARC only)",
    )


def add_exports(exports: "Subcommands", handlers: str) -> None:
    """Add the commands of `provider exports`, whose handlers are in that module."""
    prepare = add_command(
        exports, "prepare", help="queue a file for download from the dashboard", handler=f"{handlers}:prepare"
    )
    add_selection(prepare)
    _add_output(prepare, default=" (default: wacz)")
    listing = add_command(
        exports, "list", help="list the prepared files, newest first", handler=f"{handlers}:list_exports"
    )
    listing.add_argument(
        "--limit", type=count, default=50, metavar="N", help="at most this many (default: %(default)s)"
    )
    for name, help_text, handler in (
        ("show", "show a prepared file and its state", "show_export"),
        ("remove", "remove a prepared file, or stop its preparation", "remove_prepared"),
    ):
        one = add_command(exports, name, help=help_text, handler=f"{handlers}:{handler}")
        one.add_argument("export_id", type=int, metavar="NUMBER", help="number of the file")


def add_selection(export: argparse.ArgumentParser) -> None:
    """Add the options that choose what is exported."""
    export.add_argument(
        "urls",
        nargs="*",
        metavar="URL",
        help="all captures of a URL; PREFIX* and *.DOMAIN mean all URLs with this prefix or of this domain",
    )
    export.add_argument("--list", type=Path, metavar="FILE", help="file with such URLs, one per line")
    add_match(export)
    export.add_argument(
        "--set", metavar="SPEC", help="documents of this set, such as collection:serials or domain:cz:example"
    )
    export.add_argument(
        "--of-title",
        metavar="TITLE",
        help="documents of this title: its number, its key, or SOURCE:KEY if several sources have the key",
    )
    add_times(export)


def _add_output(
    export: argparse.ArgumentParser, default: str = " (default: wacz if FILE ends in .wacz, otherwise warc)"
) -> None:
    export.add_argument(
        "--format", dest="form", choices=("warc", "wacz"), help=f"WARC, gzipped, or WACZ{default}"
    )
    export.add_argument("--title", metavar="TEXT", help="title of a WACZ file (default: the selection)")
    export.add_argument(
        "--reading-room",
        action="store_true",
        help="include documents that may be read in the reading room only",
    )


def add_match(command: argparse.ArgumentParser) -> None:
    """Add the options that say which URLs a URL stands for."""
    wide = command.add_mutually_exclusive_group()
    wide.add_argument(
        "--prefix", dest="match", action="store_const", const="prefix", help="all URLs that begin with this"
    )
    wide.add_argument(
        "--host", dest="match", action="store_const", const="host", help="all URLs of this host"
    )
    wide.add_argument(
        "--domain", dest="match", action="store_const", const="domain", help="this host and its subdomains"
    )


def add_times(command: argparse.ArgumentParser) -> None:
    """Add the options for times of capture."""
    command.add_argument("--from", dest="since", metavar="T", help="captured at or after this time (UTC)")
    command.add_argument(
        "--until", metavar="T", help="captured at or before this time (UTC); a date includes the whole day"
    )
