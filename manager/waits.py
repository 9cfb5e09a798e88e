"""Times until which repositories asked not to be contacted (a Retry-After longer than a harvest waits)."""

from datetime import UTC, datetime
from typing import Final

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from harvester.models import Repository

_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


def wait_end(after: ColumnElement[datetime] | datetime) -> ColumnElement[datetime | None]:
    """Return the SQL expression of the time until which a row of `Repository` waits, if it is later."""
    # PostgreSQL's timestamps reach further than Python's datetime.
    return case((Repository.not_before > after, func.least(Repository.not_before, _LATEST)))


def due_after_wait(session: Session, repository_id: int, due: datetime) -> datetime:
    """Return the due time, or the later one until which the repository asked to wait."""
    wait = select(wait_end(due)).where(Repository.repository_id == repository_id)
    return session.scalar(wait) or due
