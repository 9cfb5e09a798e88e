"""The commands of the provider, described; their handlers are in `commands.py` and `serving.py`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from oai.cli import add_command, add_group

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_commands(commands: "Subcommands") -> None:
    """Add `provider` with its commands."""
    provider = add_group(commands, "provider", help="expose the archive to harvesters, and fill it")
    _add_serve(provider)
    _add_index(provider)
    add_command(
        provider, "status", help="show what is indexed and published", handler="provider.commands:status"
    )
    _add_collection(add_group(provider, "collection", help="collections and what is in them"))
    for name, help_text in (
        ("hide", "show documents as deleted to harvesters"),
        ("unhide", "show hidden documents again"),
    ):
        command = add_command(provider, name, help=help_text, handler=f"provider.commands:{name}")
        command.add_argument(
            "document", metavar="IDENTIFIER|URL", help="one document, or all captures of a URL"
        )
        command.add_argument("--url-prefix", action="store_true", help="take every URL that begins so")


def _add_serve(provider: "Subcommands") -> None:
    serve = add_command(provider, "serve", help="answer OAI-PMH requests", handler="provider.serving:serve")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=int, default=8080, help="port to listen on (default: %(default)s)")
    serve.add_argument("--base-url", metavar="URL", help="the base URL as the world sees it")
    serve.add_argument(
        "--processes", type=_number, default=1, metavar="N", help="processes (default: %(default)s)"
    )


def _add_index(provider: "Subcommands") -> None:
    index = add_command(provider, "index", help="index ARC and WARC files", handler="provider.commands:index")
    index.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="file, or folder with files")
    index.add_argument("--collection", metavar="SPEC", help="put the new documents into this collection")
    index.add_argument("--jobs", type=_number, metavar="N", help="processes (default: one for each core)")
    index.add_argument("--again", action="store_true", help="read unchanged files, too")


def _add_collection(collection: "Subcommands") -> None:
    add = add_command(
        collection,
        "add",
        help="make a collection, or name and describe it anew",
        handler="provider.commands:collection_add",
    )
    add.add_argument("spec", metavar="SPEC", help="such as serials:nov07; those above it are made, too")
    add.add_argument("--name", help="name that harvesters see")
    add.add_argument("--description", help="what the collection holds")
    add_command(collection, "list", help="list collections", handler="provider.commands:collection_list")
    for name, help_text in (
        ("assign", "put documents into a collection"),
        ("remove", "take documents out of a collection"),
    ):
        command = add_command(
            collection, name, help=help_text, handler=f"provider.commands:collection_{name}"
        )
        command.add_argument("spec", metavar="SPEC", help="such as serials:nov07")
        _add_selectors(command)


def _add_selectors(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("--arc", metavar="NAME", help="all documents of an archive file")
    which.add_argument("--url-prefix", metavar="PREFIX", help="documents whose URL begins so")
    which.add_argument("--domain", metavar="HOST", help="documents from a host and all below it")
    command.add_argument("--from", dest="since", metavar="T", help="captured then or later (UTC)")
    command.add_argument("--until", metavar="T", help="captured then or earlier (UTC); a day to its end")


def _number(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 or more")
    return value
