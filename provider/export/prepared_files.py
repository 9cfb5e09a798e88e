"""Files that are prepared for download: asked for, claimed by workers, checked before they are sent, removed.

A file has what its readers might have at that time. Access rules and take-downs that change later make it
unusable (`count_withdrawn`), because bytes cannot be taken out of it.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session

from oai.errors import UsageError
from oai.failures import Failure, FailureCode, failure_columns
from oai.output_files import UNFINISHED
from provider.export.models import ExportForm, ExportState, PreparedExport, PreparedExportPart
from provider.export.selection import ExportChoice, check_choice
from provider.models import Access

TITLE_CHARACTERS: Final = 500
_NAME: Final = re.compile(rf"export-([0-9]{{1,10}})\.(?:wacz|warc\.gz)(?:{re.escape(UNFINISHED)})?")
_ENDED: Final = (ExportState.READY, ExportState.FAILED, ExportState.REMOVED)
_WITHDRAWN: Final = text("""
    SELECT count(DISTINCT contained.id) FROM prepared_export_part AS part
    CROSS JOIN LATERAL unnest(part.documents) AS contained(id)
    LEFT JOIN document ON document.id = contained.id
    WHERE part.export_id = :export_id AND (
        document.id IS NULL OR document.deleted OR document.access = 'withheld'
        OR (part.content AND document.access <> ALL(CAST(:readable AS text[]))))
""")


def add_export(
    session: Session,
    choice: ExportChoice,
    *,
    form: ExportForm,
    title: str | None = None,
    reading_room: bool = False,
    asked_by: str | None,
    total_bytes: int,
) -> PreparedExport:
    """Add a file to be prepared. The caller queues it and commits.

    Raises UsageError for an unknown set, a URL without a host, and if the files that there are already have
    `total_bytes` together.
    """
    check_choice(session, choice)
    _check_room(session, total_bytes)
    row = PreparedExport(
        form=form,
        selection=choice.as_json(),
        title=(title or choice.words())[:TITLE_CHARACTERS],
        reading_room=reading_room,
        asked_by=asked_by,
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def _check_room(session: Session, total_bytes: int) -> None:
    if bytes_of_files(session) >= total_bytes:
        raise UsageError(
            "the prepared files have %(limit)s bytes together; remove some, or raise %(setting)s",
            limit=f"{total_bytes:,}",
            setting="provider.export_total_bytes",
        )


def list_exports(session: Session, *, limit: int, before: int | None = None) -> Sequence[PreparedExport]:
    """Return files, newest first, also those that were removed."""
    rows = select(PreparedExport).order_by(PreparedExport.export_id.desc()).limit(limit)
    return session.scalars(rows if before is None else rows.where(PreparedExport.export_id < before)).all()


def find_export(session: Session, export_id: int) -> PreparedExport:
    """Return the file with that number. Raises UsageError if there is none."""
    row = session.get(PreparedExport, export_id)
    if row is None:
        raise UsageError(
            "no prepared file %(number)s; list them with `zatva provider exports list`", number=export_id
        )
    return row


def claim(session: Session, export_id: int, host: str) -> bool:
    """Claim a queued file for this host; False if it is no longer queued. The caller commits."""
    claimed = (
        # Compare-and-swap: of two workers only one finds it queued.
        update(PreparedExport)
        .where(PreparedExport.export_id == export_id, PreparedExport.state == ExportState.QUEUED)
        .values(state=ExportState.RUNNING, host=host, started=func.now())
        .returning(PreparedExport.export_id)
    )
    return session.scalar(claimed) is not None


def note_progress(session: Session, export_id: int, **columns: Any) -> bool:  # noqa: ANN401 columns' values
    """Store the progress of a running file; False if it is no longer to be prepared. The caller commits."""
    noted = (
        update(PreparedExport)
        .where(PreparedExport.export_id == export_id, PreparedExport.state == ExportState.RUNNING)
        .values(**columns)
        .returning(PreparedExport.export_id)
    )
    return session.scalar(noted) is not None


def bytes_of_files(session: Session, *, but: int | None = None) -> int:
    """Return the bytes of all files together, as far as they have been written, without the file `but`."""
    total = select(func.coalesce(func.sum(PreparedExport.bytes), 0)).where(
        PreparedExport.state.in_((ExportState.RUNNING, ExportState.READY)),
        PreparedExport.export_id.is_distinct_from(but),
    )
    return int(session.scalars(total).one())


def fail(session: Session, export_id: int, failure: Failure) -> bool:
    """Settle a queued or running file as failed; False if it has ended otherwise. The caller commits."""
    return _end(session, export_id, ExportState.FAILED, failure, ended=func.now())


def requeue(session: Session, export_id: int) -> bool:
    """Put a running file back for another worker; False if it has ended. The caller queues it and commits."""
    again = note_progress(
        session,
        export_id,
        state=ExportState.QUEUED,
        host=None,
        started=None,
        chosen=None,
        examined=0,
        captures=0,
        bytes=0,
    )
    # Not of a file that is ready meanwhile: they are what its downloads are checked by.
    if again:
        _forget_documents(session, export_id)
    return again


def remove(
    session: Session, export_id: int, *, by: str | None = None, failure: Failure | None = None
) -> bool:
    """Note that a file is removed, or no longer to be prepared; `by` is None if no user asked for that.

    Returns False if it has been removed or has failed. The caller commits, and then calls `sweep`.
    """
    return _end(session, export_id, ExportState.REMOVED, failure, removed=func.now(), removed_by=by)


def withdraw(session: Session, export_id: int, count: int) -> bool:
    """Likewise, because so many documents in it may no longer be read."""
    failure = Failure(code=FailureCode.EXPORT_WITHDRAWN, facts={"count": count})
    return remove(session, export_id, failure=failure)


def expired(session: Session) -> Sequence[int]:
    """Return the files that have expired and are still there."""
    due = select(PreparedExport.export_id).where(
        PreparedExport.state == ExportState.READY, PreparedExport.expires <= func.now()
    )
    return session.scalars(due.order_by(PreparedExport.export_id)).all()


def count_withdrawn(session: Session, export: PreparedExport) -> int:
    """Return how many documents in the file its readers may not have any more."""
    readable = [Access.OPEN, *([Access.READING_ROOM] if export.reading_room else [])]
    values = {"export_id": export.export_id, "readable": readable}
    return int(session.execute(_WITHDRAWN, values).scalar_one())


def remove_expired(session: Session, folder: Path) -> list[Path]:
    """Remove files of the folder that are not, or no longer, to be there, and return them.

    Those that killed processes left are among them. Other people's files are not touched. Raises OSError.
    """
    found: dict[Path, int] = {}
    for file in folder.iterdir() if folder.is_dir() else ():
        named = _NAME.fullmatch(file.name)
        if named is not None:
            found[file] = int(named[1])
    rows = select(PreparedExport.export_id, PreparedExport.state).where(
        PreparedExport.export_id.in_(set(found.values()))
    )
    states = {row.export_id: row.state for row in session.execute(rows)}
    wanted = {ExportState.RUNNING, ExportState.READY}
    stray = [
        file
        for file, number in found.items()
        if states.get(number) not in wanted
        or (states[number] == ExportState.READY and file.name.endswith(UNFINISHED))
    ]
    for file in stray:
        file.unlink(missing_ok=True)
    return stray


def _end(
    session: Session,
    export_id: int,
    state: ExportState,
    failure: Failure | None,
    **columns: Any,  # noqa: ANN401 as above
) -> bool:
    # A file that is ready can be removed, but it cannot fail.
    over = _ENDED if state is ExportState.FAILED else _ENDED[1:]
    ended = (
        update(PreparedExport)
        .where(PreparedExport.export_id == export_id, PreparedExport.state.not_in(over))
        .values(state=state, bytes=0, **failure_columns(failure), **columns)
        .returning(PreparedExport.export_id)
    )
    if session.scalar(ended) is None:
        return False
    _forget_documents(session, export_id)
    return True


def _forget_documents(session: Session, export_id: int) -> None:
    session.execute(delete(PreparedExportPart).where(PreparedExportPart.export_id == export_id))
