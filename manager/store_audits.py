"""Audits of stores as the manager runs them: their schedules, queueing, and results."""

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, literal, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from harvester.models import Repository
from harvester.repositories import get_repository
from harvester.store.models import OPEN_AUDIT, AuditState, StoreAudit
from manager import queue
from manager.models import StoreAuditSchedule
from manager.schedules.frequency import parse_frequency, parse_zone
from manager.schedules.service import database_now
from oai.database import one_at_a_time
from oai.errors import UsageError
from oai.failures import Failure, FailureCode

logger = logging.getLogger("manager.store_audits")

_PRUNE: Final = text(
    """
    DELETE FROM oai_store_audit WHERE audit_id IN (
        SELECT audit_id FROM oai_store_audit AS old
        WHERE ended < now() - CAST(:days AS float8) * interval '1 day' AND announced IS NOT NULL
          AND EXISTS (
              SELECT FROM oai_store_audit AS newer
              WHERE newer.repository_id = old.repository_id AND newer.audit_id > old.audit_id
                AND newer.ended IS NOT NULL AND (newer.state = 'done' OR old.state <> 'done'))
        ORDER BY audit_id LIMIT :most)
    """
)


@dataclass(frozen=True, kw_only=True)
class AuditView:
    """An audit as lists show it."""

    audit: StoreAudit
    repository_name: str


@dataclass(frozen=True, kw_only=True)
class AuditScheduleView:
    """A schedule of audits as lists show it."""

    schedule: StoreAuditSchedule
    repository_name: str | None
    """None: all repositories without a schedule of their own."""


def set_schedule(
    session: Session, *, repository_id: int | None, frequency: str, time_zone: str = "UTC"
) -> StoreAuditSchedule:
    """Set how often the store of a repository (None: of all without a schedule of their own) is audited.

    Replaces its earlier schedule. The caller commits. Raises UsageError for an unknown repository, or a
    frequency or time zone that cannot be read.
    """
    parse_frequency(frequency)
    parse_zone(time_zone)
    if repository_id is not None:
        get_repository(session, repository_id)
    one_at_a_time(session, "add schedule of store audits")
    own = select(StoreAuditSchedule).where(
        StoreAuditSchedule.repository_id.is_not_distinct_from(repository_id)
    )
    schedule = session.scalars(own.with_for_update()).first()
    if schedule is None:
        schedule = StoreAuditSchedule(repository_id=repository_id)
        session.add(schedule)
    schedule.frequency, schedule.time_zone = frequency, time_zone
    schedule.added = database_now(session)
    schedule.next_due = _first_due(schedule)
    session.flush()
    return schedule


def get_schedule(session: Session, schedule_id: int) -> StoreAuditSchedule:
    """Return the schedule of audits with that number. Raises UsageError if there is none."""
    schedule = session.get(StoreAuditSchedule, schedule_id)
    if schedule is None:
        raise UsageError(f"no audit schedule {schedule_id}; list them with `zatva store audit schedule list`")
    return schedule


def remove_schedule(session: Session, schedule_id: int) -> None:
    """Remove a schedule; its audits stay. The caller commits. Raises UsageError if there is none."""
    session.delete(get_schedule(session, schedule_id))
    session.flush()


def list_schedules(
    session: Session, *, among: Select[int] | None = None, limit: int | None = None, after: int = 0
) -> list[AuditScheduleView]:
    """Return schedules ordered by number, starting after number `after`.

    `among` selects repositories; the schedule of all repositories is returned in any case, because it
    concerns each.
    """
    query = (
        select(StoreAuditSchedule, Repository.display_name)
        .outerjoin(Repository, Repository.repository_id == StoreAuditSchedule.repository_id)
        .where(StoreAuditSchedule.schedule_id > after)
        .order_by(StoreAuditSchedule.schedule_id)
        .limit(limit)
    )
    if among is not None:
        query = query.where(
            StoreAuditSchedule.repository_id.is_(None) | StoreAuditSchedule.repository_id.in_(among)
        )
    return [AuditScheduleView(schedule=row, repository_name=name) for row, name in session.execute(query)]


def queue_audit(session: Session, repository_id: int) -> int:
    """Queue an audit of a repository's store now, and return its number. The caller commits.

    Raises UsageError for an unknown repository, or if an audit of it is already queued or running.
    """
    get_repository(session, repository_id)
    queued = _queue(session, Repository.repository_id == repository_id, due=database_now(session))
    if not queued:
        raise UsageError(
            "an audit of repository %(number)s is already queued or running; wait for its result",
            number=repository_id,
        )
    return queued[0]


def queue_due(session: Session) -> list[int]:
    """Queue the audits that are due and return their numbers. The caller commits.

    A repository whose audit is still queued or running gets no second one. A schedule that cannot be read
    makes no audits until it is set again.
    """
    now = database_now(session)
    due = select(StoreAuditSchedule).where(StoreAuditSchedule.next_due <= now)
    queued: list[int] = []
    for schedule in session.scalars(due.order_by(StoreAuditSchedule.schedule_id).with_for_update()):
        moment = schedule.next_due or now
        try:
            schedule.next_due = _due_after(schedule, now)
        except UsageError as error:
            logger.warning("audit schedule %d: %s", schedule.schedule_id, error)
            schedule.next_due = None
            continue
        queued += _queue(session, _is_audited_by(schedule), due=moment)
    session.flush()
    return queued


def replan_after_wrong_clock(session: Session) -> None:
    """Plan again the schedules whose next audit was planned while the clock was ahead. The caller commits."""
    now = database_now(session)
    planned = select(StoreAuditSchedule).where(StoreAuditSchedule.next_due > now)
    for schedule in session.scalars(planned.order_by(StoreAuditSchedule.schedule_id).with_for_update()):
        # One that cannot be read is left to `queue_due`, which says so.
        with contextlib.suppress(UsageError):
            schedule.next_due = min(schedule.next_due or now, _due_after(schedule, now))
    session.flush()


def claim(session: Session, audit_id: int, host: str) -> bool:
    """Claim a queued audit for this host; False if it is no longer queued. The caller commits."""
    claimed = (
        # Compare-and-swap: of two workers only one finds it queued.
        update(StoreAudit)
        .where(StoreAudit.audit_id == audit_id, StoreAudit.state == AuditState.QUEUED)
        .values(state=AuditState.RUNNING, host=host, started=func.now())
        .returning(StoreAudit.audit_id)
    )
    return session.scalar(claimed) is not None


def give_back(session: Session, audit_id: int, reason: str, *, at_fault: bool) -> None:
    """Settle an audit whose process ended without a result; has no effect if it has one.

    It failed if its process or worker is at fault; otherwise it is queued again. The caller commits.
    """
    audit = session.get(StoreAudit, audit_id, with_for_update=True, populate_existing=True)
    if audit is None or audit.state not in (AuditState.QUEUED, AuditState.RUNNING):
        return
    if at_fault:
        failure = Failure(code=FailureCode.STORE_AUDIT_INCOMPLETE, facts={"said": reason})
        audit.conclude(failure, state=AuditState.FAILED, ended=database_now(session))
    else:
        audit.state = AuditState.QUEUED
        queue.defer_audits(session, [audit_id])
    session.flush()


def settle_lost(session: Session, *, lost_seconds: float) -> list[int]:
    """Settle the audits whose worker is lost as failed, and return their numbers. The caller commits."""
    lost = queue.lost_audits(session, lost_seconds=lost_seconds)
    for audit_id in lost:
        logger.warning("store audit %d: its worker is lost", audit_id)
        give_back(session, audit_id, "its worker is lost", at_fault=True)
    return lost


def prune_audits(session: Session, *, keep_days: float, most: int) -> int:
    """Delete the oldest audits that ended more than so many days ago, at most `most`; return how many.

    The last audit of each repository and the last complete one stay, and those whose notifications are not
    written yet. The caller commits.
    """
    result: Any = session.execute(_PRUNE, {"days": keep_days, "most": most})
    return int(result.rowcount)


def find_audits(
    session: Session,
    *,
    limit: int,
    before: int | None = None,
    repository_id: int | None = None,
    among: Select[int] | None = None,
) -> list[AuditView]:
    """Return audits, newest first; of one repository, or of those that `among` selects."""
    query = _views(repository_id, among).order_by(StoreAudit.audit_id.desc()).limit(limit)
    if before is not None:
        query = query.where(StoreAudit.audit_id < before)
    return _shown(session, query)


def find_audit(session: Session, audit_id: int) -> AuditView:
    """Return the audit with that number. Raises UsageError if there is none."""
    found = _shown(session, _views(None, None).where(StoreAudit.audit_id == audit_id))
    if not found:
        raise UsageError(f"no store audit {audit_id}; list audits with `zatva store audit list`")
    return found[0]


def last_audits(
    session: Session,
    *,
    among: Select[int] | None = None,
    repository_id: int | None = None,
    complete: bool = False,
    troubled: bool = False,
    limit: int | None = None,
) -> list[AuditView]:
    """Return the last audit that ended of each repository, by repository.

    `complete` ignores those that did not finish; `troubled` omits last audits without a failure.
    """
    # From each repository to its last audit by an index: the table grows with every night.
    last = (
        select(StoreAudit.audit_id)
        .where(
            StoreAudit.repository_id == Repository.repository_id,
            StoreAudit.ended.is_not(None),
            *([StoreAudit.state == AuditState.DONE] if complete else []),
        )
        .order_by(StoreAudit.audit_id.desc())
        .limit(1)
        .correlate(Repository)
        .scalar_subquery()
    )
    query = _views(repository_id, among).where(StoreAudit.audit_id == last)
    if troubled:
        query = query.where(StoreAudit.failure_code.is_not(None))
    return _shown(session, query.order_by(StoreAudit.repository_id).limit(limit))


def _views(repository_id: int | None, among: Select[int] | None) -> Select[StoreAudit, str]:
    query: Select[StoreAudit, str] = select(StoreAudit, Repository.display_name).join(
        Repository, Repository.repository_id == StoreAudit.repository_id
    )
    if repository_id is not None:
        query = query.where(Repository.repository_id == repository_id)
    return query if among is None else query.where(Repository.repository_id.in_(among))


def _shown(session: Session, query: Select[StoreAudit, str]) -> list[AuditView]:
    return [AuditView(audit=audit, repository_name=name) for audit, name in session.execute(query)]


def _is_audited_by(schedule: StoreAuditSchedule) -> ColumnElement[bool]:
    if schedule.repository_id is not None:
        return Repository.repository_id == schedule.repository_id
    own = select(StoreAuditSchedule.repository_id).where(StoreAuditSchedule.repository_id.is_not(None))
    return Repository.repository_id.not_in(own)


def _queue(session: Session, concerned: ColumnElement[bool], *, due: datetime) -> Sequence[int]:
    rows = select(Repository.repository_id, literal(AuditState.QUEUED.value), literal(due), func.now()).where(
        concerned
    )
    added = (
        insert(StoreAudit)
        .from_select(["repository_id", "state", "due", "started"], rows)
        # The index decides between a user and the manager, who may queue one at the same time.
        .on_conflict_do_nothing(index_elements=["repository_id"], index_where=text(OPEN_AUDIT))
        .returning(StoreAudit.audit_id)
    )
    audit_ids = session.scalars(added).all()
    queue.defer_audits(session, audit_ids)
    return audit_ids


def _first_due(schedule: StoreAuditSchedule) -> datetime:
    return parse_frequency(schedule.frequency).first(
        start=schedule.added, zone=parse_zone(schedule.time_zone)
    )


def _due_after(schedule: StoreAuditSchedule, moment: datetime) -> datetime:
    return parse_frequency(schedule.frequency).next_after(
        moment, start=schedule.added, zone=parse_zone(schedule.time_zone)
    )
