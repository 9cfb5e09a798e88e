"""A first load: the indexes for lists are built after the documents are there, not row by row.

What was taken off stands in the table `first_load` until it is built again, so an interrupted load is noticed
by whoever serves or indexes, and is gone on with by the same command. Keys stay unique all the time.
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
_LOCK: Final = "LOCK TABLE document IN SHARE ROW EXCLUSIVE MODE"


def missing_indexes(session: Session) -> list[str]:
    """The indexes of `document` that a first load has taken off and not built again yet."""
    return list(session.scalars(select(FirstLoad.index_name).order_by(FirstLoad.index_name)))


def refuse_unserved(session: Session) -> None:
    """Raise DatabaseNotReadyError while a first load is under way or was interrupted: lists would be slow."""
    missing = missing_indexes(session)
    if missing:
        raise DatabaseNotReadyError(
            f"a first load is incomplete: {len(missing)} indexes of the table 'document' are not "
            "built; run `zatva provider index --first-load` again with the same files"
        )


def begin_first_load(database: Database) -> None:
    """Take the indexes off an empty `document`, or go on with a load that was interrupted.

    Raises UsageError where there are documents already and no such load is under way.
    """
    with database.session() as session:
        session.execute(text(_LOCK))
        if missing_indexes(session):
            return
        if session.scalar(select(Document.id).limit(1)) is not None:
            raise UsageError("--first-load requires an empty archive, but there are documents; leave it out")
        session.execute(text(_FIND))
        for name in missing_indexes(session):
            session.execute(text(f'DROP INDEX "{name}"'))
        session.commit()


def finish_first_load(database: Database, tell: Callable[[str], None]) -> None:
    """Build the indexes again, each committed by itself; `tell` is told the name of each before."""
    with database.session() as session:
        # Locked one by one: two loads that end at once build different indexes, or wait for each other's.
        next_one = select(FirstLoad).order_by(FirstLoad.index_name).limit(1).with_for_update()
        while (row := session.scalar(next_one)) is not None:
            tell(row.index_name)
            session.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
            session.connection().exec_driver_sql(row.definition)
            session.delete(row)
            session.commit()
        session.connection().exec_driver_sql("ANALYZE document")
        session.commit()
