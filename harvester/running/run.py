"""A run's state, and its steps that touch database and files; these commit by themselves, in a thread."""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from harvester import repositories
from harvester.client.answers import Identity
from harvester.client.errors import EndlessListError
from harvester.client.repository_client import Traffic
from harvester.models import Repository
from harvester.running import checkpoints
from harvester.running.checkpoints import Checkpoint
from harvester.running.fetching import Fetched
from harvester.running.intake import Intake, Layout
from harvester.running.outcome import Outcome, write_history
from harvester.running.parameters import HarvestRequest
from harvester.running.preparing import Batch, Preparer, joined
from harvester.running.verdict import PROPER, End, Evidence, Verdict, judge
from harvester.store.files import FileStore
from oai.database import Database
from oai.datestamps import format_datestamp, parse_datestamp, utc_now
from oai.errors import ExitCode, ZatvaError
from oai.settings import Settings

_MOST_WARNINGS = 1000
_CHANGES = ("new", "updated", "deleted")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A page as it was fetched, and as it is to be stored."""

    fetched: Fetched
    batch: Batch

    def counts(self) -> Counter[str]:
        """What can be counted before the store is asked."""
        return Counter(
            pages=1,
            records=len(self.fetched.entries),
            filtered=self.batch.filtered,
            invalid=len(self.fetched.refused),
        )


@dataclass(kw_only=True)
class Run:
    """A harvest under way."""

    database: Database
    settings: Settings
    request: HarvestRequest
    base_url: str = ""
    folder: Path = field(default_factory=Path)
    granularity: str | None = None
    from_: str | None = None
    token: str = ""
    """Of the page after the last one taken in."""
    response_date: str | None = None
    complete_list_size: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    preparer: Preparer = field(default_factory=Preparer)
    traffic: Traffic = field(default_factory=Traffic)
    _started: datetime = field(default_factory=utc_now)
    _begun: float = field(default_factory=time.monotonic)
    _checkpoint: Checkpoint | None = None
    _layout: Layout | None = None
    _intake: Intake | None = None
    _before: Counter[str] = field(default_factory=Counter)
    _left_out: int = 0

    def prepare(self) -> None:
        """Check the request, read the rules, and look the repository up."""
        self.request.check()
        self.preparer = self.request.preparer()
        with self.database.session() as session:
            repository = repositories.get_repository(session, self.request.repository_id)
            self.base_url = repository.base_url
            self.folder = repositories.base_folder(repository, self.settings)
            self.granularity = repository.granularity
            self._layout = self._choose_layout(session, repository)
            session.commit()

    def note_identity(self, identity: Identity) -> None:
        """Note what the repository says of itself, for it may have changed."""
        self.granularity = identity.granularity
        with self.database.session() as session:
            repositories.note_identity(session, self.request.repository_id, identity)
            session.commit()

    def begin(self, store: FileStore) -> None:
        """Find where the run begins, and note that it does."""
        with self.database.session() as session:
            point = checkpoints.begin(
                session,
                self.request,
                granularity=self.granularity,
                overlap=self.settings.harvester.overlap,
                now=datetime.now(UTC),
            )
            session.commit()
        self._checkpoint = point
        self.from_, self.token, self.response_date = point.from_, point.token, point.response_date
        self.counts = Counter(point.counts)
        self._before = Counter(point.counts)
        assert self._layout is not None  # noqa: S101 prepare() comes first
        self._intake = Intake(
            store=store,
            repository_id=self.request.repository_id,
            layout=self._layout,
            run_started=point.run_started,
        )

    def restart(self, reason: str) -> None:
        """Begin the list again, for its token is no longer good."""
        self.warn(f"the list began again from the start: {reason}")
        self.token, self.response_date = "", None
        self.counts = Counter({name: self.counts[name] for name in ("requests", "bytes")})
        with self.database.session() as session:
            checkpoints.restart(session, self._harvest_id)
            session.commit()

    def take(self, pages: Sequence[Taken]) -> None:
        """Take pages in: their files, then their rows and the checkpoint in one transaction."""
        assert self._intake is not None  # noqa: S101 begin() comes first
        counts = Counter(self.counts)
        token, response_date, size = self.token, self.response_date, self.complete_list_size
        for taken in pages:
            page = taken.fetched.page
            for reason in taken.fetched.refused:
                self.warn(reason)
            counts += taken.counts()
            response_date = response_date or page.response_date
            size = page.complete_list_size or size
            # Of a page that broke off, the rest is still to come.
            token = token if page.cut_off else page.next_token
        batch = joined([taken.batch for taken in pages])
        counts["repeated"] += batch.repeated
        with self.database.session() as session:
            # The order of commits is kept in any case; what a power cut loses is fetched again.
            session.execute(text("SET LOCAL synchronous_commit = off"))
            counts += self._intake.take(session, batch, now=datetime.now(UTC))
            counts = self._with_traffic(counts)
            checkpoints.save(
                session,
                self._harvest_id,
                token=token,
                counts=counts,
                response_date=response_date,
                complete_list_size=size,
            )
            session.commit()
        self.counts, self.token = counts, token
        self.response_date, self.complete_list_size = response_date, size

    def note_wait(self, seconds: float, reason: str) -> None:
        """Note in the run's row until when it waits, and why."""
        if self._checkpoint is not None:
            until = format_datestamp(utc_now() + timedelta(seconds=seconds))
            with self.database.session() as session:
                checkpoints.note(session, self._harvest_id, f"waiting until {until}: {reason}")
                session.commit()

    def warn(self, warning: str) -> None:
        """Add a warning for the history; after the first thousand they are only counted."""
        _log.warning("%s", warning)
        if len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(warning)
        else:
            self._left_out += 1

    def conclude(self, end: End, error: Exception | None = None) -> Outcome:
        """Judge the run, move the watermark if it may, and write the history row."""
        self.counts = self._with_traffic(self.counts)
        if self._left_out:
            self.warnings.append(f"and {self._left_out:,} more warnings")
        evidence = self._evidence(end)
        verdict, status = judge(evidence)
        outcome = Outcome(
            repository_id=self.request.repository_id,
            status=status,
            verdict=verdict,
            exit_code=_exit_code(evidence, verdict, error),
            counts=self.counts,
            evidence=evidence,
            seconds=time.monotonic() - self._begun,
            started=self._started,
            failure_reason=_reason(end, error),
            warnings=tuple(self.warnings),
        )
        with self.database.session() as session:
            self._end_checkpoint(session, end, verdict, error)
            write_history(session, self.request, outcome)
            session.commit()
        return outcome

    @property
    def _harvest_id(self) -> int:
        assert self._checkpoint is not None  # noqa: S101 begin() comes first
        return self._checkpoint.harvest_id

    def _choose_layout(self, session: Session, repository: Repository) -> Layout:
        prefix = self.request.metadata_prefix
        session.execute(
            update(Repository)
            .where(Repository.repository_id == repository.repository_id, Repository.plain_prefix.is_(None))
            .values(plain_prefix=prefix)
        )
        session.refresh(repository)
        return Layout(
            metadata_prefix=prefix,
            plain=repository.plain_prefix == prefix,
            parse_id=self.request.parse_id,
            files_per_directory=self.request.files_per_directory,
        )

    def _with_traffic(self, counts: Counter[str]) -> Counter[str]:
        total = Counter(counts)
        total["requests"] = self._before["requests"] + self.traffic.requests
        total["bytes"] = self._before["bytes"] + self.traffic.bytes
        return total

    def _evidence(self, end: End) -> Evidence:
        return Evidence(
            end=end,
            listed=self.counts["records"] + self.counts["invalid"],
            changes=sum(self.counts[name] for name in _CHANGES),
            refused=self.counts["invalid"],
            complete_list_size=self.complete_list_size,
            repeated=self.counts["repeated"],
            tombstones=self.counts["tombstones"],
            resumed_at=self._before["records"],
        )

    def _end_checkpoint(self, session: Session, end: End, verdict: Verdict, error: Exception | None) -> None:
        point = self._checkpoint
        if point is None:
            return
        moves = verdict is Verdict.COMPLETE and self.request.covers(point.watermark)
        resumable = end not in PROPER and end is not End.SAMPLE and not isinstance(error, EndlessListError)
        checkpoints.end(
            session,
            point.harvest_id,
            watermark=_watermark(self.response_date) if moves else None,
            keep_token=resumable,
            error=str(error) if error else None,
        )


def _watermark(response_date: str | None) -> str | None:
    """The responseDate where it is one; without it the next run begins where this one did."""
    try:
        parse_datestamp(response_date or "")
    except ValueError:
        return None
    return response_date


def _reason(end: End, error: Exception | None) -> str | None:
    if error is not None:
        return str(error) if isinstance(error, ZatvaError) else f"{type(error).__name__}: {error}"
    if end is End.BROKEN_OFF:
        return "an answer broke off before the list's end, twice"
    return "interrupted" if end is End.INTERRUPTED else None


def _exit_code(evidence: Evidence, verdict: Verdict, error: Exception | None) -> ExitCode:
    if error is not None:
        return error.exit_code if isinstance(error, ZatvaError) else ExitCode.FAULT
    if evidence.end is End.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if evidence.end is End.BROKEN_OFF:
        return ExitCode.REMOTE_FAILED
    refused = evidence.refused or (verdict is not Verdict.COMPLETE and evidence.end is not End.SAMPLE)
    return ExitCode.RECORDS_REFUSED if refused else ExitCode.DONE
