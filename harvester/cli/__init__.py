"""The harvester's commands: described in `parsers` and `harvest_parser`, which name their handlers here."""

from typing import TYPE_CHECKING

from harvester.cli.harvest_parser import add_harvest
from harvester.cli.parsers import add_import, add_probe, add_repository, add_restore, add_store

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_commands(commands: "Subcommands") -> None:
    """Add the harvester's commands."""
    add_harvest(commands)
    add_probe(commands)
    add_repository(commands)
    add_restore(commands)
    add_store(commands)
    add_import(commands)
