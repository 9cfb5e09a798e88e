"""A run's steps that touch database and files; these commit by themselves, in a thread."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from harvester import repositories
from harvester.reading.answers import Identity
from harvester.rules.rule_limits import Limits
from harvester.running import checkpoints, holds
from harvester.running.brake import begin_brake, may_disappear
from harvester.running.concluding import (
    exit_code,
    failure,
    failure_reason,
    resumable,
    wait_until,
    watermark,
)
from harvester.running.fetching import Allowance
from harvester.running.holds import Held, HeldRunError
from harvester.running.intake import Intake
from harvester.running.marks import mark
from harvester.running.notes import Note
from harvester.running.opening import check_wait, choose_layout, note_wait, target
from harvester.running.outcome import Outcome, write_history
from harvester.running.planning import plan
from harvester.running.preparing import Batch, Level, Prepared, joined
from harvester.running.quarantine import open_ward
from harvester.running.recounting import brought_before, written_before
from harvester.running.sourcing import check_standing, open_source, without_superseded
from harvester.running.state import RunState
from harvester.running.taken import Taken
from harvester.running.verdict import PROPER, End, Verdict, judge
from harvester.store.changes import prune_changes
from harvester.store.files import FileStore
from harvester.store.records import RunKey
from oai.datestamps import utc_now
from oai.errors import failure_of


@dataclass(kw_only=True)
class Run(RunState):
    """A harvest under way: its steps, from the repository's row to the history's."""

    def prepare(self) -> None:
        """Check the request, read the rules, and look the repository up.

        Raises TryLaterError where the repository asked to be left alone for longer.
        """
        self.request.check()
        self.preparer = self.request.preparer(Limits(seconds=self.settings.harvester.rule_seconds))
        self.rule_digests = self.request.rule_digests()
        ours = self.settings.harvester
        self.allowance = Allowance(left=ours.isolation_requests, seconds=ours.max_recovery_seconds)
        with self.database.session() as session:
            repository = repositories.get_repository(session, self.request.repository_id)
            self.base_url = repository.base_url
            self.folder = repositories.base_folder(repository, self.settings)
            if not self.request.ignore_wait:
                check_wait(repository, utc_now())
            self._layout = choose_layout(session, self.request, repository)
            self.source = open_source(session, self.settings, self.request, started=datetime.now(UTC))
            self.source.around = self.around
            session.commit()

    def note_identity(self, identity: Identity) -> None:
        """Note what the repository says of itself, for it may have changed; a replay tells of the past."""
        if self.request.replay is not None:
            return
        with self.database.session() as session:
            repositories.note_identity(session, self.request.repository_id, identity)
            session.commit()

    def begin(self, store: FileStore) -> None:
        """Plan the run, find where it begins, and note that it does."""
        with self.database.session() as session:
            repository = repositories.get_repository(session, self.request.repository_id)
            standing = checkpoints.standing(session, self.request)
            check_standing(self.request, standing)
            overlap, now = self.settings.harvester.overlap, self.source.now
            self.plan = plan(self.request, target(repository), standing, now=now, overlap=overlap)
            looks = may_disappear(session, repository, self.request, from_=self.plan.from_)
            point = checkpoints.begin(session, self.request, self.plan, now=datetime.now(UTC), looks=looks)
            self._ward = open_ward(session, self.request, run_started=point.run_started)
            self._brake = begin_brake(
                session,
                repository,
                self.settings,
                self.request,
                run=RunKey(harvest_id=point.harvest_id, run_started=point.run_started),
                point=point,
            )
            session.commit()
        self.source.note_run(self.request, self.plan, point)
        self._stand(point, self.plan)
        assert self._layout is not None  # noqa: S101 prepare() comes first
        self._intake = Intake(
            store=store,
            repository_id=self.request.repository_id,
            layout=self._layout,
            brake=self._brake,
            brought=self._brought,
        )

    def take(self, pages: Sequence[Taken]) -> None:
        """Take pages in: their files and their rows; `commit` follows.

        While nothing but further pages is to be done, it may wait: these pages' files become durable beside
        the next ones' rows. It is seen to here that it does not wait long. Whatever fails takes with it all
        that was not committed, only not a HeldRunError, which comes before anything of its pages is written.
        """
        try:
            self._take(pages)
        except HeldRunError:
            raise
        except BaseException as error:
            self.counts = self._uncommitted.abandon(error, self.counts)
            raise
        if self._uncommitted.old:
            self.commit()

    def _take(self, pages: Sequence[Taken]) -> None:
        assert self._intake is not None and self._ward is not None  # noqa: S101, PT018 begin() comes first
        found: Counter[str] = Counter()
        refusals = [refusal for taken in pages for refusal in taken.refused]
        for taken in pages:
            found += taken.counts()
        batch = joined([taken.batch for taken in pages])
        found += Counter(repeated=batch.repeated, outdated=len(batch.outdated))
        self.first_outdated = self.first_outdated or next(iter(batch.outdated), None)
        now = datetime.now(UTC)
        session = self._uncommitted.session(self.database, self.counts)
        if self.request.replay is not None:
            batch, superseded = self._current(session, batch)
            found += Counter(superseded=superseded, unchanged=superseded)
        if pages[0].fetched.page.part == 1:
            self.progress.begin_answer()
        again = self._brought_before(session, batch)
        became = self._intake.take(session, batch, now=now)
        found += became + Counter(repeated=became["outdated"])
        found["unchanged"] -= again
        self._ward.note(session, [record.key for record in batch.records], refusals, now=now)
        for taken in pages:
            self._note_page(taken)
        self.progress.count(found, answer_ends=pages[-1].fetched.page.rest is None)
        self.counts = self._with_traffic(self.counts + found)

    def _current(self, session: Session, batch: Batch) -> tuple[Batch, int]:
        """What of a replayed batch is not out of date by now."""
        return without_superseded(
            session,
            batch,
            repository_id=self.request.repository_id,
            metadata_prefix=self.request.metadata_prefix,
        )

    def _brought_before(self, session: Session, batch: Batch) -> int:
        """How many of the batch's records this run has brought as they are, before a list began again."""
        totals = self.progress.totals
        again = ("restarts", "taken_up", "halvings", "answers_again")
        if self._brake is None or not any(totals[name] for name in again):
            return 0
        return brought_before(
            session,
            batch.records,
            repository_id=self.request.repository_id,
            metadata_prefix=self.request.metadata_prefix,
            run_started=self._brake.run.run_started,
        )

    def _brought(self, session: Session, records: Sequence[Prepared]) -> set[str]:
        """The keys of those of the records that this run has brought before: it wrote or listed them."""
        assert self._brake is not None  # noqa: S101 begin() comes first
        keys = written_before(
            session,
            records,
            repository_id=self.request.repository_id,
            metadata_prefix=self.request.metadata_prefix,
            run_started=self._brake.run.run_started,
        )
        others = {mark(record.header.identifier): record.key for record in records if record.key not in keys}
        if others and self._searches_left:
            listed = set(others).intersection(self.progress.watch.marks)
            # To go over the marks takes a while where they are millions, and a repository that was set back
            # has older datestamps on every page.
            self._searches_left -= not listed
            keys |= {others[one] for one in listed}
        names = [record.header.identifier for record in records if record.key in keys]
        self.first_outdated = self.first_outdated or next(iter(names), None)
        return keys

    def conclude(self, end: End, error: Exception | None = None) -> Outcome:
        """Judge the run, move the watermark if it may, and write the history row."""
        self.counts = self._with_traffic(self.counts)
        held = self._settle(end, error)
        evidence = replace(self._evidence(end), held=held.in_words() if held else None)
        verdict, status = judge(evidence)
        self._warn_at_end(verdict)
        outcome = Outcome(
            repository_id=self.request.repository_id,
            status=status,
            verdict=verdict,
            exit_code=exit_code(evidence, verdict, error, strict=self.request.validation is not Level.LOOSE),
            counts=self.counts,
            evidence=evidence,
            seconds=time.monotonic() - self._begun,
            started=self._started,
            failure_reason=failure_reason(evidence, error),
            failure=failure(evidence, error),
            notes=self.notes.all(),
            first_refusal=self.first_refusal,
            raw_path=self.source.raw_path,
            pace=self._pace.close(
                time.monotonic() - self._begun, self.counts["records"], self.traffic.requests
            ),
        )
        history_id = self._write_down(outcome, held, error)
        prune_changes(self.database, keep_days=self.settings.harvester.keep_changes)
        return replace(outcome, history_id=history_id)

    def _warn_at_end(self, verdict: Verdict) -> None:
        """Say what can be said only once, when the run is over."""
        if self.counts["superseded"]:
            self.warn(
                f"{self.counts['superseded']:,} records were left unchanged because later "
                "harvests have newer versions"
            )
        if self.counts["outdated"]:
            example = f"; the first: {self.first_outdated!r}" if self.first_outdated else ""
            self.warn(
                "repeated records with an older datestamp were ignored, because the newer version "
                f"counts: {self.counts['outdated']:,}{example}"
            )
        if self._moves_watermark(verdict) and self._watermark is None:
            self.warn(
                f"the responseDate {self.response_date or ''!r} cannot be read, so the next harvest "
                "starts where this one started"
            )

    def _write_down(self, outcome: Outcome, held: Held | None, error: Exception | None) -> int:
        """Write the history row, and end the checkpoint in the same transaction; gives the row's number."""
        with self.database.session() as session:
            run = self._brake.run if self._brake else None
            history_id = write_history(session, self.request, outcome, run=run, rules=self.rule_digests)
            if held is not None and run is not None:
                holds.note(session, run, held, history_id=history_id)
            self._end_checkpoint(session, outcome.evidence.end, outcome.verdict, error, history_id)
            session.commit()
        return history_id

    def _settle(self, end: End, error: Exception | None) -> Held | None:
        """Make the deletions that the run has found, or tell what holds it."""
        if self._brake is None:
            return None
        verdict, _ = judge(self._evidence(end))
        settlement = self._brake.settle(
            self.database,
            verdict=verdict,
            end=end,
            counts=self.counts,
            response_date=self._watermark,
            error=error,
        )
        self.counts = settlement.corrected(self.counts)
        if settlement.waiting:
            self.warn(f"{settlement.waiting:,} deletions are postponed until the run is complete")
        return settlement.held

    @property
    def _watermark(self) -> str | None:
        """The date of the run's first answer, for the next harvest to begin from; None where it has none."""
        point = self._checkpoint
        return watermark(self.response_date, point.run_started) if point is not None else None

    def _moves_watermark(self, verdict: Verdict) -> bool:
        """Whether the run has everything that the next one need not ask for again."""
        point = self._checkpoint
        complete = verdict is Verdict.COMPLETE and point is not None
        return complete and self.request.covers(point.watermark if point else None)

    def _end_checkpoint(
        self, session: Session, end: End, verdict: Verdict, error: Exception | None, history_id: int
    ) -> None:
        until = wait_until(error, utc_now())
        if self.request.replay is None and (until is not None or end in PROPER):
            note_wait(session, self.request.repository_id, until)
        point = self._checkpoint
        if point is None:
            return
        moves = self._moves_watermark(verdict)
        checkpoints.end(
            session,
            point.harvest_id,
            watermark=self._watermark if moves else None,
            resumable=resumable(end, error),
            error=Note(text=str(error), failure=failure_of(error)) if error else None,
        )
        if self._ward is not None:
            self._ward.close(session, history_id=history_id, complete=moves, now=datetime.now(UTC))
