"""A run's state, and the Checkpointer, which alone saves it to the `oai_harvest` row and commits it."""

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.client.repository_client import Traffic
from harvester.harvest import checkpoint, seen_identifiers
from harvester.harvest.checkpoint import Checkpoint
from harvester.harvest.fetch import PreparedPage
from harvester.harvest.plan import RunPlan
from harvester.harvest.progress import RunProgress, StateChange, progress_from_json
from harvester.harvest.quota import Quota
from harvester.harvest.run_warnings import Note, Warnings
from harvester.harvest.seen_identifiers import Marks
from harvester.harvest.transform import Refusal
from harvester.harvest.verdict import PROPER
from harvester.harvest.watermark import lag_of
from harvester.rules.schema_sampling import MOST_EXAMPLES
from harvester.store.files import FileStore
from oai.database import Database
from oai.datestamps import format_datestamp, utc_now
from oai.failures import Failure, FailureCode

_MOST = 120


@dataclass(kw_only=True)
class Pace:
    """Samples of seconds since the run began, with the records and requests up to then.

    When there are too many samples, every second one is dropped, and the sampling interval doubles.
    """

    samples: list[tuple[float, int, int]] = field(default_factory=list)
    _step: float = 0.25

    def note(self, seconds: float, records: int, requests: int) -> bool:
        """Take a sample, unless the last one is too recent; return whether it was taken."""
        if self.samples and seconds - self.samples[-1][0] < self._step:
            return False
        self._add(seconds, records, requests)
        return True

    def close(self, seconds: float, records: int, requests: int) -> list[list[float]]:
        """Take the last sample, and return all of them for the history."""
        if not self.samples or self.samples[-1][1:] != (records, requests):
            self._add(seconds, records, requests)
        return [list(sample) for sample in self.samples]

    def _add(self, seconds: float, records: int, requests: int) -> None:
        self.samples.append((round(seconds, 2), records, requests))
        if len(self.samples) > _MOST:
            self.samples = self.samples[::2]
            self._step *= 2


@dataclass(kw_only=True)
class UnitOfWork:
    """One session for several groups of pages, and the run's counts from before the first group.

    A failure is permanent: once later pages were stored, no request would fetch the lost ones again.
    """

    old_seconds: float
    """Age from which the pages are to be committed."""
    _session: Session | None = None
    _failure: BaseException | None = None
    _counts: Counter[str] = field(default_factory=Counter)
    _begun: float = 0.0

    @property
    def open(self) -> Session | None:
        """The session, or None if there is nothing to commit; raises an earlier failure again."""
        if self._failure is not None:
            raise self._failure
        return self._session

    @property
    def old(self) -> bool:
        """Whether the oldest page has waited long enough: readers should see it, and a kill would lose it."""
        return self.open is not None and time.monotonic() - self._begun > self.old_seconds

    def session(self, database: Database, counts: Counter[str]) -> Session:
        """Return the session for the next pages; `counts` are the run's counts before them."""
        session = self.open
        if session is None:
            session = self._session = database.session()
            self._counts, self._begun = counts, time.monotonic()
            # The order of commits is kept even so; what a power failure loses is fetched again.
            session.execute(text("SET LOCAL synchronous_commit = off"))
        return session

    def commit(self) -> None:
        """Commit and close the session."""
        session = self.open
        if session is not None:
            session.commit()
            session.close()
            self._session = None

    def abandon(self, failure: BaseException, counts: Counter[str]) -> Counter[str]:
        """Discard the session after a failure; return the counts that are valid then.

        `counts` are the run's now.
        """
        self._failure = self._failure or failure
        if self._session is None:
            return counts
        self._session.close()
        self._session = None
        return self._counts


@dataclass(kw_only=True)
class RunState:
    """What a run has done so far: the part that its row keeps, and the part that only this process knows.

    The run's thread (`RunThread`) changes it while a list is stored; between lists the event loop may,
    because that thread then has nothing to store.
    """

    warnings: Warnings = field(default_factory=Warnings)
    traffic: Traffic = field(default_factory=Traffic)
    token: str = ""
    """Token of the page after the last stored one."""
    progress: RunProgress = field(default_factory=RunProgress)
    response_date: str | None = None
    """The date of the run's first answer that has one."""
    lag: float | None = None
    """Seconds by which that date was behind our clock; None if unknown or received by an earlier process."""
    complete_list_size: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    resumed: Counter[str] = field(default_factory=Counter)
    """The counts with which this process resumed the run."""
    first_refusal: str | None = None
    """First of the refusals of this process."""
    first_outdated: str | None = None
    """First record that this process received again with an older datestamp."""
    first_undated: str | None = None
    """First record that this process received without a datestamp."""
    shown_invalid: int = 0
    """Warnings of this process about records that break their schema."""

    def take_up(self, point: Checkpoint, plan: RunPlan) -> None:
        """Start from the checkpoint's state, or from the state of a new run."""
        self.progress = progress_from_json(dict(point.state), point.marks)
        self.progress.windows = [replace(window, put_off=False) for window in plan.windows]
        self.token, self.response_date = plan.resumption_token, point.response_date
        self.complete_list_size = point.complete_list_size
        self.counts = self.progress.forget_answer(Counter(point.counts))
        self.resumed = Counter(self.counts)
        before = self.warnings.kept
        self.warnings = Warnings(kept=list(point.warnings))
        for note in before:
            self.warnings.keep(note)
        if point.lost:
            self.warnings.warn(f"the previous run: {point.lost}")

    def warn_of(self, refusal: Refusal) -> None:
        """Add a warning about a refused part of the repository."""
        if not refusal.is_range:
            self.first_refusal = self.first_refusal or refusal.in_words()
        self.warnings.warn(refusal.in_words(), refusal.noted())

    def note_date(self, response_date: str | None) -> None:
        """Note the date of an answer that was received just now, if it is the first one."""
        if not self.response_date and response_date:
            self.response_date, self.lag = response_date, lag_of(response_date, datetime.now(UTC))

    def note_page(self, taken: PreparedPage) -> None:
        """Record what a stored page reveals about its list."""
        fetched = taken.fetched
        page = fetched.page
        for refusal in taken.refused:
            self.warn_of(refusal)
        for note in page.notes:
            self.warnings.warn_once(note, where=page.url)
        self._warn_of_invalid(taken)
        self.note_date(page.response_date)
        undated = (header.identifier for header, _ in fetched.entries if header.undated)
        self.first_undated = self.first_undated or next(undated, None)
        self.complete_list_size = page.complete_list_size or self.complete_list_size
        if fetched.gave_up:
            self.progress.note_fetched(
                [header.identifier for header, _ in fetched.entries]
                + [refusal.identifier for refusal in fetched.refused if refusal.identifier is not None]
            )
        if fetched.gave_up or page.cut_off:
            # The rest of such a page is still to be fetched.
            return
        self.progress.see(fetched)
        if page.rest is None:
            self.token = page.next_token
        self.progress.last_page = taken.end if taken.end in PROPER else None

    def _warn_of_invalid(self, taken: PreparedPage) -> None:
        """Add warnings about the first records of the run that break their schema."""
        left = MOST_EXAMPLES - self.shown_invalid
        for example in taken.batch.sample.examples[:left]:
            self.shown_invalid += 1
            facts = {"identifier": example.identifier, "line": example.line}
            self.warnings.warn(
                f"{taken.fetched.page.url}: record {example.identifier!r} is not valid: {example.faults}",
                Failure(code=FailureCode.RECORD_NOT_VALID, facts=facts),
            )

    def with_traffic(self, counts: Counter[str]) -> Counter[str]:
        """Return the counts with all requests and bytes of the run."""
        total = Counter(counts)
        total["requests"] = self.resumed["requests"] + self.traffic.requests
        total["bytes"] = self.resumed["bytes"] + self.traffic.bytes
        return total


@dataclass(kw_only=True)
class Checkpointer:
    """Saves a run's state and commits it with the rows that belong to it.

    All calls run one after the other in the run's single thread, so the session needs no lock.
    """

    database: Database
    store: FileStore
    state: RunState
    point: Checkpoint
    quota: Quota | None
    begun: float
    """Reading of the monotonic clock at which the run began."""
    old_seconds: float
    """Seconds after which stored pages are committed."""
    pace: Pace = field(default_factory=Pace)
    _uncommitted: UnitOfWork = field(init=False)
    _marks: Marks = field(init=False)
    """Marks of the list that was saved last, of which the first `_marks_saved` are stored."""
    _marks_saved: int = field(init=False)

    def __post_init__(self) -> None:
        self._uncommitted = UnitOfWork(old_seconds=self.old_seconds)
        self._marks, self._marks_saved = self.point.marks, len(self.point.marks)

    @property
    def is_due(self) -> bool:
        """Whether pages have waited long enough to be committed."""
        return self._uncommitted.old

    def session(self) -> Session:
        """Return the session for what is stored next."""
        return self._uncommitted.session(self.database, self.state.counts)

    def commit(self) -> None:
        """Commit the pages stored so far together with their checkpoint, once their files are durable.

        After a failure, uncommitted pages are lost to the run and its counts are set back to before them;
        every later operation raises the failure again.
        """
        session = self._uncommitted.open
        if session is None:
            return
        try:
            # Files must be durable before their rows: a row without its file would be damage.
            self.store.settle()
            self._save(session)
            if self.quota is not None:
                self.quota.save(session)
            self._uncommitted.commit()
        except BaseException as error:
            self.abandon(error)
            raise

    def abandon(self, error: BaseException) -> None:
        """Discard everything that is not committed."""
        self.state.counts = self._uncommitted.abandon(error, self.state.counts)

    def change_list(self, change: StateChange, *, again: bool = False) -> None:
        """Continue with a list other than the current one: drop its token, and save that.

        With `again`, the counts of the current list are taken back, because they will be counted again.
        """
        state = self.state
        if again:
            state.counts = state.progress.uncounted(state.counts)
        change(state.progress)
        state.token = ""
        with self.database.session() as session:
            state.counts = state.with_traffic(state.counts)
            self._save(session)
            session.commit()

    def note_wait(self, seconds: float, reason: str, failure: Failure | None) -> None:
        """Record in the run's row until when it waits, and why."""
        self.commit()
        until = format_datestamp(utc_now() + timedelta(seconds=seconds))
        facts = {"until": until, **({"for": failure.as_json()} if failure else {})}
        waits = Failure(code=FailureCode.WAITING, facts=facts)
        last = Note(text=f"waiting until {until}: {reason}", failure=waits)
        with self.database.session() as session:
            checkpoint.note(session, self.point.harvest_id, last)
            session.commit()

    def _save(self, session: Session) -> None:
        state = self.state
        self._save_marks(session)
        unsaved = state.warnings.take_unsaved()
        seconds = time.monotonic() - self.begun
        # A list that starts again takes its records back.
        stored = max(state.counts["records"] - state.resumed["records"], 0)
        rate = stored / seconds if seconds > 0 else None
        sampled = self.pace.note(seconds, state.counts["records"], state.traffic.requests)
        checkpoint.save(
            session,
            self.point.harvest_id,
            warnings=unsaved,
            resumption_token=state.token or None,
            counts=dict(state.counts),
            run_state=state.progress.as_json(),
            run_response_date=state.response_date,
            complete_list_size=state.complete_list_size,
            records_per_second=rate,
            estimated_end=state.progress.estimated_end(utc_now(), rate),
            **({"pace": self.pace.samples} if sampled else {}),
        )

    def _save_marks(self, session: Session) -> None:
        """Save the new marks; delete those of a list that has ended."""
        marks, harvest_id = self.state.progress.watch.marks, self.point.harvest_id
        if marks is not self._marks:
            seen_identifiers.forget(session, harvest_id)
            self._marks, self._marks_saved = marks, 0
        seen_identifiers.keep(session, harvest_id, marks[self._marks_saved :])
        self._marks_saved = len(marks)
