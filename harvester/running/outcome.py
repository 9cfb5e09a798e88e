"""How a harvest ended: for the shell, for programs, and as its one row in `oai_history`."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from harvester.models import History
from harvester.running.notes import Note, columns_of
from harvester.running.parameters import HarvestRequest
from harvester.running.verdict import Evidence, Verdict
from harvester.store.records import RunKey
from harvester.vocabulary import RunStatus
from oai.console import counted
from oai.errors import ExitCode, UsageError
from oai.failures import Failure

_COLUMNS = {
    "records": "record_count",
    "new": "new_count",
    "updated": "updated_count",
    "unchanged": "unchanged_count",
    "deleted": "deleted_count",
    "filtered": "filtered_count",
    "invalid": "invalid_count",
    "requests": "requests",
    "bytes": "bytes",
}
"""Of `oai_history`, by the counts that they have."""
COUNTS = tuple(_COLUMNS)

_VERDICT_WORDS = {
    Verdict.COMPLETE: "All requested records are stored.",
    Verdict.PARTIAL: "Not all requested records are stored.",
    Verdict.FAILED: "The harvest did not complete; received records are stored.",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a harvest ended. `seconds` are this process's; the counts are the whole run's."""

    repository_id: int
    status: RunStatus
    verdict: Verdict
    exit_code: ExitCode
    counts: Mapping[str, int]
    evidence: Evidence
    seconds: float
    started: datetime
    failure_reason: str | None = None
    failure: Failure | None = None
    """The same as a code with facts, where there is one."""
    notes: Sequence[Note] = ()
    first_refusal: str | None = None
    """Of the records that were refused, by this process."""
    raw_path: str | None = None
    history_id: int | None = None
    """Of its row, once that is written."""
    pace: Sequence[Sequence[float]] = ()
    """Samples of seconds, records and requests over its course."""

    def as_json(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "verdict": self.verdict.value,
            "status": self.status.value,
            **{name: self.counts.get(name, 0) for name in COUNTS},
            "seconds": round(self.seconds, 3),
            "history_id": self.history_id,
            "repository_id": self.repository_id,
            "tombstones": self.counts.get("tombstones", 0),
            "resumed_at": self.evidence.resumed_at,
            "disappeared": self.counts.get("disappeared", 0),
            "held": self.evidence.held,
            "raw_path": self.raw_path,
            "failure_reason": self.failure_reason,
            "failure_code": self.failure.code.value if self.failure else None,
            "failure_facts": dict(self.failure.facts) if self.failure else None,
            "warnings": list(self.warnings),
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd, in technical words."""
        return tuple(note.text for note in self.notes)

    def columns(self) -> dict[str, Any]:
        """Its columns of the row in `oai_history`."""
        return {
            "repository_id": self.repository_id,
            "harvest_start_time": self.started,
            "status": self.status.value,
            "verdict": self.verdict.value,
            "failure_reason": self.failure_reason,
            "failure_code": self.failure.code.value if self.failure else None,
            "failure_facts": dict(self.failure.facts) if self.failure else None,
            **columns_of(self.notes),
            "evidence": self.evidence.as_json(),
            "raw_path": self.raw_path,
            "pace": [list(sample) for sample in self.pace],
            **{column: self.counts.get(name, 0) for name, column in _COLUMNS.items()},
        }

    def in_words(self) -> str:
        """The result for people."""
        named = {name: self.counts.get(name, 0) for name in COUNTS}
        kinds = ("new", "updated", "unchanged", "deleted", "filtered")
        parts = [f"{named[kind]:,} {kind}" for kind in kinds if named[kind]]
        listed = f" ({', '.join(parts)})" if parts else ""
        spent = f"in {self.seconds:,.1f} s and {counted(named['requests'], 'request')}"
        lines = [f"{self.status.capitalize()}: {counted(named['records'], 'record')}{listed} {spent}."]
        lines.append(_VERDICT_WORDS[self.verdict])
        if named["invalid"]:
            first = f"; the first: {self.first_refusal}" if self.first_refusal else ""
            were = "was" if named["invalid"] == 1 else "were"
            lines.append(f"{counted(named['invalid'], 'record')} {were} rejected{first}.")
            lines.append(f"`zatva job errors {self.history_id or ''}".rstrip() + "` shows the details.")
        elif self.evidence.missing:
            lines.append(
                f"Missing: {counted(self.evidence.missing, 'record')} that the repository announced."
            )
        if self.evidence.held:
            release = f"zatva job release {self.history_id or 'NUMBER'}"
            lines.append(
                f"To see what the run would do, use `{release} --show`; to approve it, use `{release}`."
            )
        if self.status is RunStatus.INCOMPLETE:
            lines.append("To continue, run the same command again.")
        return "\n".join(lines)


def get_history(session: Session, history_id: int) -> History:
    """The row of a run that has ended. Raises UsageError where there is none of that number."""
    history = session.get(History, history_id)
    if history is None:
        raise UsageError(f"no run {history_id}; list runs with `zatva job history`")
    return history


def write_history(
    session: Session,
    request: HarvestRequest,
    outcome: Outcome,
    *,
    run: RunKey | None,
    rules: tuple[str | None, str | None],
) -> int:
    """Add the run's row to `oai_history`, and give its number; the caller commits.

    `rules` are the digests of the filter file and the normalise file that the run read.
    """
    row = History(
        harvest_id=run.harvest_id if run else None,
        run_started=run.run_started if run else None,
        job_id=request.job_id,
        recurring_id=request.recurring_id,
        set_spec=request.set_spec or None,
        metadata_prefix=request.metadata_prefix,
        harvest_method=int(request.method),
        host=socket.gethostname(),
        process_id=os.getpid(),
        replay_of=request.replay,
        filter_digest=rules[0],
        normalize_digest=rules[1],
        **outcome.columns(),
    )
    session.add(row)
    session.flush()
    return row.history_id
