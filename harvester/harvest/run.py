"""A run in phases: requested, prepared, running. Each phase can end with a history row.

A phase holds only what is known by then, so no field is optional: `Requested.prepare()` returns a
`PreparedRun`, and `PreparedRun.begin()` a `Run`.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.orm import Session

from harvester import repositories
from harvester.client.exchange import Send
from harvester.harvest import approval, checkpoint, preparation
from harvester.harvest.approval import Held, HeldRunError
from harvester.harvest.checkpointer import Checkpointer, Pace, RunState
from harvester.harvest.ending import Ending
from harvester.harvest.fetch import PreparedPage, RequestBudget
from harvester.harvest.mass_change_guard import MassChangeGuard, may_disappear, open_guard
from harvester.harvest.page_reader import ProcessPolicy
from harvester.harvest.page_writer import Layout, PageWriter, ReturnedRecords
from harvester.harvest.plan import RunPlan, plan
from harvester.harvest.progress import StateChange
from harvester.harvest.quarantine import Quarantine, open_quarantine
from harvester.harvest.quota import Quota, open_quota
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome, continue_rows, get_history, resumable
from harvester.harvest.run_warnings import Note
from harvester.harvest.source import AnswerSource, as_it_is, check_saved_state, open_source
from harvester.harvest.superseded import without_superseded
from harvester.harvest.transform import Refusal, RefusedRecordError, Transformer, joined
from harvester.harvest.verdict import End, judge
from harvester.harvest.watermark import NextWatermark
from harvester.reading.answers import Identity
from harvester.rules.rule_limits import RuleLimits
from harvester.rules.schema_sampling import open_sampler
from harvester.rules.schemas import SchemaCache
from harvester.store.changes import prune_changes
from harvester.store.files import FileStore
from harvester.store.versions import VersionKeeper
from harvester.vocabulary import Level, Verdict
from oai.database import Database
from oai.datestamps import utc_now
from oai.disk import DiskFloor, DiskFullError, open_floor
from oai.errors import failure_of
from oai.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How pages are grouped, committed and parsed; the defaults suit every repository."""

    group_records: int = 3000
    """Number of records at which a group of pages that are stored together is full."""
    old_seconds: float = 1.0
    """Seconds after which stored pages are committed."""
    sign_seconds: float = 1.5
    """Seconds between the process's signs of life; without one for some seconds it is shown as stalled."""
    process_policy: ProcessPolicy = field(default_factory=ProcessPolicy)


@dataclass(kw_only=True)
class Requested:
    """A run that was requested, before its repository was looked up."""

    database: Database
    settings: Settings
    request: HarvestRequest
    around: Callable[[Send], Send] = as_it_is
    """Wraps the function that sends requests to the network (see `FirstAnswer.around`)."""
    tuning: Tuning = field(default_factory=Tuning)
    begun: float = field(default_factory=time.monotonic)
    """The start by the monotonic clock."""

    def prepare(self) -> "PreparedRun":
        """Check the request, read the rules, and look up the repository.

        Raises TryLaterError if the repository asked for a longer wait.
        """
        request, ours = self.request, self.settings.harvester
        request.check()
        limits = RuleLimits(seconds=ours.rule_seconds)
        transformer = request.transformer(limits, data=self.settings.data)
        if request.validation is Level.LOOSE:
            cache = SchemaCache(folder=self.settings.schemas)
            sampler = open_sampler(request.metadata_prefix, ours.schema_check, cache)
            transformer = replace(transformer, sampler=sampler)
        digests = request.rule_digests()
        with self.database.session() as session:
            repository = repositories.get_repository(session, request.repository_id)
            if not request.ignore_wait:
                preparation.check_wait(repository, utc_now())
            folder = repositories.base_folder(repository, self.settings)
            floor = open_floor(self.settings, folder)
            layout = preparation.choose_layout(session, request, repository)
            source = open_source(session, self.settings, request, started=datetime.now(UTC))
            source.around = self.around
            prepared = PreparedRun(
                requested=self,
                base_url=repository.base_url,
                folder=folder,
                layout=layout,
                floor=floor,
                source=source,
                transformer=transformer,
                rule_digests=digests,
                budget=RequestBudget(left=ours.isolation_requests, seconds=ours.max_recovery_seconds),
            )
            session.commit()
        return prepared

    def conclude(self, end: End, error: Exception | None = None) -> RunOutcome:
        """Write the history row of a run that could not be prepared."""
        ending = Ending(requested=self, end=end, error=error, pace=Pace())
        return ending.write_not_started()


@dataclass(kw_only=True)
class PreparedRun:
    """A run whose repository and rules are known, before its plan."""

    requested: Requested
    base_url: str
    folder: Path
    layout: Layout
    floor: DiskFloor
    source: AnswerSource
    transformer: Transformer
    rule_digests: tuple[str | None, str | None]
    """Digests of the rules that were read: the filter file's and the normalise file's."""
    budget: RequestBudget
    state: RunState = field(default_factory=RunState)

    @property
    def request(self) -> HarvestRequest:
        """The request."""
        return self.requested.request

    @property
    def settings(self) -> Settings:
        """The settings, without those that the repository's owner must not reach."""
        return self.requested.settings

    def warn(self, warning: str) -> None:
        """Add a warning for the history."""
        self.state.warnings.warn(warning)

    def note_identity(self, identity: Identity) -> None:
        """Store what Identify says now, because it may have changed; a replay of the past stores nothing."""
        if self.request.replay is not None:
            return
        with self.requested.database.session() as session:
            repositories.note_identity(session, self.request.repository_id, identity)
            session.commit()

    def begin(self, store: FileStore) -> "Run":
        """Plan the run, determine where it begins, and record its start."""
        database, request = self.requested.database, self.request
        with database.session() as session:
            repository = repositories.get_repository(session, request.repository_id)
            row = checkpoint.find(session, request)
            saved_state = checkpoint.saved_state(session, row)
            check_saved_state(request, saved_state)
            overlap, now = self.settings.harvester.overlap, self.source.now
            planned = plan(request, preparation.target(repository), saved_state, now=now, overlap=overlap)
            warnings = [*preparation.starting_warnings(session, request, planned, saved_state, row)]
            missing_set = preparation.missing_set_warning(
                session, repository, request.set_spec, if_unlisted=planned.from_ is None
            )
            now, finds = datetime.now(UTC), may_disappear(session, request, from_=planned.from_)
            point = checkpoint.begin(session, request, planned, row, now=now, finds_disappeared=finds)
            quarantine = open_quarantine(session, request, run_started=point.run_started)
            guard = open_guard(session, repository, self.settings, request, point, from_=planned.from_)
            quota = open_quota(session, request.repository_id, self.settings)
            if quota is not None:
                quota.raw_bytes = self.source.raw_bytes
            session.commit()
        self.source.note_run(request, planned, point)
        self.state.take_up(point, planned)
        for note in warnings:
            self.state.warnings.warn(note.text, note.failure)
        checkpointer = self._checkpointer(store, point, quota)
        returned = ReturnedRecords(request=request, run_started=point.run_started, state=self.state)
        return Run(
            prepared=self,
            plan=planned,
            checkpointer=checkpointer,
            writer=self._writer(store, guard, quota, returned),
            returned=returned,
            quarantine=quarantine,
            guard=guard,
            missing_set=missing_set,
        )

    def _writer(
        self, store: FileStore, guard: MassChangeGuard, quota: Quota | None, returned: ReturnedRecords
    ) -> PageWriter:
        return PageWriter(
            store=store,
            repository_id=self.request.repository_id,
            layout=self.layout,
            guard=guard,
            floor=self.floor,
            quota=quota,
            versions=VersionKeeper(run=guard.run, left=self.settings.harvester.keep_versions),
            brought=returned.keys,
        )

    def _checkpointer(
        self, store: FileStore, point: checkpoint.Checkpoint, quota: Quota | None
    ) -> Checkpointer:
        return Checkpointer(
            database=self.requested.database,
            store=store,
            state=self.state,
            point=point,
            quota=quota,
            begun=self.requested.begun,
            old_seconds=self.requested.tuning.old_seconds,
        )

    def conclude(self, end: End, error: Exception | None = None) -> RunOutcome:
        """Write the history row of a run that ended before its first request for records."""
        ending = Ending(
            requested=self.requested,
            end=end,
            error=error,
            pace=Pace(),
            state=self.state,
            rule_digests=self.rule_digests,
            raw_path=self.source.raw_path,
            isolation_requests=self.budget.spent,
        )
        return ending.write_not_started()


@dataclass(kw_only=True)
class Run:
    """A run that stores records."""

    prepared: PreparedRun
    plan: RunPlan
    checkpointer: Checkpointer
    writer: PageWriter
    returned: ReturnedRecords
    quarantine: Quarantine
    guard: MassChangeGuard
    missing_set: Note | None
    """A warning, for a run without records, that the set may not exist; otherwise empty."""

    @property
    def state(self) -> RunState:
        """The state of the run."""
        return self.prepared.state

    @property
    def request(self) -> HarvestRequest:
        """The request."""
        return self.prepared.request

    def take(self, pages: Sequence[PreparedPage]) -> None:
        """Store pages: their files and their rows; `commit` follows.

        While only further pages are to be stored, the commit may wait: the files of these pages become
        durable while the rows of the next ones are written. This method limits the wait. A failure discards
        everything that is not committed, except a HeldRunError or DiskFullError, which are raised before any
        of its pages is written.
        """
        try:
            self._take(pages)
        except (HeldRunError, DiskFullError):
            raise
        except BaseException as error:
            self.checkpointer.abandon(error)
            raise
        if self.checkpointer.is_due:
            self.checkpointer.commit()

    def _take(self, pages: Sequence[PreparedPage]) -> None:
        state = self.state
        found: Counter[str] = Counter()
        refusals = [refusal for taken in pages for refusal in taken.refused]
        for taken in pages:
            found += taken.counts()
        batch = joined([taken.batch for taken in pages])
        found += Counter(repeated=batch.repeated, outdated=len(batch.outdated))
        state.first_outdated = state.first_outdated or next(iter(batch.outdated), None)
        now = datetime.now(UTC)
        session = self.checkpointer.session()
        if self.request.replay is not None:
            began = self.guard.run.run_started
            batch, superseded = without_superseded(session, batch, self.request, began=began)
            found += Counter(superseded=superseded, unchanged=superseded)
        if pages[0].fetched.page.part == 1:
            state.progress.begin_answer()
        again = self.returned.count_unchanged(session, batch)
        became = self.writer.take(session, batch, now=now)
        staged_again = became.pop("staged_again", 0)
        if self.returned.expected:
            again += staged_again
        found += became + Counter(repeated=became["outdated"])
        found.update(state.progress.count_again(again))
        self.quarantine.note(session, [record.key for record in batch.records], refusals, now=now)
        for taken in pages:
            state.note_page(taken)
        state.progress.count(found, answer_ends=pages[-1].fetched.page.rest is None)
        state.counts = state.with_traffic(state.counts + found)

    def commit(self) -> None:
        """Commit the pages stored so far."""
        self.checkpointer.commit()

    def refuse(self, refusal: Refusal) -> None:
        """Give up a part of the repository that no request can read, and keep the bytes received."""
        self.state.warn_of(refusal)
        self.state.counts["invalid"] += not refusal.is_range
        with self.checkpointer.database.session() as session:
            self.quarantine.add(session, [refusal], now=datetime.now(UTC))
            session.commit()

    def change_list(self, change: StateChange, warning: str | None = None, *, again: bool = False) -> None:
        """Continue with a list other than the current one (see `Checkpointer.change_course`)."""
        if warning is not None:
            self.state.warnings.warn(warning)
        self.checkpointer.change_list(change, again=again)

    def finish_list(self, end: End) -> None:
        """End the current list."""
        self._count_repetitions()
        if note := self.state.progress.loss_warning():
            self.state.warnings.warn(note.text, note.failure)
        self.change_list(lambda progress: progress.finish(end))

    def _count_repetitions(self) -> None:
        """Count what the current list repeated on later pages as repeated instead of unchanged."""
        later = self.state.progress.repeated_later()
        self.state.counts.update(unchanged=-later, repeated=later)

    def conclude(self, end: End, error: Exception | None = None) -> RunOutcome:
        """Judge the run, advance the watermark if possible, and write the history row."""
        prepared, state = self.prepared, self.state
        if isinstance(error, RefusedRecordError):
            self.refuse(error.refusal)
        self._count_repetitions()
        state.counts = state.with_traffic(state.counts)
        ending = Ending(
            requested=prepared.requested,
            end=end,
            error=error,
            pace=self.checkpointer.pace,
            state=state,
            base_url=prepared.base_url,
            rule_digests=prepared.rule_digests,
            raw_path=prepared.source.raw_path,
            isolation_requests=prepared.budget.spent,
            lost=self.checkpointer.point.lost,
        )
        held = self._settle(ending)
        verdict, _status = judge(ending.evidence(held))
        for note in ending.closing_notes():
            state.warnings.warn(note.text, note.failure)
        self._warn_of_watermark(verdict)
        if self.missing_set and not state.counts["records"]:
            self.state.warnings.warn(self.missing_set.text, self.missing_set.failure)
        outcome = ending.outcome(held)
        history_id = self._write_down(ending, outcome, held)
        prune_changes(self.checkpointer.database, keep_days=prepared.settings.harvester.keep_changes)
        return replace(outcome, history_id=history_id)

    def _settle(self, ending: Ending) -> Held | None:
        """Apply the deletions that the run found, or return what holds it."""
        verdict, _ = judge(ending.evidence())
        settlement = self.guard.settle(
            self.checkpointer.database,
            verdict=verdict,
            end=ending.end,
            counts=self.state.counts,
            response_date=self._next.date,
            changed=self.state.progress.totals["shortened"] > 0,
            error=ending.error,
        )
        self.state.counts = settlement.corrected(self.state.counts)
        for warning in settlement.warnings():
            self.state.warnings.warn(warning)
        return settlement.held

    def _warn_of_watermark(self, verdict: Verdict) -> None:
        if self._moves_watermark(verdict) and (warning := self._next.warning()):
            self.state.warnings.warn(warning)

    def _write_down(self, ending: Ending, outcome: RunOutcome, held: Held | None) -> int:
        """Write the history row, and end the checkpoint in the same transaction; return the row's number."""
        with self.checkpointer.database.session() as session:
            history_id = ending.write_history(session, outcome, run=self.guard.run)
            if self.plan.resumes:
                continue_rows(session, get_history(session, history_id))
            if held is not None:
                approval.note(session, self.guard.run, held, history_id=history_id)
            ending.note_wait(session)
            self._end_checkpoint(session, outcome, ending.error, history_id)
            session.commit()
        return history_id

    @property
    def _next(self) -> NextWatermark:
        state, point = self.state, self.checkpointer.point
        return NextWatermark(
            response_date=state.response_date,
            started=point.run_started,
            received_lag=state.lag,
            last=None if self.plan.from_ is None else point.complete.watermark,
            last_lag=point.watermark_lag,
        )

    def _moves_watermark(self, verdict: Verdict) -> bool:
        """Return whether the run received everything, so that the next one need not request it again."""
        before = self.checkpointer.point.complete
        return verdict is Verdict.COMPLETE and self.request.covers(before, self.plan.from_)

    def _end_checkpoint(
        self, session: Session, outcome: RunOutcome, error: Exception | None, history_id: int
    ) -> None:
        moves = self._moves_watermark(outcome.verdict)
        point, watermark = self.checkpointer.point, self._next.value if moves else None
        complete = None if watermark is None else point.complete.extended(watermark, self.plan.from_)
        checkpoint.end(
            session,
            point.harvest_id,
            complete=complete,
            lag=self._next.lag,
            resumable=resumable(outcome.evidence.end, error),
            error=Note(text=str(error), failure=failure_of(error)) if error else None,
        )
        if self.quarantine.occupied:
            # Harvests from a date do not meet earlier records, so they do not resolve their entries.
            all_met = moves and (complete is None or complete.complete_from is None)
            self.quarantine.close(session, history_id=history_id, complete=all_met, now=datetime.now(UTC))
        self.quarantine.prune(session, keep_days=self.prepared.settings.harvester.keep_changes)
