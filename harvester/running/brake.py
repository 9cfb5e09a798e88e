"""The brake: a run that would delete or change too many records is held until a person says yes (HAR-9)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.models import Repository
from harvester.running import checkpoints, disappearance, holds
from harvester.running.checkpoints import Checkpoint
from harvester.running.disappearance import OURS
from harvester.running.holds import SAMPLE, Held, HeldRunError, HoldKind
from harvester.running.parameters import HarvestRequest
from harvester.running.verdict import PROPER, End, Verdict
from harvester.store import deletions
from harvester.store.deletions import Estate, Tombstone
from harvester.store.records import RunKey
from oai.database import Database
from oai.datestamps import format_datestamp, utc_now
from oai.settings import Settings
from oai.vocabulary import DeletedRecord

_FORGETFUL = frozenset({DeletedRecord.NO.value, DeletedRecord.TRANSIENT.value})
_ACTIVE = text(
    f"""
    SELECT count(*) FROM oai_record AS record
    WHERE {OURS} AND NOT (update_flag = 'new' AND harvest_time >= :run_started)
    """  # noqa: S608 made of our own words
)


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """What became of the deletions that a run has found."""

    deleted: int = 0
    disappeared: int = 0
    """Those of them of which the repository did not tell."""
    waiting: int = 0
    """Deletions too many to apply before the run has come to its end."""
    held: Held | None = None

    def corrected(self, counts: Mapping[str, int]) -> Counter[str]:
        """The run's counts as they are now that this is settled."""
        found = Counter(counts)
        held = self.held.would_delete if self.held else 0
        # The page-wise count has every tombstone, and nothing of what disappeared.
        found["deleted"] += self.disappeared - self.waiting - held
        found["disappeared"] += self.disappeared - (self.disappeared if held else 0)
        return found


@dataclass(kw_only=True)
class Brake:
    """Watches over one run. Its steps take part in the caller's transaction; `settle` commits by itself."""

    run: RunKey
    estate: Estate
    set_spec: str
    deletions_allowed: float
    updates_allowed: float | None
    minimum: int
    looks: bool
    """Whether the run finds out what has disappeared."""
    disappeared: int | None = None
    """How many records have; None before it was found out."""
    updates: int = 0
    """Of the run so far."""
    any_staged: bool = False
    _before: int | None = None
    """Records that lived here before the run, once they are counted: no page of it changes their number."""

    def stage(self, session: Session, tombstones: Sequence[Tombstone]) -> int:
        """Note deletions for the run's end; gives how many were not noted yet."""
        self.any_staged = self.any_staged or bool(tombstones)
        return deletions.stage(session, self.run, tombstones)

    def note_alive(self, session: Session, record_ids: Sequence[int]) -> None:
        """Note that the records are there: none of them is to be deleted."""
        if self.any_staged and record_ids:
            deletions.unstage(session, self.run, record_ids)
        if self.looks:
            disappearance.note_seen(session, self.run, record_ids)

    def note_seen(self, session: Session, record_ids: Sequence[int]) -> None:
        """Note that the list has the records, as deleted ones perhaps, so that they have not disappeared."""
        if self.looks:
            disappearance.note_seen(session, self.run, record_ids)

    def check_updates(self, session: Session, updates: int, sample: Sequence[str]) -> None:
        """Count a page's changes before any is stored. Raises HeldRunError where they are too many."""
        total = self.updates + updates
        if self.updates_allowed is not None and updates and total >= self.minimum:
            active = self._before = self._active(session) if self._before is None else self._before
            if total > active * self.updates_allowed / 100:
                raise HeldRunError(
                    Held(
                        kind=HoldKind.UPDATES,
                        would_delete=0,
                        would_update=total,
                        active=active,
                        allowed=self.updates_allowed,
                        sample=sample[:SAMPLE],
                    )
                )
        self.updates = total

    def settle(
        self,
        database: Database,
        *,
        verdict: Verdict,
        end: End,
        counts: Mapping[str, int],
        response_date: str | None,
        error: Exception | None = None,
    ) -> Settlement:
        """Apply the run's deletions, or hold them; find what disappeared. Commits by itself, in pieces."""
        if isinstance(error, HeldRunError):
            return Settlement(held=error.held)
        with database.session() as session:
            disappeared = self._stage_disappeared(session, verdict, response_date)
            waiting = deletions.staged_count(session, self.run) if self.any_staged else 0
            held = self._judged(session, waiting, max(counts.get("deleted", 0) + disappeared - waiting, 0))
            session.commit()
        if held is not None and (end in PROPER or end is End.SAMPLE):
            return Settlement(held=held, disappeared=disappeared)
        if held is not None:
            return Settlement(waiting=waiting, disappeared=disappeared)
        deleted = deletions.apply_staged(database, self.run, self.estate) if waiting else 0
        with database.session() as session:
            if verdict is Verdict.COMPLETE:
                holds.close(session, self.run, everything=self.looks)
            session.commit()
        return Settlement(deleted=deleted, disappeared=disappeared)

    def _stage_disappeared(self, session: Session, verdict: Verdict, response_date: str | None) -> int:
        if self.disappeared is not None:
            return self.disappeared
        if not self.looks or verdict is not Verdict.COMPLETE:
            return 0
        found = disappearance.stage_disappeared(
            session,
            self.run,
            repository_id=self.estate.repository_id,
            metadata_prefix=self.estate.metadata_prefix,
            set_spec=self.set_spec,
            datestamp=response_date or format_datestamp(utc_now()),
        )
        disappearance.forget_seen(session, self.run)
        checkpoints.note_disappeared(session, self.run.harvest_id, found)
        self.any_staged = self.any_staged or bool(found)
        return found

    def _judged(self, session: Session, waiting: int, applied: int) -> Held | None:
        """What is too much, or None; `applied` are deletions that the run made before it was cut off."""
        total = waiting + applied
        if not waiting or total < self.minimum:
            return None
        active = self._active(session) + applied
        if total <= active * self.deletions_allowed / 100:
            return None
        return Held(
            kind=HoldKind.DELETIONS,
            would_delete=waiting,
            would_update=0,
            active=active,
            allowed=self.deletions_allowed,
            sample=deletions.staged_sample(session, self.run, most=SAMPLE),
        )

    def _active(self, session: Session) -> int:
        found = session.execute(
            _ACTIVE,
            {
                "repository_id": self.estate.repository_id,
                "prefix": self.estate.metadata_prefix,
                "set_spec": self.set_spec,
                "run_started": self.run.run_started,
            },
        )
        return int(found.scalar_one())


def may_disappear(
    session: Session, repository: Repository, request: HarvestRequest, *, from_: str | None
) -> bool:
    """Whether a run from the datestamp `from_` on can find records that the repository no longer has.

    It has to ask for everything, from a repository that does not report each deletion. On a first harvest
    there is nothing that could be missing.
    """
    narrowed = request.harvest_to is not None or request.max_records is not None
    whole = from_ is None and not narrowed and request.replay is None
    return (
        whole
        and repository.deleted_record in _FORGETFUL
        and disappearance.any_active(
            session, repository_id=repository.repository_id, metadata_prefix=request.metadata_prefix
        )
    )


def begin_brake(
    session: Session,
    repository: Repository,
    settings: Settings,
    request: HarvestRequest,
    *,
    run: RunKey,
    point: Checkpoint,
) -> Brake:
    """The brake of a run that begins, or is resumed, at the checkpoint. The caller commits."""
    deletions.forget_stale(session, run)
    disappearance.forget_earlier(session, run)
    own, ours = repository, settings.harvester
    updates = ours.brake_updates if own.brake_updates is None else own.brake_updates
    return Brake(
        run=run,
        estate=holds.estate(repository, settings, request.metadata_prefix),
        set_spec=request.set_spec,
        deletions_allowed=ours.brake_deletions if own.brake_deletions is None else own.brake_deletions,
        updates_allowed=None if holds.updates_released(session, run) else updates,
        minimum=ours.brake_minimum,
        looks=point.looks,
        disappeared=point.disappeared,
        updates=point.counts.get("updated", 0),
        any_staged=deletions.any_staged(session, run),
    )
