"""The mass-change guard: holds a run for approval if it would delete or change too many records."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.harvest import approval, checkpoint, disappearance
from harvester.harvest.approval import SAMPLE, Held, HeldRunError, HoldKind
from harvester.harvest.checkpoint import Checkpoint
from harvester.harvest.disappearance import OURS, ListedRecords
from harvester.harvest.request import HarvestRequest
from harvester.harvest.verdict import PROPER, End
from harvester.models import Repository
from harvester.store import deletions
from harvester.store.deletions import OF_FORMAT, DeletionTarget, Tombstone
from harvester.store.records import RunKey
from harvester.vocabulary import Verdict
from oai.console import counted
from oai.database import Database
from oai.datestamps import format_datestamp, utc_now
from oai.settings import Settings
from oai.vocabulary import reports_deletions

_LEFT = text(
    f"""
    SELECT EXISTS (SELECT FROM oai_held_deletion WHERE harvest_id = ANY({OF_FORMAT})) AS deletions,
        EXISTS (SELECT FROM oai_sighting WHERE harvest_id = :harvest_id) AS sightings,
        EXISTS (SELECT FROM oai_hold WHERE harvest_id = :harvest_id) AS holds
    """  # noqa: S608 built from constants only
)
_ANY_ACTIVE = text(
    """
    SELECT EXISTS (SELECT FROM oai_record
                   WHERE repository_id = :repository_id AND metadata_prefix = :prefix AND status = 'active')
    """
)
_ACTIVE = text(
    f"""
    SELECT count(*) FROM oai_record AS record
    WHERE {OURS} AND NOT (update_flag = 'new' AND harvest_time >= :run_started)
    """  # noqa: S608 built from constants only
)


def any_active(session: Session, *, repository_id: int, metadata_prefix: str) -> bool:
    """Return whether the repository has active records in the format; false before the first harvest."""
    found = session.execute(_ANY_ACTIVE, {"repository_id": repository_id, "prefix": metadata_prefix})
    return bool(found.scalar_one())


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """What became of the deletions that a run found."""

    deleted: int = 0
    disappeared: int = 0
    """Records that disappeared without the repository reporting their deletion."""
    waiting: int = 0
    """Deletions that are too many to apply before the run is complete."""
    elsewhere: int = 0
    """Unseen records that were kept because another harvest covers them."""
    unnamed: int = 0
    """Seen records whose headers do not name the harvested set."""
    unreported: int = 0
    """Records that disappeared although the repository reports its deletions."""
    unconfirmed: int = 0
    """Unseen records that were kept because a list changed while it was read."""
    held: Held | None = None

    def warnings(self) -> Iterator[str]:
        """Yield what is left undone."""
        if self.waiting:
            yield f"{self.waiting:,} deletions are postponed until the run is complete"
        if self.elsewhere:
            was, it = ("was", "it") if self.elsewhere == 1 else ("were", "them")
            yield (
                f"{counted(self.elsewhere, 'record')} that this set no longer lists {was} kept, because"
                f" another harvest of the repository covers {it}; a full harvest of the whole repository"
                " finds what is gone"
            )
        if self.unnamed:
            yield (
                f"the headers of {counted(self.unnamed, 'listed record')} do not name this set; records"
                " without that name are not deleted when the set no longer lists them; a full harvest of the"
                " whole repository finds what is gone"
            )
        if self.unreported:
            was = "was" if self.unreported == 1 else "were"
            yield (
                f"{counted(self.unreported, 'stored record')} {was} not listed, although the repository"
                " reports its deletions (deletedRecord persistent)"
            )
        if self.unconfirmed:
            was, it = ("was", "it") if self.unconfirmed == 1 else ("were", "them")
            yield (
                f"{counted(self.unconfirmed, 'record')} missing from the list {was} kept, because the list"
                " changed while it was read (it repeated records or became shorter) and may only have skipped"
                f" {it}; the next full harvest deletes what it does not list either"
            )

    def corrected(self, counts: Mapping[str, int]) -> Counter[str]:
        """Return the run's counts, corrected by this settlement."""
        found = Counter(counts)
        held = self.held.would_delete if self.held else 0
        # The counts of the pages include every tombstone, but no record that disappeared.
        found["deleted"] += self.disappeared - self.waiting - held
        found["disappeared"] += self.disappeared - (self.disappeared if held else 0)
        found["postponed"] += self.waiting + max(held - self.disappeared, 0)
        return found


@dataclass(kw_only=True)
class MassChangeGuard:
    """The mass-change guard of one run.

    Its steps join the caller's transaction; `settle` commits by itself. Calls never overlap: pages are stored
    in one thread, and `settle` runs after the last page.
    """

    run: RunKey
    target: DeletionTarget
    set_spec: str
    deletions_allowed: float
    updates_allowed: float | None
    updates_approved: bool = False
    """Whether a person approved the changes for which an earlier run was held, and this run requests them."""
    minimum: int
    finds_disappeared: bool
    """Whether the run notes the records it sees, and at its end finds those that disappeared."""
    names_sets: bool = True
    """Whether headers name the sets, which are queries in other protocols than OAI-PMH."""
    reports_deletions: bool = False
    """Whether the repository says that it reports each deletion."""
    all_requested: bool = False
    """Whether the repository was asked for each record that the lists lack, and does not have it."""
    disappeared: int | None = None
    """Number of records that disappeared; None before the run has looked for them."""
    updates: int = 0
    """Updated records of the run so far."""
    any_staged: bool = False
    """Whether deletions wait, of this run or of an earlier one of the same repository and format."""
    replays: bool = False
    """Whether the run processes old answers: they do not show that deletions found later are wrong."""
    _before: int | None = None
    """Active records before the run, once counted: pages of the run do not change the number."""

    def stage(self, session: Session, tombstones: Sequence[Tombstone]) -> int:
        """Stage deletions for the end of the run; return how many were not staged before."""
        self.any_staged = self.any_staged or bool(tombstones)
        return deletions.stage(session, self.run, tombstones)

    def note_alive(self, session: Session, record_ids: Sequence[int]) -> None:
        """Record that the records are active; withdraw their staged deletions, or those of a replay alone."""
        if self.any_staged and record_ids:
            deletions.unstage(session, self.run, record_ids, earlier=not self.replays)
            if self.replays:
                deletions.keep_staged(session, self.run, record_ids)
        if self.finds_disappeared:
            disappearance.note_seen(session, self.run, record_ids)

    def note_seen(self, session: Session, record_ids: Sequence[int]) -> None:
        """Record that the repository has records that the run does not store: they have not disappeared."""
        if self.any_staged and record_ids and not self.replays:
            deletions.unstage(session, self.run, record_ids, own=False)
        if self.finds_disappeared:
            disappearance.note_seen(session, self.run, record_ids)

    def find_disappeared(self, database: Database, *, most: int) -> Sequence[tuple[int, str]]:
        """Return ids and identifiers of active records that the lists lack, at most so many.

        Empty if records cannot disappear in this run, or if it has looked for them already.
        """
        if not self.finds_disappeared or not self.names_sets or self.disappeared is not None:
            return []
        with database.session() as session:
            return disappearance.disappeared_records(session, self.run, self._listed, most=most)

    def keep(self, database: Database, record_ids: Sequence[int], *, all_requested: bool) -> None:
        """Keep records that the lists lack, but that the repository has; commits by itself.

        `all_requested`: each of the others was requested, and it does not have them.
        """
        self.all_requested = all_requested
        with database.session() as session:
            self.note_seen(session, record_ids)
            session.commit()

    def check_updates(self, session: Session, updates: int, sample: Sequence[str]) -> None:
        """Count a page's updates before any is stored. Raises HeldRunError if they are too many."""
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
        changed: bool = False,
        error: Exception | None = None,
    ) -> Settlement:
        """Apply the run's deletions, or hold them; find disappeared records. Commits by itself, in pieces.

        `changed`: a list changed while it was read, so records may only have been skipped.
        """
        with database.session() as session:
            if isinstance(error, HeldRunError):
                return Settlement(held=error.held, waiting=self._staged(session))
            found = self._find_disappeared(session, verdict, response_date, certain=not changed)
            waiting = self._staged(session)
            applied = max(counts.get("deleted", 0) + found.disappeared - waiting, 0)
            held = self._judged(session, waiting, applied)
            if self.updates_approved and end in PROPER:
                approval.finish_updates(session, self.run)
            session.commit()
        if held is not None and (end in PROPER or end is End.SAMPLE):
            return replace(found, held=held)
        if held is not None:
            return replace(found, waiting=waiting)
        deleted = deletions.apply_staged(database, self.run, self.target) if waiting else 0
        with database.session() as session:
            if verdict is Verdict.COMPLETE:
                approval.close(session, self.run, everything=self.finds_disappeared, replays=self.replays)
            session.commit()
        return replace(found, deleted=deleted)

    @property
    def _listed(self) -> ListedRecords:
        return ListedRecords(
            repository_id=self.target.repository_id,
            metadata_prefix=self.target.metadata_prefix,
            set_spec=self.set_spec,
        )

    def _staged(self, session: Session) -> int:
        """Return the number of deletions that the run has staged."""
        return deletions.staged_count(session, self.run) if self.any_staged else 0

    def _find_disappeared(
        self, session: Session, verdict: Verdict, response_date: str | None, *, certain: bool
    ) -> Settlement:
        """Stage the deletion of records that disappeared; return what was found."""
        if self.disappeared is not None:
            return self._found(self.disappeared)
        if not self.finds_disappeared or verdict is not Verdict.COMPLETE:
            return Settlement()
        found = disappearance.stage_disappeared(
            session,
            self.run,
            self._listed,
            datestamp=response_date or format_datestamp(utc_now()),
            # A list that did not change, or a request for each record, leaves no doubt.
            certain=certain or self.all_requested,
        )
        disappearance.forget_seen(session, self.run)
        checkpoint.note_disappeared(session, self.run.harvest_id, found.disappeared)
        self.any_staged = self.any_staged or bool(found.disappeared)
        unnamed = found.unnamed if self.names_sets else 0
        more = {"elsewhere": found.elsewhere, "unnamed": unnamed, "unconfirmed": found.unconfirmed}
        return replace(self._found(found.disappeared), **more)

    def _found(self, disappeared: int) -> Settlement:
        return Settlement(disappeared=disappeared, unreported=disappeared if self.reports_deletions else 0)

    def _judged(self, session: Session, waiting: int, applied: int) -> Held | None:
        """Return what exceeds the limit, or None; `applied` were deleted before the run was interrupted."""
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
        return int(session.execute(_ACTIVE, {**self.run.parameters, **self._listed.parameters}).scalar_one())


def may_disappear(session: Session, request: HarvestRequest, *, from_: str | None) -> bool:
    """Return whether a run from the datestamp `from_` on can find records that the repository no longer has.

    The run must request everything. Repositories that report deletions are no exception: they never report
    what they removed before they began to, or before they moved. On a first harvest nothing can be missing.
    """
    narrowed = request.harvest_to is not None or request.max_records is not None
    whole = from_ is None and not narrowed and request.replay is None
    return whole and any_active(
        session, repository_id=request.repository_id, metadata_prefix=request.metadata_prefix
    )


def left_by_runs(session: Session, run: RunKey) -> Row[Any]:
    """Return whether runs of the harvest left `sightings` or `holds`, or any of the format `deletions`.

    Most left nothing.
    """
    return session.execute(_LEFT, {"harvest_id": run.harvest_id}).one()


def open_guard(
    session: Session,
    repository: Repository,
    settings: Settings,
    request: HarvestRequest,
    point: Checkpoint,
    *,
    from_: str | None,
) -> MassChangeGuard:
    """Return the guard of a run that begins or resumes at the checkpoint. The caller commits.

    `from_` is where the run begins.
    """
    run = RunKey(harvest_id=point.harvest_id, run_started=point.run_started)
    left = left_by_runs(session, run)
    if left.deletions:
        deletions.forget_stale(session, run)
    if left.sightings:
        disappearance.forget_earlier(session, run)
    own, ours = repository, settings.harvester
    updates = ours.brake_updates if own.brake_updates is None else own.brake_updates
    approved = left.holds and approval.updates_released(session, run)
    return MassChangeGuard(
        run=run,
        target=approval.deletion_target(repository, settings, request.metadata_prefix),
        set_spec=request.set_spec,
        deletions_allowed=ours.brake_deletions if own.brake_deletions is None else own.brake_deletions,
        updates_allowed=None if approved else updates,
        updates_approved=approved and (request.replay is not None or request.covers(point.complete, from_)),
        minimum=ours.brake_minimum,
        finds_disappeared=point.finds_disappeared,
        names_sets=access_of(repository.protocol).query is None,
        reports_deletions=reports_deletions(repository.deleted_record),
        disappeared=point.disappeared,
        updates=point.counts.get("updated", 0),
        any_staged=left.deletions and deletions.any_staged(session, run),
        replays=request.replay is not None,
    )
