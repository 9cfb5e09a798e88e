"""The commands of the aggregate, described; their handlers are in `provider.aggregate_commands`."""

from typing import TYPE_CHECKING

from oai.cli import add_command

if TYPE_CHECKING:
    from oai.cli import Subcommands

_HANDLERS = "provider.aggregate_commands"


def add_commands(aggregate: "Subcommands") -> None:
    """Add what can be done with the aggregate."""
    _add_sources(aggregate)
    add_command(
        aggregate,
        "status",
        help="show how much of each repository is given out, and what hinders the rest",
        handler=f"{_HANDLERS}:show_status",
    )
    update = add_command(
        aggregate,
        "update",
        help="publish what was harvested; `zatva provider serve` does it by itself",
        handler=f"{_HANDLERS}:update",
    )
    update.add_argument(
        "--whole", action="store_true", help="look at every record, not only at what the change feed tells"
    )


def _add_sources(aggregate: "Subcommands") -> None:
    add = add_command(
        aggregate, "add", help="give out a harvested repository's records again", handler=f"{_HANDLERS}:add"
    )
    add.add_argument("repository", metavar="REPOSITORY", help="number, base URL or name")
    add.add_argument("--set", dest="name", metavar="NAME", help="its set (default: named after its host)")
    add.add_argument(
        "--identifiers",
        choices=("original", "own"),
        help="the records' identifiers as harvested (default), or below our own namespace",
    )
    add.add_argument(
        "--altered",
        action="store_true",
        help="tell in provenance that records were altered, even where no schedule normalises",
    )
    remove = add_command(
        aggregate,
        "remove",
        help="withdraw a repository: its records are told as deleted",
        handler=f"{_HANDLERS}:remove",
    )
    remove.add_argument("repository", metavar="REPOSITORY", help="number, base URL, name or set")
    add_command(aggregate, "list", help="list the repositories", handler=f"{_HANDLERS}:show_sources")
