"""How a run ends, whatever its phase was: evidence, outcome, history row, and the wait that was asked for."""

import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from sqlalchemy.orm import Session

from harvester.harvest.approval import Held
from harvester.harvest.checkpointer import Pace, RunState
from harvester.harvest.preparation import note_wait
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import (
    RunOutcome,
    exit_code,
    failure,
    failure_reason,
    gather,
    wait_until,
    write_history,
)
from harvester.harvest.verdict import PROPER, End, Evidence, judge
from harvester.store.changes import prune_changes
from harvester.store.records import RunKey
from harvester.vocabulary import Level
from oai.database import Database
from oai.datestamps import utc_now
from oai.settings import Settings


class RequestedRun(Protocol):
    """What every phase of a run knows."""

    database: Database
    settings: Settings
    request: HarvestRequest
    started: datetime
    begun: float
    """The start by the monotonic clock."""


@dataclass(kw_only=True)
class Ending:
    """What a run's outcome is made of, whatever its phase was."""

    requested: RequestedRun
    end: End
    error: Exception | None
    pace: Pace
    state: RunState = field(default_factory=RunState)
    rule_digests: tuple[str | None, str | None] = (None, None)
    raw_path: str | None = None
    isolation_requests: int = 0
    lost: str | None = None

    def evidence(self, held: Held | None = None) -> Evidence:
        """What the verdict rests on."""
        state = self.state
        found = gather(
            self.end,
            state.counts,
            state.progress,
            complete_list_size=state.complete_list_size,
            isolation_requests=self.isolation_requests,
            resumed_at=state.resumed["records"],
            lost=self.lost,
        )
        return replace(found, held=held.in_words() if held else None)

    def outcome(self, held: Held | None = None) -> RunOutcome:
        """How the run ended, without the number of its history row."""
        requested, state, error = self.requested, self.state, self.error
        evidence = self.evidence(held)
        verdict, status = judge(evidence)
        strict = requested.request.validation is not Level.LOOSE
        seconds = time.monotonic() - requested.begun
        return RunOutcome(
            repository_id=requested.request.repository_id,
            status=status,
            verdict=verdict,
            exit_code=exit_code(evidence, verdict, error, strict=strict),
            counts=state.counts,
            evidence=evidence,
            seconds=seconds,
            started=requested.started,
            failure_reason=failure_reason(evidence, error),
            failure=failure(evidence, error),
            notes=state.warnings.all(),
            first_refusal=state.first_refusal,
            raw_path=self.raw_path,
            pace=self.pace.close(seconds, state.counts["records"], state.traffic.requests),
        )

    def write_unbegun(self) -> RunOutcome:
        """Write the history row of a run that has no checkpoint."""
        self.state.counts = self.state.with_traffic(self.state.counts)
        outcome = self.outcome()
        with self.requested.database.session() as session:
            history_id = self.write_history(session, outcome, run=None)
            self.note_wait(session)
            session.commit()
        keep_days = self.requested.settings.harvester.keep_changes
        prune_changes(self.requested.database, keep_days=keep_days)
        return replace(outcome, history_id=history_id)

    def write_history(self, session: Session, outcome: RunOutcome, *, run: RunKey | None) -> int:
        """Write the row and give its number; the caller commits."""
        return write_history(session, self.requested.request, outcome, run=run, rules=self.rule_digests)

    def note_wait(self, session: Session) -> None:
        """Remember until when the repository asked to be left alone, or that it does no more."""
        request = self.requested.request
        until = wait_until(self.error, utc_now())
        if request.replay is None and (until is not None or self.end in PROPER):
            note_wait(session, request.repository_id, until)
