"""The commands of the harvester, described; what they do is in the modules `…_commands.py`."""

from typing import TYPE_CHECKING

from harvester.harvest_cli import add_harvest
from harvester.import_cli import add_import
from harvester.repository_cli import add_probe, add_repository
from harvester.restore_cli import add_restore
from harvester.store_cli import add_store

if TYPE_CHECKING:
    from oai.cli import Subcommands


def add_commands(commands: "Subcommands") -> None:
    """Add this part's commands."""
    add_harvest(commands)
    add_probe(commands)
    add_repository(commands)
    add_restore(commands)
    add_store(commands)
    add_import(commands)
