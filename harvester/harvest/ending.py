"""How a run ends, whatever its phase was: evidence, outcome, history row, and the wait that was asked for."""

import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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
from harvester.harvest.run_warnings import Note
from harvester.harvest.verdict import PROPER, End, Evidence, doubts, judge
from harvester.store.changes import prune_changes
from harvester.store.records import RunKey
from harvester.vocabulary import Level
from oai.console import counted
from oai.database import Database
from oai.datestamps import utc_now
from oai.failures import Failure, FailureCode
from oai.reach import is_same_place, without_credentials
from oai.settings import Settings

_KEPT = ("new", "updated", "unchanged")
"""The counts of records that the rules let pass."""


class RequestedRun(Protocol):
    """What every phase of a run knows."""

    database: Database
    settings: Settings
    request: HarvestRequest
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
    base_url: str = ""
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

    def closing_notes(self) -> Iterator[Note]:
        """Yield the warnings that can only be given once the run is over, and why it is in doubt."""
        counts, state = self.state.counts, self.state
        if number := counts["superseded"]:
            were = "was" if number == 1 else "were"
            words = f"{counted(number, 'record')} {were} left unchanged"
            yield Note(text=f"{words} because later harvests have newer versions")
        if (number := counts["filtered"]) and not any(counts[name] for name in _KEPT):
            words = f"the filter excluded all records that were received: {number:,}"
            yield Note(
                text=words, failure=Failure(code=FailureCode.RECORDS_FILTERED, facts={"count": number})
            )
        if number := counts["outdated"]:
            words = "repeated records with an older datestamp were ignored, because the newer version counts"
            yield Note(text=f"{words}: {number:,}{_example(state.first_outdated)}")
        if number := counts["undated"]:
            first = state.first_undated
            words = f"records without a datestamp got the date of the answer: {number:,}{_example(first)}"
            facts = {"count": number, "identifier": first or ""}
            yield Note(text=words, failure=Failure(code=FailureCode.RECORDS_UNDATED, facts=facts))
        if number := counts["schema_invalid"]:
            facts = {"count": number, "checked": counts["schema_checked"]}
            of = f"{number:,} of {facts['checked']:,} checked records"
            words = f"stored although they break their XML Schema: {of}"
            yield Note(text=words, failure=Failure(code=FailureCode.RECORDS_NOT_VALID, facts=facts))
        yield from self._moved()
        for words, doubt in doubts(self.evidence()).items():
            yield Note(text=words, failure=doubt)

    def _moved(self) -> Iterator[Note]:
        """Yield a warning if the repository's address redirects permanently to another place."""
        request, target = self.requested.request, self.state.traffic.moved
        if not target or request.replay is not None or is_same_place(target, self.base_url):
            return
        number, base_url = request.repository_id, without_credentials(self.base_url)
        words = (
            f"{base_url} redirects permanently to {target}; change the repository's address: `zatva"
            f" repository edit {number} --url {shlex.quote(target)}` (the next harvest then requests all"
            " records)"
        )
        facts = {"url": base_url, "target": target, "number": number}
        yield Note(text=words, failure=Failure(code=FailureCode.ADDRESS_MOVED, facts=facts))

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
            failure_reason=failure_reason(evidence, error),
            failure=failure(evidence, error),
            notes=state.warnings.all(),
            first_refusal=state.first_refusal,
            raw_path=self.raw_path,
            pace=self.pace.close(seconds, state.counts["records"], state.traffic.requests),
        )

    def write_not_started(self) -> RunOutcome:
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


def _example(identifier: str | None) -> str:
    return f"; the first: {identifier!r}" if identifier else ""
