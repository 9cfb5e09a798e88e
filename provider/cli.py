"""The provider's command-line parsers; each command names its handler's module."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from oai.cli import add_command, add_group, add_shared_options, group_of
from oai.command_parser import count, filled, name_or_number, number
from oai.errors import UsageError
from provider.export.parser import add_export, add_match, add_times
from provider.storage.places import Place, place_given
from provider.titles import cli as titles_cli

if TYPE_CHECKING:
    from oai.cli import Subcommands


_HANDLERS = "provider.aggregate_commands"
_LONGEST_PAUSE = 3600
_COLLECTIONS = "provider.collection_commands"
_RULES = ("open", "reading-room", "embargo", "withheld")


def _add_aggregate_commands(aggregate: "Subcommands") -> None:
    """Add the commands of the aggregate."""
    _add_sources(aggregate)
    add_command(
        aggregate,
        "status",
        help="show how much of each repository is published, and why the rest is not",
        handler=f"{_HANDLERS}:show_status",
    )
    update = add_command(
        aggregate,
        "update",
        help="publish harvested records; `zatva provider serve` does this automatically",
        handler=f"{_HANDLERS}:update",
    )
    update.add_argument(
        "--whole", action="store_true", help="read all records, not only those in the change feed"
    )


def _add_sources(aggregate: "Subcommands") -> None:
    add = add_command(
        aggregate, "add", help="republish the records of a harvested repository", handler=f"{_HANDLERS}:add"
    )
    add.add_argument(
        "repository",
        type=name_or_number,
        metavar="REPOSITORY",
        help="number, base URL or name of the repository",
    )
    add.add_argument(
        "--set", dest="name", metavar="NAME", help="set of its records (default: named after the host)"
    )
    add.add_argument(
        "--identifiers",
        choices=("original", "own"),
        help="identifiers of the records: as harvested (default), or new ones in this provider's namespace",
    )
    altered = add.add_mutually_exclusive_group()
    altered.add_argument(
        "--altered",
        action="store_true",
        help="report the records as altered in their provenance, even if no schedule normalises them",
    )
    altered.add_argument("--not-altered", action="store_true", help="take `--altered` back")
    remove = add_command(
        aggregate,
        "remove",
        help="withdraw a repository: report its records as deleted",
        handler=f"{_HANDLERS}:remove",
    )
    remove.add_argument(
        "repository",
        type=name_or_number,
        metavar="REPOSITORY",
        help="number, base URL, name or set of the repository",
    )
    add_command(
        aggregate, "list", help="list the repositories in the aggregate", handler=f"{_HANDLERS}:show_sources"
    )


def add_commands(commands: "Subcommands") -> None:
    """Add `provider` with its commands."""
    provider = add_group(commands, "provider", help="index the archive and serve it to harvesters")
    _add_serve(provider)
    _add_index(provider)
    status = add_command(
        provider, "status", help="show what is indexed and published", handler="provider.commands:status"
    )
    status.add_argument("--run", type=count, metavar="N", help="show each file of an indexing run")
    _add_statistics(provider)
    _add_harvesters(provider)
    _add_check(provider)
    _add_collection(
        add_group(provider, "collection", help="manage collections: their documents and access rules")
    )
    add_command(
        add_group(provider, "access", help="update access to documents"),
        "refresh",
        help="lift expired embargoes and complete interrupted changes of collections",
        handler=f"{_COLLECTIONS}:access_refresh",
    )
    _add_hiding(provider)
    _add_redate(provider)
    _add_takedowns(add_group(provider, "takedown", help="keep the take-down register"))
    _add_find(provider)
    add_export(provider)
    add_command(
        provider,
        "reindex-keys",
        help="complete the URL keys of documents that an earlier version indexed, and remove the index "
        "that it read; may be interrupted",
        handler="provider.commands:reindex_keys",
    )
    _add_verify(provider)
    aggregate = add_group(provider, "aggregate", help="manage the aggregate: republish harvested records")
    _add_aggregate_commands(aggregate)
    titles_cli.add_commands(
        add_group(provider, "titles", help="manage titles: catalogue records of the archived sites")
    )


def index_command(commands: "Subcommands") -> argparse.ArgumentParser:
    """Return the parser of `provider index`, so that a higher layer can add an option to it."""
    parser: argparse.ArgumentParser = group_of(commands, "provider").choices["index"]
    return parser


def build_process_parser() -> argparse.ArgumentParser:
    """Return the command line of the indexing process."""
    parser = argparse.ArgumentParser(prog="python -m provider", description="Index one file of a run.")
    add_shared_options(parser)
    parser.add_argument("file_id", type=count, metavar="ID", help="row in index_file")
    parser.set_defaults(handler="provider.indexing.indexing_process:index_queued")
    return parser


def _add_serve(provider: "Subcommands") -> None:
    serve = add_command(provider, "serve", help="answer OAI-PMH requests", handler="provider.serving:serve")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=int, default=8080, help="port to listen on (default: %(default)s)")
    serve.add_argument(
        "--base-url", metavar="URL", help="public base URL (default: the setting provider.base_url)"
    )
    serve.add_argument(
        "--processes", type=count, default=1, metavar="N", help="number of processes (default: %(default)s)"
    )


def _add_harvesters(provider: "Subcommands") -> None:
    harvesters = add_command(
        provider,
        "harvesters",
        help="list harvesters and what they received",
        handler="provider.clients.commands:show_harvesters",
    )
    harvesters.add_argument("--lists", action="store_true", help="show the progress of each list instead")


def _add_check(provider: "Subcommands") -> None:
    check = add_command(
        provider,
        "check",
        help="check an OAI-PMH provider against the specification",
        handler="provider.checking.commands:check",
    )
    check.add_argument("url", metavar="URL", help="base URL, without arguments")
    check.add_argument(
        "--polite",
        type=number(float, 0, _LONGEST_PAUSE),
        default=0.5,
        metavar="SECONDS",
        help="pause between two requests (default: %(default)s)",
    )
    check.add_argument(
        "--max-requests",
        type=count,
        default=300,
        metavar="N",
        help="maximum number of requests (default: %(default)s)",
    )


def _place(text: str) -> Place:
    try:
        return place_given(filled(text))
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _collection(text: str) -> str:
    # Imported late: only the commands of collections need it, and it imports SQLAlchemy.
    from provider.holdings.sets import collection_set_spec

    try:
        return collection_set_spec(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_index(provider: "Subcommands") -> None:
    index = add_command(
        provider, "index", help="index ARC, WARC, WACZ and CDX files", handler="provider.commands:index"
    )
    index.add_argument(
        "paths",
        type=_place,
        nargs="+",
        metavar="PATH",
        help="file, folder with files, s3://bucket/prefix/, or the URL of a file or of a list.txt",
    )
    index.add_argument("--collection", metavar="SPEC", help="put the new documents into this collection")
    index.add_argument("--jobs", type=count, metavar="N", help="number of processes (default: one per core)")
    index.add_argument("--again", action="store_true", help="also read unchanged files")
    index.add_argument(
        "--archive-dir",
        type=_place,
        metavar="DIR",
        help="folder of the archive files that CDX files refer to",
    )
    index.add_argument(
        "--first-load",
        action="store_true",
        help="for an empty archive: build the indexes of the lists after loading",
    )


def _add_statistics(provider: "Subcommands") -> None:
    statistics = add_command(
        provider,
        "statistics",
        help="show numbers of documents",
        handler="provider.holdings.status:show_statistics",
    )
    statistics.add_argument(
        "--by",
        choices=("month", "type", "domain", "collection"),
        default="month",
        help="group by month of capture, MIME type, domain or collection (default: %(default)s)",
    )


def _add_collection(collection: "Subcommands") -> None:
    add = add_command(
        collection,
        "add",
        help="create a collection, or change its name and description",
        handler=f"{_COLLECTIONS}:collection_add",
    )
    add.add_argument(
        "spec", type=_collection, metavar="SPEC", help="such as serials:nov07; its parents are also created"
    )
    add.add_argument("--name", help="name that harvesters see")
    add.add_argument("--description", help="description of the contents")
    add_command(collection, "list", help="list collections", handler=f"{_COLLECTIONS}:collection_list")
    for name, help_text, add_arguments in (
        ("move", "move or rename a collection and all collections below it", _add_new_spec),
        ("drop", "remove a collection; its documents stay", _add_force),
        ("access", "set the access rule of a collection's documents", _add_rule),
        ("assign", "add documents to a collection", _add_selectors),
        ("remove", "remove documents from a collection", _add_selectors),
    ):
        command = add_command(collection, name, help=help_text, handler=f"{_COLLECTIONS}:collection_{name}")
        command.add_argument("spec", type=_collection, metavar="SPEC", help="such as serials:nov07")
        add_arguments(command)
        if name in {"access", "assign", "remove"}:
            command.add_argument("--dry-run", action="store_true", help="show what it would do, only")


def _add_hiding(provider: "Subcommands") -> None:
    for name, help_text in (
        ("hide", "hide documents: report them to harvesters as deleted"),
        ("unhide", "show hidden documents again"),
    ):
        command = add_command(provider, name, help=help_text, handler=f"{_COLLECTIONS}:{name}")
        _add_selectors(command).add_argument(
            "document",
            nargs="?",
            metavar="IDENTIFIER|URL",
            help="one document, or all captures of a URL in any spelling (the same URL key, as in `find`)",
        )


def _add_redate(provider: "Subcommands") -> None:
    redate = add_command(
        provider,
        "redate",
        help="give records a new datestamp, so that harvesters receive them again",
        handler=f"{_COLLECTIONS}:redate",
    )
    which = redate.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="all documents of the archive")
    which.add_argument("--set", metavar="SPEC", help="documents of this set")
    which.add_argument("--arc", metavar="NAME", help="documents of an archive file: its name or its path")
    which.add_argument("--titles", action="store_true", help="all titles")


def _add_takedowns(takedown: "Subcommands") -> None:
    add = add_command(
        takedown,
        "add",
        help="hide documents, also those that are indexed later",
        handler="provider.takedown_commands:add",
    )
    add.add_argument(
        "targets",
        nargs="*",
        metavar="URL",
        help="all captures of a URL; PREFIX* and *.HOST mean all URLs with this prefix or of this host "
        "and its subdomains",
    )
    add.add_argument("--list", type=Path, metavar="FILE", help="file with such URLs, one per line")
    add.add_argument("--reason", metavar="TEXT", help="why, for the register (required without --dry-run)")
    add.add_argument(
        "--requester", metavar="TEXT", help="who asked, and how to reach them (required without --dry-run)"
    )
    add.add_argument("--reference", metavar="TEXT", help="file number of the request")
    add.add_argument("--expires", metavar="T", help="end of the take-down (UTC); default: none")
    add.add_argument("--dry-run", action="store_true", help="only show what it would cover")
    show_all = add_command(
        takedown, "list", help="list the take-downs in force", handler="provider.takedown_commands:show_all"
    )
    show_all.add_argument("--all", action="store_true", help="also those that have ended")
    show_all.add_argument("--search", metavar="TEXT", help="only those with this text")
    show_all.add_argument("--limit", type=count, metavar="N", help="maximum number (default: all)")
    show = add_command(
        takedown, "show", help="show one take-down in full", handler="provider.takedown_commands:show"
    )
    lift = add_command(
        takedown,
        "lift",
        help="end a take-down: show its documents again",
        handler="provider.takedown_commands:lift",
    )
    lift.add_argument("--reason", required=True, metavar="TEXT", help="why it ends")
    for command in (show, lift):
        command.add_argument("number", type=count, metavar="NUMBER", help="number of the take-down")


def _add_new_spec(command: argparse.ArgumentParser) -> None:
    command.add_argument("new_spec", type=_collection, metavar="NEW-SPEC", help="such as newspapers:2007-11")


def _add_force(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--force",
        action="store_true",
        help="remove it even if it has documents, together with the collections below it",
    )


def _add_rule(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "rule", choices=_RULES, help="access rule; the strictest rule of a document's collections applies"
    )
    command.add_argument(
        "--until", metavar="T", help="end of an embargo (UTC); a date means the beginning of that day"
    )


def _add_selectors(command: argparse.ArgumentParser) -> "argparse._MutuallyExclusiveGroup":
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--arc",
        metavar="NAME",
        help="all documents of an archive file: its name, or its path if others have the name",
    )
    which.add_argument("--url-prefix", metavar="PREFIX", help="documents whose URL begins exactly with this")
    which.add_argument("--domain", metavar="HOST", help="documents from this host and its subdomains")
    add_times(command)
    return which


def _add_find(provider: "Subcommands") -> None:
    find = add_command(
        provider, "find", help="find captures of a URL", handler="provider.collection_commands:find"
    )
    find.add_argument(
        "url",
        metavar="URL",
        help="URLs with the same key are equivalent, such as http and https, with and without www, and other "
        "escapes; PREFIX* and *.DOMAIN match all URLs with this prefix or of this domain",
    )
    add_match(find)
    add_times(find)
    find.add_argument(
        "--limit",
        type=count,
        default=100,
        metavar="N",
        help="maximum number of captures (default: %(default)s)",
    )
    _add_choice(find)
    find.add_argument("--all", action="store_true", help="include hidden and withheld documents")


def _add_verify(provider: "Subcommands") -> None:
    verify = add_command(
        provider,
        "verify",
        help="read the archive files and compare them with the index",
        handler="provider.commands:verify",
    )
    verify.add_argument(
        "files",
        type=filled,
        nargs="*",
        metavar="FILE",
        help="name or absolute path of an archive file (default: all)",
    )
    verify.add_argument("--set", metavar="SPEC", help="only documents of this set")
    verify.add_argument("--sample", type=count, metavar="N", help="check N random documents of each file")
    verify.add_argument(
        "--search", action="append", type=_place, metavar="DIR", help="folder with files that were moved"
    )
    verify.add_argument(
        "--after",
        type=count,
        default=0,
        metavar="N",
        help="continue an interrupted check after file N",
    )


def _add_choice(find: argparse.ArgumentParser) -> None:
    order = find.add_mutually_exclusive_group()
    order.add_argument(
        "--closest", metavar="T", help="sort by distance to this time, nearest first; for one URL"
    )
    order.add_argument("--reverse", action="store_true", help="sort latest first; for one URL")
    find.add_argument(
        "--filter",
        action="append",
        metavar="[!]FIELD:REGEX",
        help="only captures whose field matches, such as status:200 or !mime:image/.*; may be repeated",
    )
    find.add_argument(
        "--collapse",
        metavar="FIELD[:N]",
        help="of consecutive captures that are equal in this field, or in its first N characters, show "
        "only the first",
    )
