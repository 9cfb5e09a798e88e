"""Failures that need no attention for a time: acknowledged, muted, or in a maintenance window.

They stay visible, folded away with the note and the person. Their notices are written to the outbox as
`muted` and are not sent; a failure that lasts longer than the mute is reported at its next run. What has no
next run, such as a suspended schedule, is reported by its own notice when the mute is over.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from harvester.models import History, Repository
from harvester.repositories import get_repository
from harvester.vocabulary import RunStatus
from manager.jobs.runs import TROUBLED, awaits_approval
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.notices.models import Mute, MuteKind, Notice, NoticeState, NoticeStreak, Occasion
from oai.errors import ConflictError, UsageError

LONGEST: Final = timedelta(days=90)
LONG_AGO: Final = datetime(1970, 1, 2, tzinfo=UTC)
"""The time in `NoticeStreak.told` of a failure that was muted: the next one is reported."""
_LONGEST_NOTE: Final = 2000
_GOOD: Final = (RunStatus.COMPLETED, RunStatus.NO_CHANGES)
_OWN_FAILURES: Final = (RunStatus.FAILED, RunStatus.COMPLETED_WITH_ERRORS, RunStatus.HELD)
"""Ends of the harvest itself, not of its process."""


def acknowledge(session: Session, history_id: int, *, note: str = "", by: str = "") -> Mute:
    """Note that somebody knows of a failed run, until its harvest succeeds or fails for another reason.

    That of a held run holds until the run is decided.

    The caller commits. Raises ConflictError for a run that is unknown or has not failed.
    """
    run = session.get(History, history_id)
    if run is None or run.status not in TROUBLED:
        raise ConflictError("run %(run)s has no failure to acknowledge", run=history_id)
    return _add(
        session,
        Mute(
            kind=MuteKind.ACKNOWLEDGED,
            repository_id=run.repository_id,
            history_id=run.history_id,
            metadata_prefix=run.metadata_prefix,
            set_spec=run.set_spec,
            failure_code=run.failure_code,
            note=note,
            made_by=by,
        ),
    )


def mute(
    session: Session,
    repository_id: int | None,
    kind: MuteKind,
    *,
    note: str,
    ends: datetime,
    starts: datetime | None = None,
    by: str = "",
) -> Mute:
    """Mute a repository, or all (None), for a time; in a maintenance window, no harvest begins either.

    The caller commits. Raises UsageError for an unknown repository, without a note, and for an end that is
    past or too far off.
    """
    if repository_id is not None:
        get_repository(session, repository_id)
    now = session.scalars(select(func.now())).one()
    begin = starts or now
    if not note.strip():
        raise UsageError("give a note that says why, for others who see it")
    if ends <= max(begin, now):
        raise UsageError("the end must be in the future, and after the start")
    if ends - begin > LONGEST:
        raise UsageError("at most %(days)d days at a time; choose an earlier end", days=LONGEST.days)
    row = Mute(kind=kind, repository_id=repository_id, starts=begin, ends=ends, note=note, made_by=by)
    return _add(session, row)


def end_mute(session: Session, mute_id: int) -> None:
    """End a mute now. The caller commits. Raises UsageError if there is none with this number."""
    row = session.get(Mute, mute_id, with_for_update=True)
    if row is None:
        raise UsageError("mute %(number)s does not exist", number=mute_id)
    now = session.scalars(select(func.now())).one()
    if row.starts > now:
        session.delete(row)
    elif row.ends is None or row.ends > now:
        row.ends = now


def end_acknowledgements(session: Session, run: History, now: datetime) -> None:
    """End those that do not hold after this run (see `acknowledge`). The caller commits."""
    if run.status not in (*_GOOD, *_OWN_FAILURES):
        return
    held = exists().where(History.history_id == Mute.history_id, awaits_approval())
    over = update(Mute).where(
        Mute.kind == MuteKind.ACKNOWLEDGED,
        Mute.ends.is_(None),
        Mute.repository_id == run.repository_id,
        Mute.metadata_prefix.is_not_distinct_from(run.metadata_prefix),
        Mute.set_spec.is_not_distinct_from(run.set_spec),
        Mute.history_id < run.history_id,
        ~held,
    )
    if run.status in _OWN_FAILURES:
        over = over.where(Mute.failure_code.is_distinct_from(run.failure_code))
    session.execute(over.values(ends=now), execution_options={"synchronize_session": False})


def list_mutes(
    session: Session,
    *,
    among: Select[int] | None,
    limit: int,
    before: int | None = None,
    past: bool = False,
) -> list[tuple[Mute, str | None]]:
    """Return mutes with the names of their repositories, newest first; without `past`, only those to come.

    For readers with a limited view (`among`), mutes of all repositories are included.
    """
    wanted = (
        select(Mute, Repository.display_name)
        .outerjoin(Repository, Repository.repository_id == Mute.repository_id)
        .order_by(Mute.mute_id.desc())
        .limit(limit)
    )
    if not past:
        wanted = wanted.where(_not_over())
    if before is not None:
        wanted = wanted.where(Mute.mute_id < before)
    if among is not None:
        wanted = wanted.where(or_(Mute.repository_id.is_(None), Mute.repository_id.in_(among)))
    return [(row, name) for row, name in session.execute(wanted)]


def mutes_run() -> ColumnElement[bool]:
    """Return the condition that a mute covers a row of `History`, the last run of its harvest."""
    return and_(_of_now(), or_(Mute.repository_id.is_(None), _covers_its_repository()))


def is_muted() -> ColumnElement[bool]:
    """Return the condition that any mute covers a row of `History`: `mutes_run`, for many rows at once.

    Mutes of all repositories are looked up once, and the others by their repository, in an index.
    """
    everywhere = exists().where(_of_now(), Mute.repository_id.is_(None))
    return or_(everywhere, exists().where(_of_now(), _covers_its_repository()))


def _covers_its_repository() -> ColumnElement[bool]:
    later = aliased(History)
    otherwise = and_(later.status.in_(_OWN_FAILURES), later.failure_code.is_distinct_from(Mute.failure_code))
    # Compared with the mute only: a table of an outer query would be added to this one, uncorrelated.
    over = exists().where(
        later.repository_id == Mute.repository_id,
        later.metadata_prefix.is_not_distinct_from(Mute.metadata_prefix),
        later.set_spec.is_not_distinct_from(Mute.set_spec),
        later.history_id > Mute.history_id,
        or_(later.status.in_(_GOOD), otherwise),
    )
    acknowledged = and_(
        Mute.kind == MuteKind.ACKNOWLEDGED,
        Mute.metadata_prefix.is_not_distinct_from(History.metadata_prefix),
        Mute.set_spec.is_not_distinct_from(History.set_spec),
        Mute.failure_code.is_not_distinct_from(History.failure_code),
        # A held run waits for approval although later runs of its harvest succeed.
        or_(Mute.history_id == History.history_id, ~over),
    )
    return and_(
        Mute.repository_id == History.repository_id, or_(Mute.kind != MuteKind.ACKNOWLEDGED, acknowledged)
    )


def mute_of_run(session: Session, history_id: int) -> Mute | None:
    """Return a mute that covers a run, if any."""
    statement = select(Mute).join(History, mutes_run()).where(History.history_id == history_id)
    return session.scalars(statement.order_by(Mute.mute_id).limit(1)).one_or_none()


def mute_of_repository(session: Session, repository_id: int) -> Mute | None:
    """Return a mute or maintenance window that covers the whole repository now, if any."""
    statement = (
        select(Mute)
        .where(
            _of_now(),
            Mute.kind != MuteKind.ACKNOWLEDGED,
            or_(Mute.repository_id.is_(None), Mute.repository_id == repository_id),
        )
        .order_by(Mute.mute_id)
        .limit(1)
    )
    return session.scalars(statement).one_or_none()


def mute_notices(notices: Iterable[Notice], by: Mute, now: datetime) -> None:
    """Mark notices as muted: they are listed with the reason, and are not sent."""
    for notice in notices:
        notice.state, notice.ended = NoticeState.MUTED, now
        notice.last_error = f"{by.kind}: {by.note}" if by.note else by.kind


def mute_collected(session: Session, which: ColumnElement[bool]) -> None:
    """Mark the notices that wait for a report as muted if a mute covers them by now. The caller commits.

    The next failure of a source after the mute is reported.
    """
    note = Mute.kind + case((Mute.note == "", ""), else_=": " + Mute.note)
    whole = and_(
        Mute.kind != MuteKind.ACKNOWLEDGED,
        or_(Mute.repository_id.is_(None), Mute.repository_id == Notice.repository_id),
    )
    acknowledged = and_(Mute.kind == MuteKind.ACKNOWLEDGED, _covers_its_repository())
    for covers in (whole, and_(acknowledged, History.history_id == Notice.history_id)):
        muted = (
            update(Notice)
            .where(which, Notice.state == NoticeState.COLLECTED, Notice.ended.is_(None), _of_now(), covers)
            .values(state=NoticeState.MUTED, ended=func.now(), last_error=note)
        )
        session.execute(muted, execution_options={"synchronize_session": False})
    failures = (Occasion.FAILING, Occasion.STILL_FAILING)
    source = (
        NoticeStreak.rule_id == Notice.rule_id,
        NoticeStreak.repository_id == Notice.repository_id,
        NoticeStreak.metadata_prefix == Notice.facts["metadata_prefix"].astext,
        NoticeStreak.set_spec == Notice.facts["set_spec"].astext,
    )
    session.execute(
        update(NoticeStreak)
        .where(*source, Notice.state == NoticeState.MUTED, Notice.ended == func.now())
        .where(which, Notice.occasion.in_(failures))
        .values(told=LONG_AGO),
        execution_options={"synchronize_session": False},
    )


def report_after_mutes(session: Session) -> int:
    """Send the muted notices of what has no next run, lasts, and is no longer muted; return their number.

    These are suspended and rejected schedules, rejected and stuck jobs, and runs that wait for approval. Of
    several notices to one recipient about the same matter, the last is sent. The caller commits.
    """
    later = aliased(Notice)
    repeated = exists().where(
        later.rule_id == Notice.rule_id,
        later.target == Notice.target,
        later.repository_id == Notice.repository_id,
        later.occasion == Notice.occasion,
        later.facts["recurring_id"] == Notice.facts["recurring_id"],
        later.facts["job_id"] == Notice.facts["job_id"],
        later.notice_id > Notice.notice_id,
    )
    lasting = or_(
        and_(Notice.occasion.in_((Occasion.SUSPENDED, Occasion.SET_ASIDE)), _schedule_is_stopped()),
        and_(Notice.occasion.in_((Occasion.STUCK, Occasion.SET_ASIDE)), _job_is_stopped()),
        and_(Notice.occasion.in_((Occasion.FAILING, Occasion.STILL_FAILING)), _awaits_approval()),
    )
    sent = (
        update(Notice)
        .where(Notice.state == NoticeState.MUTED, lasting, ~_repository_is_muted(), ~repeated)
        .values(state=NoticeState.WAITING, ended=None, last_error=None, due=func.now())
        .returning(Notice.notice_id)
        .execution_options(synchronize_session=False)
    )
    return len(session.scalars(sent).all())


def _schedule_is_stopped() -> ColumnElement[bool]:
    stopped = (RecurringState.SUSPENDED, RecurringState.SET_ASIDE)
    return exists().where(
        RecurringJob.id == Notice.facts["recurring_id"].as_integer(), RecurringJob.state.in_(stopped)
    )


def _job_is_stopped() -> ColumnElement[bool]:
    return exists().where(
        Job.job_id == Notice.facts["job_id"].as_integer(),
        or_(Job.status == JobStatus.SET_ASIDE, Job.stuck_since.is_not(None)),
    )


def _awaits_approval() -> ColumnElement[bool]:
    """Return whether the notice's run is held, and no mute covers it, nor an acknowledgement."""
    return exists().where(History.history_id == Notice.history_id, awaits_approval(), ~is_muted())


def _repository_is_muted() -> ColumnElement[bool]:
    covers = or_(Mute.repository_id.is_(None), Mute.repository_id == Notice.repository_id)
    return exists().where(_of_now(), Mute.kind != MuteKind.ACKNOWLEDGED, covers)


def maintenance_end(repository_id: object) -> ColumnElement[datetime | None]:
    """Return the SQL expression of the time until which a repository, given by its column, is maintained."""
    return (
        select(func.max(Mute.ends))
        .where(
            Mute.kind == MuteKind.MAINTENANCE,
            _of_now(),
            or_(Mute.repository_id.is_(None), Mute.repository_id == repository_id),
        )
        .scalar_subquery()
    )


def _add(session: Session, row: Mute) -> Mute:
    if len(row.note) > _LONGEST_NOTE:
        raise UsageError("the note may have %(most)d characters", most=_LONGEST_NOTE)
    row.note = row.note.strip()
    session.add(row)
    session.flush()
    return row


def _not_over() -> ColumnElement[bool]:
    return or_(Mute.ends.is_(None), Mute.ends > func.now())


def _of_now() -> ColumnElement[bool]:
    return and_(Mute.starts <= func.now(), or_(Mute.ends.is_(None), Mute.ends > func.now()))
