"""How far a run is, in memory and in its `oai_harvest` row; what is saved is committed here, in a thread."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy.orm import Session

from harvester.client.exchange import Send
from harvester.client.repository_client import Traffic
from harvester.running import checkpoints, marks_kept
from harvester.running.brake import Brake
from harvester.running.checkpoints import Checkpoint
from harvester.running.concluding import gather
from harvester.running.fetching import Allowance
from harvester.running.intake import Intake, Layout
from harvester.running.marks import Marks, no_marks
from harvester.running.notes import Note, Notes
from harvester.running.pacing import Pace
from harvester.running.parameters import HarvestRequest
from harvester.running.planning import Plan
from harvester.running.preparing import Preparer
from harvester.running.progress import Progress, StateChange, progress_from_json
from harvester.running.quarantine import Ward
from harvester.running.refusals import Refusal
from harvester.running.sourcing import Source, as_it_is
from harvester.running.taken import Taken
from harvester.running.uncommitted import Uncommitted
from harvester.running.verdict import PROPER, End, Evidence
from oai.database import Database
from oai.datestamps import format_datestamp, utc_now
from oai.failures import Failure, FailureCode
from oai.settings import Settings


@dataclass(kw_only=True)
class RunState:
    """A harvest under way, as far as its steps share it."""

    database: Database
    settings: Settings
    request: HarvestRequest
    around: Callable[[Send], Send] = as_it_is
    """Put between the run and the network (see `FirstAnswer.around`)."""
    base_url: str = ""
    folder: Path = field(default_factory=Path)
    plan: Plan | None = None
    token: str = ""
    """Of the page after the last one taken in."""
    progress: Progress = field(default_factory=Progress)
    response_date: str | None = None
    complete_list_size: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    notes: Notes = field(default_factory=Notes)
    first_refusal: str | None = None
    """Of those that this process has made."""
    first_outdated: str | None = None
    """Of the records that came again with an older datestamp, to this process."""
    preparer: Preparer = field(default_factory=Preparer)
    rule_digests: tuple[str | None, str | None] = (None, None)
    """Of the rules that were read: the filter file's, the normalise file's."""
    traffic: Traffic = field(default_factory=Traffic)
    source: Source = field(init=False)
    allowance: Allowance = field(default_factory=lambda: Allowance(left=0))
    _started: datetime = field(default_factory=utc_now)
    _begun: float = field(default_factory=time.monotonic)
    _checkpoint: Checkpoint | None = None
    _layout: Layout | None = None
    _intake: Intake | None = None
    _ward: Ward | None = None
    _brake: Brake | None = None
    _before: Counter[str] = field(default_factory=Counter)
    _uncommitted: Uncommitted = field(default_factory=Uncommitted)
    _pace: Pace = field(default_factory=Pace)
    _marks: Marks = field(default_factory=no_marks)
    """Of the list whose marks were saved last; so many of them were."""
    _marks_saved: int = 0
    _searches_left: int = 200
    """So many more times the list's marks are gone over although none of what is looked for is among them."""

    def __post_init__(self) -> None:
        self.source = Source(settings=self.settings)

    def change_course(self, change: StateChange, warning: str | None = None, *, again: bool = False) -> None:
        """Go on with another list than the one at hand: the token is done with, and that is saved.

        `again` says that what was counted of the list at hand will be counted again.
        """
        if warning is not None:
            self.warn(warning)
        if again:
            self.counts = self.progress.uncounted(self.counts)
        change(self.progress)
        self.token = ""
        with self.database.session() as session:
            self.counts = self._with_traffic(self.counts)
            self._save(session)
            session.commit()

    def commit(self) -> None:
        """Commit the pages taken in so far, with the checkpoint behind them, when their files are durable.

        What was not committed before a failure is lost to the run, and its counts are as if it had not come;
        whatever is to follow raises the failure again.
        """
        session = self._uncommitted.open
        if session is None:
            return
        try:
            assert self._intake is not None  # noqa: S101 it has taken the pages in
            self._intake.store.settle()
            self._save(session)
            self._uncommitted.commit()
        except BaseException as error:
            self.counts = self._uncommitted.abandon(error, self.counts)
            raise

    def note_wait(self, seconds: float, reason: str, failure: Failure | None) -> None:
        """Note in the run's row until when it waits, and why."""
        self.commit()
        if self._checkpoint is not None:
            until = format_datestamp(utc_now() + timedelta(seconds=seconds))
            with self.database.session() as session:
                facts = {"until": until, **({"for": failure.as_json()} if failure else {})}
                waits = Failure(code=FailureCode.WAITING, facts=facts)
                last = Note(text=f"waiting until {until}: {reason}", failure=waits)
                checkpoints.note(session, self._harvest_id, last)
                session.commit()

    def refuse(self, refusal: Refusal) -> None:
        """Give up on a part of the repository that no request can read, and keep what came of it."""
        self._warn_of(refusal)
        self.counts["invalid"] += 1
        with self.database.session() as session:
            assert self._ward is not None  # noqa: S101 begin() comes first
            self._ward.admit(session, [refusal], now=datetime.now(UTC))
            session.commit()

    def warn(self, warning: str, failure: Failure | None = None) -> None:
        """Add a warning for the history; it is saved with the next checkpoint."""
        self.notes.warn(warning, failure)

    def _warn_of(self, refusal: Refusal) -> None:
        self.first_refusal = self.first_refusal or refusal.in_words()
        self.warn(refusal.in_words(), refusal.noted())

    def _stand(self, point: Checkpoint, planned: Plan) -> None:
        """Take up the state that the checkpoint has, or that a new run begins with."""
        self._checkpoint = point
        self.progress = progress_from_json(dict(point.state), point.marks)
        self._marks, self._marks_saved = point.marks, len(point.marks)
        self.progress.windows = [replace(window, put_off=False) for window in planned.windows]
        self.token, self.response_date = planned.resumption_token, point.response_date
        self.complete_list_size = point.complete_list_size
        self.counts = self.progress.forget_answer(Counter(point.counts))
        self._before = Counter(self.counts)
        before = self.notes.kept
        self.notes = Notes(kept=list(point.warnings))
        for note in before:
            self.notes.keep(note)
        if point.lost:
            self.warn(f"the previous run: {point.lost}")

    def _note_page(self, taken: Taken) -> None:
        fetched = taken.fetched
        page = fetched.page
        for refusal in taken.refused:
            self._warn_of(refusal)
        for note in page.notes:
            self.notes.warn_once(note, where=page.url)
        self.response_date = self.response_date or page.response_date
        self.complete_list_size = page.complete_list_size or self.complete_list_size
        if fetched.gave_up:
            self.progress.note_fetched(
                [header.identifier for header, _ in fetched.entries]
                + [refusal.identifier for refusal in fetched.refused if refusal.identifier is not None]
            )
        if fetched.gave_up or page.cut_off:
            # Of such a page the rest is still to come.
            return
        self.progress.see(fetched)
        if page.rest is None:
            self.token = page.next_token
        self.progress.last_page = taken.end if taken.end in PROPER else None

    def _save_marks(self, session: Session) -> None:
        """Save the marks that are new; those of a list that is done with go."""
        marks = self.progress.watch.marks
        if marks is not self._marks:
            marks_kept.forget(session, self._harvest_id)
            self._marks, self._marks_saved = marks, 0
        marks_kept.keep(session, self._harvest_id, marks[self._marks_saved :])
        self._marks_saved = len(marks)

    def _save(self, session: Session) -> None:
        self._save_marks(session)
        unsaved = self.notes.take_unsaved()
        seconds = time.monotonic() - self._begun
        rate = (self.counts["records"] - self._before["records"]) / seconds if seconds > 0 else None
        self._pace.note(seconds, self.counts["records"], self.traffic.requests)
        checkpoints.save(
            session,
            self._harvest_id,
            warnings=unsaved,
            resumption_token=self.token or None,
            counts=dict(self.counts),
            run_state=self.progress.as_json(),
            run_response_date=self.response_date,
            complete_list_size=self.complete_list_size,
            records_per_second=rate,
            estimated_end=self.progress.estimated_end(utc_now(), rate),
        )

    @property
    def _harvest_id(self) -> int:
        assert self._checkpoint is not None  # noqa: S101 begin() comes first
        return self._checkpoint.harvest_id

    def _with_traffic(self, counts: Counter[str]) -> Counter[str]:
        total = Counter(counts)
        total["requests"] = self._before["requests"] + self.traffic.requests
        total["bytes"] = self._before["bytes"] + self.traffic.bytes
        return total

    def _evidence(self, end: End) -> Evidence:
        return gather(
            end,
            self.counts,
            self.progress,
            complete_list_size=self.complete_list_size,
            isolation_requests=self.allowance.spent,
            resumed_at=self._before["records"],
            lost=self._checkpoint.lost if self._checkpoint else None,
        )
