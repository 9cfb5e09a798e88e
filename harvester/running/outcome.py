"""How a harvest ended: for the shell, for programs, and as its one row in `oai_history`."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from harvester.models import History, RunStatus
from harvester.running.parameters import HarvestRequest
from harvester.running.verdict import Evidence, Verdict
from harvester.store.records import RunKey
from oai.errors import ExitCode

COUNTS = ("records", "new", "updated", "unchanged", "deleted", "filtered", "invalid", "requests", "bytes")

_VERDICT_WORDS = {
    Verdict.COMPLETE: "Everything asked for is here.",
    Verdict.PARTIAL: "Not everything asked for is here.",
    Verdict.FAILED: "It did not come to its end; what came is kept.",
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
    warnings: Sequence[str] = ()
    raw_path: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "verdict": self.verdict.value,
            "status": self.status.value,
            **{name: self.counts.get(name, 0) for name in COUNTS},
            "seconds": round(self.seconds, 3),
            "repository_id": self.repository_id,
            "tombstones": self.counts.get("tombstones", 0),
            "resumed_at": self.evidence.resumed_at,
            "disappeared": self.counts.get("disappeared", 0),
            "held": self.evidence.held,
            "raw_path": self.raw_path,
            "failure_reason": self.failure_reason,
            "warnings": list(self.warnings),
        }

    def in_words(self) -> str:
        """The result for people."""
        named = {name: self.counts.get(name, 0) for name in COUNTS}
        kinds = ("new", "updated", "unchanged", "deleted", "filtered")
        parts = [f"{named[kind]:,} {kind}" for kind in kinds if named[kind]]
        listed = f" ({', '.join(parts)})" if parts else ""
        spent = f"in {self.seconds:,.1f} s and {named['requests']:,} requests"
        lines = [f"{self.status.capitalize()}: {named['records']:,} records{listed} {spent}."]
        lines.append(_VERDICT_WORDS[self.verdict])
        if named["invalid"]:
            first = f"; the first: {self.warnings[0]}" if self.warnings else ""
            lines.append(f"{named['invalid']:,} records were refused{first}.")
        elif self.evidence.missing:
            lines.append(f"{self.evidence.missing:,} records that the repository announced did not come.")
        if self.evidence.held:
            lines.append("`zatva job history` gives its number, `zatva job release NUMBER` says yes to it.")
        if self.status is RunStatus.INCOMPLETE:
            lines.append("Run the same command again to go on from there.")
        return "\n".join(lines)


def write_history(session: Session, request: HarvestRequest, outcome: Outcome, *, run: RunKey | None) -> int:
    """Add the run's row to `oai_history`, and give its number; the caller commits."""
    counts = outcome.counts
    row = History(
        harvest_id=run.harvest_id if run else None,
        run_started=run.run_started if run else None,
        repository_id=outcome.repository_id,
        record_count=counts.get("records", 0),
        harvest_start_time=outcome.started,
        job_id=request.job_id,
        recurring_id=request.recurring_id,
        status=outcome.status.value,
        verdict=outcome.verdict.value,
        failure_reason=outcome.failure_reason,
        set_spec=request.set_spec or None,
        metadata_prefix=request.metadata_prefix,
        new_count=counts.get("new", 0),
        updated_count=counts.get("updated", 0),
        unchanged_count=counts.get("unchanged", 0),
        deleted_count=counts.get("deleted", 0),
        filtered_count=counts.get("filtered", 0),
        invalid_count=counts.get("invalid", 0),
        requests=counts.get("requests", 0),
        bytes=counts.get("bytes", 0),
        warnings=list(outcome.warnings),
        evidence=outcome.evidence.as_json(),
        harvest_method=int(request.method),
        host=socket.gethostname(),
        process_id=os.getpid(),
        raw_path=outcome.raw_path,
        replay_of=request.replay,
    )
    session.add(row)
    session.flush()
    return row.history_id
