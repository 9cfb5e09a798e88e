"""The parsers of `zatva provider titles`."""

from typing import TYPE_CHECKING

from oai.cli import add_command
from oai.command_parser import filled

if TYPE_CHECKING:
    from oai.cli import Subcommands

_HANDLERS = "provider.titles.commands"
_FORMATS = ("jsonl", "csv", "archive-it", "seeder")


def add_commands(titles: "Subcommands") -> None:
    """Add the commands of the titles."""
    _add_import(titles)
    listing = add_command(titles, "list", help="list the titles", handler=f"{_HANDLERS}:list_titles")
    listing.add_argument("--source", metavar="NAME", help="only those of this source")
    show = add_command(
        titles, "show", help="show everything about a title", handler=f"{_HANDLERS}:show_title"
    )
    show.add_argument(
        "title", metavar="TITLE", help="its number, its key, or SOURCE:KEY if several sources have the key"
    )
    add_command(
        titles,
        "update",
        help="count new captures (`zatva provider index` does that, too), and apply `title_document_sets`",
        handler=f"{_HANDLERS}:update_titles",
    )


def _add_import(titles: "Subcommands") -> None:
    bring = add_command(
        titles,
        "import",
        help="import titles from a file or from Seeder's database",
        handler=f"{_HANDLERS}:import_titles",
    )
    bring.add_argument(
        "file",
        type=filled,
        metavar="FILE|URL",
        nargs="?",
        help="what the source exported, in UTF-8, or postgresql://USER@HOST/DATABASE of Seeder (password: "
        "PGPASSWORD or ~/.pgpass); default: provider.seeder_url",
    )
    bring.add_argument(
        "--source",
        metavar="NAME",
        help="name of the source; an import only changes its titles (default without FILE: "
        "provider.seeder_source)",
    )
    bring.add_argument(
        "--format",
        choices=_FORMATS,
        help="format (default: from the file's name, .csv or .jsonl; seeder for a URL)",
    )
    bring.add_argument("--dry-run", action="store_true", help="only show what would change")
    bring.add_argument(
        "--approve",
        action="store_true",
        help="also if it changes or removes more titles than provider.title_change_percent",
    )
