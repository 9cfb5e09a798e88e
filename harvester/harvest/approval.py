"""Held runs: what they would change, and their approval by a person (HAR-9)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from harvester.harvest.models import Hold
from harvester.models import Harvest, History, Repository
from harvester.repositories import base_folder
from harvester.store import deletions
from harvester.store.deletions import Estate
from harvester.store.records import RunKey
from harvester.vocabulary import DeletionPolicy
from oai.database import Database
from oai.datestamps import format_datestamp
from oai.errors import ExitCode, Phrase, UsageError, ZatvaError
from oai.failures import Failure, FailureCode
from oai.settings import Settings

SAMPLE = 20
"""Identifiers that a hold shows."""


class HoldKind(StrEnum):
    """What a run would do too much of."""

    DELETIONS = "deletions"
    UPDATES = "updates"


class HoldState(StrEnum):
    """What became of a hold."""

    HELD = "held"
    RELEASED = "released"
    """A person said yes."""
    SUPERSEDED = "superseded"
    """A later run knows better."""
    DONE = "done"
    """A run that was released has come to its end."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a held run would do."""

    kind: HoldKind
    would_delete: int
    would_update: int
    active: int
    """Records that lived here before the run."""
    allowed: float
    """Per cent of them that the run may delete or change."""
    sample: Sequence[str] = ()

    def in_words(self) -> str:
        """For history and terminal."""
        if self.kind is HoldKind.DELETIONS:
            what, count = "delete", f"{self.would_delete:,}"
        else:
            what, count = "change", f"at least {self.would_update:,}"
        return (
            f"held by the mass-change guard: the run would {what} {count} of {self.active:,} "
            f"records; without approval it may {what} {self.allowed:g} %"
        )


class HeldRunError(ZatvaError):
    """A run would change too many records; nothing of the page at hand has been stored."""

    exit_code: ClassVar[ExitCode] = ExitCode.RECORDS_REFUSED
    failure = Failure(code=FailureCode.HELD)

    def __init__(self, held: Held) -> None:
        super().__init__(held.in_words())
        self.held = held


def estate(repository: Repository, settings: Settings, metadata_prefix: str) -> Estate:
    """What deletions of a repository's records in one format have to do with."""
    return Estate(
        repository_id=repository.repository_id,
        metadata_prefix=metadata_prefix,
        folder=base_folder(repository, settings),
        policy=DeletionPolicy(repository.deletion_policy),
        tell=settings.harvester.keep_changes > 0,
    )


def note(session: Session, run: RunKey, held: Held, *, history_id: int) -> None:
    """Ask for a person's yes, in place of what earlier runs of the harvest have asked. The caller commits."""
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


def close(session: Session, run: RunKey, *, everything: bool) -> None:
    """Let go of what earlier runs have asked, as far as this complete one answers it. The caller commits.

    `everything` says that it has seen all records, and so answers all.
    """
    session.execute(
        update(Hold)
        .where(Hold.harvest_id == run.harvest_id, Hold.state == HoldState.RELEASED.value)
        .values(state=HoldState.DONE.value)
    )
    waiting = select(Hold.run_started).where(
        Hold.harvest_id == run.harvest_id, Hold.state == HoldState.HELD.value
    )
    for run_started in session.scalars(waiting).all():
        earlier = RunKey(harvest_id=run.harvest_id, run_started=run_started)
        if everything or not deletions.staged_count(session, earlier):
            _supersede(session, run.harvest_id, run_started)
    deletions.forget_stale(session, run)


def updates_released(session: Session, run: RunKey) -> bool:
    """Whether a person has said yes to the changes that held this harvest."""
    found = select(Hold.history_id).where(
        Hold.harvest_id == run.harvest_id,
        Hold.kind == HoldKind.UPDATES.value,
        Hold.state == HoldState.RELEASED.value,
    )
    return session.scalars(found).first() is not None


def get_hold(session: Session, history_id: int) -> tuple[Hold, int]:
    """The hold of a run that has ended, and its repository. Raises UsageError where it is held no more."""
    hold = session.get(Hold, history_id, with_for_update=True)
    if hold is None:
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


def release(database: Database, settings: Settings, history_id: int) -> tuple[Hold, int]:
    """Say yes to a held run: its deletions are made, its changes may be made by the next run.

    Gives the hold, and how many records it deleted.

    Commits by itself; the caller sees that no harvest of the repository runs meanwhile. Raises UsageError
    where the run is not held.
    """
    with database.session() as session:
        hold, repository_id = get_hold(session, history_id)
        run = RunKey(harvest_id=hold.harvest_id, run_started=hold.run_started)
        repository = session.get_one(Repository, repository_id)
        harvest = session.get_one(Harvest, hold.harvest_id)
        left = estate(repository, settings, harvest.metadata_prefix)
        deletes = hold.kind == HoldKind.DELETIONS
        session.rollback()
    deleted = deletions.apply_staged(database, run, left) if deletes else 0
    with database.session() as session:
        hold, _ = get_hold(session, history_id)
        hold.state, hold.decided = HoldState.RELEASED.value, datetime.now(UTC)
        _tell_history(session, hold, deleted)
        session.commit()
        session.refresh(hold)
        session.expunge(hold)
    return hold, deleted


def _tell_history(session: Session, hold: Hold, deleted: int) -> None:
    """Add to the held run's row what has become of it."""
    row = session.get_one(History, hold.history_id)
    did = f": {deleted:,} records deleted" if hold.kind == HoldKind.DELETIONS else ""
    at = format_datestamp(datetime.now(UTC))
    row.failure_reason = f"{row.failure_reason}; approved {at}{did}"
    row.failure_code, row.failure_facts = FailureCode.RELEASED.value, {"at": at}
    row.deleted_count += deleted


def _supersede(session: Session, harvest_id: int, run_started: datetime | None = None) -> None:
    change = (
        update(Hold)
        .where(Hold.harvest_id == harvest_id, Hold.state == HoldState.HELD.value)
        .values(state=HoldState.SUPERSEDED.value, decided=datetime.now(UTC))
    )
    session.execute(change if run_started is None else change.where(Hold.run_started == run_started))
