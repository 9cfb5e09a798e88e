"""Files that are prepared for download, in the task queue: queued on request, settled when a worker is lost.

The provider prepares them (`provider.export`); only the queue and the leader's duties are here.
"""

import functools
import logging
from pathlib import Path

from sqlalchemy.orm import Session

from manager import queue
from oai.failures import Failure, FailureCode
from oai.settings import Settings
from provider.export import prepared_files
from provider.export.models import ExportForm, PreparedExport
from provider.export.selection import ExportChoice

logger = logging.getLogger("manager.exports")


def queue_export(
    session: Session,
    settings: Settings,
    choice: ExportChoice,
    *,
    form: ExportForm,
    title: str | None,
    reading_room: bool,
    asked_by: str | None,
) -> PreparedExport:
    """Add a file to be prepared, queue it, and return its row. Commits.

    Raises UsageError if the choice cannot be looked up, or if there is no room for more files.
    """
    row = prepared_files.add_export(
        session,
        choice,
        form=form,
        title=title,
        reading_room=reading_room,
        asked_by=asked_by,
        total_bytes=settings.provider.export_total_bytes,
    )
    queue.defer_export(session, row.export_id)
    session.commit()
    return row


def remove_export(session: Session, settings: Settings, export_id: int, *, by: str | None) -> bool:
    """Remove a file, or stop its preparation; False if it was removed already or has failed. Commits.

    Raises UsageError if there is no file with that number.
    """
    prepared_files.find_export(session, export_id)
    removed = prepared_files.remove(session, export_id, by=by)
    session.commit()
    clear(session, settings.exports)
    return removed


def give_back(session: Session, export_id: int, reason: str, *, at_fault: bool, folder: Path) -> None:
    """Settle a file whose process ended without a result, and remove what it has left in the folder.

    It failed if its process or worker is at fault; otherwise it is queued again. The caller commits.
    """
    if at_fault:
        prepared_files.fail(session, export_id, _incomplete(reason))
    elif prepared_files.requeue(session, export_id):
        queue.defer_export(session, export_id)
    clear(session, folder)


def tidy(session: Session, folder: Path, *, lost_seconds: float) -> None:
    """Settle the files of lost workers, and remove expired files and what is left of others.

    The caller commits: a file that is removed although its row is not committed is removed by the next call.
    """
    for export_id in queue.lost_exports(session, lost_seconds=lost_seconds):
        logger.warning("prepared file %d: its worker is lost", export_id)
        prepared_files.fail(session, export_id, _incomplete("its worker is lost"))
    for export_id in prepared_files.expired(session):
        logger.info("prepared file %d has expired", export_id)
        prepared_files.remove(session, export_id)
    clear(session, folder)


def clear(session: Session, folder: Path) -> None:
    """Remove files of the folder that are no longer wanted. One that cannot be removed is tried again later.

    The rows must be settled even then: they say that the file is not available.
    """
    try:
        removed = prepared_files.remove_expired(session, folder)
    except OSError as error:
        _warn_once(folder, str(error))
        return
    for file in removed:
        logger.info("removed %s", file)


@functools.lru_cache(maxsize=1)
def _warn_once(folder: Path, error: str) -> None:
    """Log a fault of the folder when it changes; it is tried again every few seconds."""
    logger.warning(
        "the folder of prepared files (provider.export_folder) %s: %s; grant the manager access to it",
        folder,
        error,
    )


def _incomplete(reason: str) -> Failure:
    return Failure(code=FailureCode.EXPORT_INCOMPLETE, facts={"said": reason})
