"""What follows a harvest: its repository's import, where that is set."""

import logging

from sqlalchemy import text

from oai.database import Database
from oai.settings import Settings

_log = logging.getLogger(__name__)
STARTER = "harvest"
_WANTED = text("SELECT after_harvest FROM bibliographic_source WHERE repository_id = :repository_id")
"""Each harvest is a process, and most are followed by no import: they need not load what imports."""


def import_after_harvest(database: Database, settings: Settings, repository_id: int) -> None:
    """Import what a harvest has brought, where the repository's settings ask for it.

    What goes wrong is in the import's row and in the log: the harvest has ended as it has, and whatever is
    left is found by the next import.
    """
    with database.session() as session:
        wanted = session.scalar(_WANTED, {"repository_id": repository_id})
    if not wanted:
        return
    from harvester.bibliographic.importing import run_import  # noqa: PLC0415 as said above
    from harvester.bibliographic.imports import ImportBusyError  # noqa: PLC0415

    try:
        done = run_import(database, settings, repository_id, started_by=STARTER)
    except ImportBusyError as error:
        _log.warning("no import after this harvest: %s", error)
    except Exception:  # noqa: BLE001 the harvest has ended well, and its outcome is still to be told
        _log.exception("the import after the harvest of repository %d ended early", repository_id)
    else:
        _log.info(
            "import %d: %d new, %d updated, %d deleted", done.import_id, done.new, done.updated, done.deleted
        )
