"""Held runs: what they would change, and their approval by a person."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import ClassVar

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from harvester.harvest.models import Hold
from harvester.models import Harvest, History, Repository
from harvester.repositories import base_folder, harvest_from_the_start
from harvester.store import deletions
from harvester.store.backup import is_copying
from harvester.store.deletions import DeletionTarget
from harvester.store.records import RunKey
from harvester.vocabulary import DeletionPolicy, Verdict
from oai.database import Database
from oai.datestamps import format_datestamp
from oai.errors import ExitCode, Phrase, UsageError, ZatvaError
from oai.failures import Failure, FailureCode
from oai.settings import Settings

SAMPLE = 20
"""Number of identifiers that a hold shows."""


class HoldKind(StrEnum):
    """The kind of mass change for which a run is held."""

    DELETIONS = "deletions"
    UPDATES = "updates"


class HoldState(StrEnum):
    """The state of a hold."""

    HELD = "held"
    RELEASED = "released"
    """A person approved the run."""
    SUPERSEDED = "superseded"
    """A later run has newer results."""
    DONE = "done"
    """A run that a person had approved has ended."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a held run would change."""

    kind: HoldKind
    would_delete: int
    would_update: int
    active: int
    """Active records in the store before the run."""
    allowed: float
    """Percentage of these records that the run may delete or change."""
    sample: Sequence[str] = ()

    def in_words(self) -> str:
        """Return the sentence for the history and the terminal."""
        if self.kind is HoldKind.DELETIONS:
            what, count = "delete", f"{self.would_delete:,}"
        else:
            what, count = "change", f"at least {self.would_update:,}"
        return (
            f"held by the mass-change guard: the run would {what} {count} of {self.active:,} "
            f"records; without approval it may {what} {self.allowed:g} %"
        )


class HeldRunError(ZatvaError):
    """A run would change too many records; nothing of the current page has been stored."""

    exit_code: ClassVar[ExitCode] = ExitCode.RECORDS_REFUSED
    failure = Failure(code=FailureCode.HELD)

    def __init__(self, held: Held) -> None:
        super().__init__(held.in_words())
        self.held = held


def deletion_target(repository: Repository, settings: Settings, metadata_prefix: str) -> DeletionTarget:
    """Return what deleting a repository's records in one format needs to know."""
    return DeletionTarget(
        repository_id=repository.repository_id,
        metadata_prefix=metadata_prefix,
        folder=base_folder(repository, settings),
        policy=DeletionPolicy(repository.deletion_policy),
        writes_feed=settings.harvester.keep_changes > 0,
    )


def note(session: Session, run: RunKey, held: Held, *, history_id: int) -> None:
    """Request a person's approval, superseding the requests of earlier runs. The caller commits."""
    _supersede(session, run.harvest_id)
    session.add(
        Hold(
            history_id=history_id,
            harvest_id=run.harvest_id,
            run_started=run.run_started,
            kind=held.kind.value,
            would_delete=held.would_delete,
            would_update=held.would_update,
            active=held.active,
            allowed=held.allowed,
            sample=list(held.sample),
        )
    )
    session.flush()
    deletions.forget_stale(session, run)


def close(session: Session, run: RunKey, *, everything: bool, replays: bool = False) -> None:
    """Close the requests of earlier runs that this complete run makes obsolete. The caller commits.

    `everything` is true if the run has seen all records; it then supersedes every earlier request. A replay,
    whose answers are older, closes only requests of replays.
    """
    unfinished = (HoldState.HELD.value, HoldState.RELEASED.value)
    holds = session.scalars(
        select(Hold).where(Hold.harvest_id == run.harvest_id, Hold.state.in_(unfinished))
    ).all()
    if not holds:
        return  # what a killed run left was forgotten when this one began
    for hold in holds:
        if replays and session.get_one(History, hold.history_id).replay_of is None:
            continue
        earlier = RunKey(harvest_id=run.harvest_id, run_started=hold.run_started)
        if hold.state == HoldState.RELEASED:
            if hold.kind == HoldKind.DELETIONS:  # for updates, see `finish_updates`
                hold.state = HoldState.DONE.value
        elif everything or not deletions.staged_count(session, earlier):
            _supersede(session, run.harvest_id, hold.run_started)
    session.flush()
    deletions.forget_stale(session, run)


def updates_released(session: Session, run: RunKey) -> bool:
    """Return whether a person approved the changes for which this harvest was held."""
    return session.scalars(select(Hold.history_id).where(*_approved_updates(run))).first() is not None


def finish_updates(session: Session, run: RunKey) -> None:
    """Note that a run has made the changes that a person approved; later ones need a new approval.

    The caller commits.
    """
    session.execute(update(Hold).where(*_approved_updates(run)).values(state=HoldState.DONE.value))


def _approved_updates(run: RunKey) -> Sequence[ColumnElement[bool]]:
    updates, released = Hold.kind == HoldKind.UPDATES.value, Hold.state == HoldState.RELEASED.value
    return (Hold.harvest_id == run.harvest_id, updates, released)


def get_hold(session: Session, history_id: int, *, lock: bool = False) -> tuple[Hold, int]:
    """Return an ended run's hold, and its repository's id. Raises UsageError if it is no longer held.

    With `lock`, of two people who decide at the same time, the second waits and then sees the first decision.
    """
    hold = session.get(Hold, history_id, with_for_update=lock)
    if hold is None:
        if session.get(History, history_id) is None:
            raise UsageError(
                "no run %(history_id)s; list runs with `zatva job history`", history_id=history_id
            )
        raise UsageError("run %(history_id)s was not held; see `zatva job history`", history_id=history_id)
    if hold.state != HoldState.HELD:
        better = hold.state == HoldState.SUPERSEDED
        why = Phrase("a later run has newer results") if better else Phrase("it is already approved")
        raise UsageError(
            "run %(history_id)s is no longer held: %(why)s; see `zatva job history`",
            history_id=history_id,
            why=why,
        )
    return hold, session.get_one(Harvest, hold.harvest_id).repository_id


def later_complete(session: Session, hold: Hold) -> int:
    """Return how many later runs of the same harvest were complete."""
    run = session.get_one(History, hold.history_id)
    found = select(func.count()).where(
        History.repository_id == run.repository_id,
        History.history_id > run.history_id,
        History.harvest_id == hold.harvest_id,
        History.verdict == Verdict.COMPLETE.value,
    )
    return session.scalars(found).one()


def release(database: Database, settings: Settings, history_id: int) -> tuple[Hold, int, bool]:
    """Approve a held run: apply its deletions, or let the next run make its updates.

    Return the hold, the number of records deleted now, and whether the next run requests everything: it does
    if records that disappeared may have come back since, because incremental lists do not mention them.

    Commits by itself; the caller ensures that no harvest of the repository runs meanwhile. Raises UsageError
    if the run is not held, or while a backup copies record files.
    """
    with database.session() as session:
        if is_copying(session):
            raise UsageError("a backup is copying the record files; approve the run when it has ended")
        hold, repository_id = get_hold(session, history_id)
        run = RunKey(harvest_id=hold.harvest_id, run_started=hold.run_started)
        repository = session.get_one(Repository, repository_id)
        harvest = session.get_one(Harvest, hold.harvest_id)
        left = deletion_target(repository, settings, harvest.metadata_prefix)
        deletes = hold.kind == HoldKind.DELETIONS
        restarts = deletes and deletions.any_disappeared(session, run)
        if restarts:
            harvest_from_the_start(session, Harvest.harvest_id == hold.harvest_id)
        session.commit()
    count = partial(_count_deleted, history_id)
    deleted = deletions.apply_staged(database, run, left, count=count) if deletes else 0
    with database.session() as session:
        hold, _ = get_hold(session, history_id, lock=True)
        hold.state, hold.decided = HoldState.RELEASED.value, datetime.now(UTC)
        _add_to_history(session, hold)
        session.commit()
        session.refresh(hold)
        session.expunge(hold)
    return hold, deleted, restarts


def _count_deleted(history_id: int, session: Session, number: int) -> None:
    """Add records that are deleted to the history row of the held run: first those that it received."""
    row = session.get_one(History, history_id)
    received = min(number, row.postponed_count)
    row.deleted_count += number
    row.postponed_count -= received
    row.disappeared_count += number - received


def _add_to_history(session: Session, hold: Hold) -> None:
    """Add the decision to the history row of the held run."""
    row = session.get_one(History, hold.history_id)
    did = f": {row.deleted_count:,} records deleted" if hold.kind == HoldKind.DELETIONS else ""
    at = format_datestamp(datetime.now(UTC))
    row.failure_reason = f"{row.failure_reason}; approved {at}{did}"
    row.failure_code, row.failure_facts = FailureCode.RELEASED.value, {"at": at}
    if hold.kind == HoldKind.UPDATES:
        return
    # Other harvests may have deleted some of the records meanwhile.
    row.unchanged_count += row.postponed_count
    row.postponed_count = 0


def _supersede(session: Session, harvest_id: int, run_started: datetime | None = None) -> None:
    change = (
        update(Hold)
        .where(Hold.harvest_id == harvest_id, Hold.state == HoldState.HELD.value)
        .values(state=HoldState.SUPERSEDED.value, decided=datetime.now(UTC))
    )
    session.execute(change if run_started is None else change.where(Hold.run_started == run_started))
