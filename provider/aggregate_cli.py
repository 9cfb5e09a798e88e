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
    add.add_argument("repository", metavar="REPOSITORY", help="number, base URL or name of the repository")
    add.add_argument(
        "--set", dest="name", metavar="NAME", help="set of its records (default: named after the host)"
    )
    add.add_argument(
        "--identifiers",
        choices=("original", "own"),
        help="identifiers of the records: as harvested (default), or new ones in this provider's namespace",
    )
    add.add_argument(
        "--altered",
        action="store_true",
        help="report the records as altered in their provenance, even if no schedule normalises them",
    )
    remove = add_command(
        aggregate,
        "remove",
        help="withdraw a repository: report its records as deleted",
        handler=f"{_HANDLERS}:remove",
    )
    remove.add_argument(
        "repository", metavar="REPOSITORY", help="number, base URL, name or set of the repository"
    )
    add_command(
        aggregate, "list", help="list the repositories in the aggregate", handler=f"{_HANDLERS}:show_sources"
    )
