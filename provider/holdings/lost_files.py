"""Archive files that wait for a task which is no longer in the queue: nobody would ever index them.

Somebody may have deleted tasks, or restored the queue's tables without ours. The queue is procrastinate's,
whose tables lie beside ours; only its open tasks are looked at here.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ARRAY, ColumnElement, Text, and_, column, exists, func, literal, table, update
from sqlalchemy.orm import Session
from sqlalchemy.types import BigInteger

from provider.models import IndexFile, IndexFileState

QUEUE: Final = "index"
"""The queue whose tasks name a row of `index_file` each."""

_TASKS: Final = table("procrastinate_jobs", column("queue_name"), column("status"), column("args"))
_FILE_ID: Final = func.jsonb_extract_path_text(_TASKS.c.args, "file_id").cast(BigInteger)
_LOST_REASON: Final = "its task was no longer in the queue; the file was queued again"


def is_lost() -> ColumnElement[bool]:
    """Whether a row of `index_file` waits for nothing."""
    task = exists().where(
        _TASKS.c.queue_name == QUEUE,
        _TASKS.c.status.cast(Text).in_(("todo", "doing")),
        IndexFile.id == _FILE_ID,
    )
    return and_(IndexFile.state == IndexFileState.WAITING, ~task)


def give_up_lost(session: Session, paths: Sequence[str]) -> int:
    """Let lost files of these paths count as failed, for they are queued anew; gives how many there were.

    The caller commits.
    """
    given_up = (
        update(IndexFile)
        .where(IndexFile.path == func.any(literal(list(paths), ARRAY(Text))), is_lost())
        .values(state=IndexFileState.FAILED, reason=_LOST_REASON, ended=func.clock_timestamp())
        .returning(IndexFile.id)
    )
    return len(session.scalars(given_up).all())
