"""First load: list indexes are built after the documents are inserted, instead of row by row.

Dropped indexes are recorded in the table `first_load` until they are built again. Serving and indexing
therefore detect an interrupted load, and the same command continues it. Keys remain unique at all times.
"""

from collections.abc import Callable
from typing import Final

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from oai.database import Database
from oai.errors import DatabaseNotReadyError, UsageError
from provider.models import Document, FirstLoad

_FIND: Final = """
INSERT INTO first_load (index_name, definition)
SELECT indexname, indexdef FROM pg_indexes
WHERE schemaname = current_schema() AND tablename = 'document'
    AND indexdef NOT LIKE 'CREATE UNIQUE%'
ORDER BY indexname
ON CONFLICT (index_name) DO NOTHING
"""
# Excludes writers, so that no document is inserted between the check for an empty table and the drop.
_LOCK: Final = "LOCK TABLE document IN SHARE ROW EXCLUSIVE MODE"


def missing_indexes(session: Session) -> list[str]:
    """Return the indexes of `document` that a first load has dropped and not yet rebuilt."""
    return list(session.scalars(select(FirstLoad.index_name).order_by(FirstLoad.index_name)))


def refuse_unserved(session: Session) -> None:
    """Raise DatabaseNotReadyError while a first load runs or was interrupted: lists would be slow."""
    missing = missing_indexes(session)
    if missing:
        raise DatabaseNotReadyError(
            f"a first load is incomplete: {len(missing)} indexes of the table 'document' are not "
            "built; run `zatva provider index --first-load` again with the same files"
        )


def begin_first_load(database: Database) -> None:
    """Drop the indexes of an empty `document`, or continue an interrupted load.

    Raises UsageError if there are documents and no first load is in progress.
    """
    with database.session() as session:
        # Two commands that start at once are serialised: the second one finds the indexes already recorded.
        session.execute(text(_LOCK))
        if missing_indexes(session):
            return
        if session.scalar(select(Document.id).limit(1)) is not None:
            raise UsageError("--first-load requires an empty archive, but there are documents; leave it out")
        session.execute(text(_FIND))
        for name in missing_indexes(session):
            session.execute(text(f'DROP INDEX "{name}"'))
        session.commit()


def finish_first_load(database: Database, on_index: Callable[[str], None]) -> None:
    """Rebuild the indexes, committing each one; `on_index` receives the name of each before it is built."""
    with database.session() as session:
        # Locked one by one: two loads that end at the same time build different indexes, or wait for each
        # other.
        next_one = select(FirstLoad).order_by(FirstLoad.index_name).limit(1).with_for_update()
        while (row := session.scalar(next_one)) is not None:
            on_index(row.index_name)
            session.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
            session.connection().exec_driver_sql(row.definition)
            session.delete(row)
            session.commit()
        session.connection().exec_driver_sql("ANALYZE document")
        session.commit()
