"""The result of a harvest: exit code, reason, and its row in `oai_history`."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import func, text, update
from sqlalchemy.orm import Session

from harvester.harvest.progress import RunProgress
from harvester.harvest.request import HarvestRequest
from harvester.harvest.run_warnings import Note, columns_of
from harvester.harvest.verdict import PROPER, End, Evidence, doubts, is_uncertain
from harvester.models import History
from harvester.reading.errors import MalformedAnswerError, ServerBusyError
from harvester.store.records import RunKey
from harvester.vocabulary import RunStatus, Verdict
from oai.console import counted
from oai.error_translation import as_zatva_error
from oai.errors import ExitCode, UsageError, ZatvaError, failure_of
from oai.failure_codes import NOT_STARTED
from oai.failures import Failure, FailureCode, explained, failure_columns

_COLUMNS = {
    "records": "record_count",
    "new": "new_count",
    "updated": "updated_count",
    "unchanged": "unchanged_count",
    "deleted": "deleted_count",
    "filtered": "filtered_count",
    "invalid": "invalid_count",
    "repeated": "repeated_count",
    "tombstones": "tombstone_count",
    "disappeared": "disappeared_count",
    "postponed": "postponed_count",
    "requests": "requests",
    "bytes": "bytes",
}
"""Columns of `oai_history`, by the counts that they store."""
_SHARES = {
    "new": "new",
    "updated": "updated",
    "unchanged": "unchanged",
    "deleted": "deleted",
    "postponed": "to be deleted",
    "tombstones": "deleted but never stored",
    "filtered": "filtered",
    "repeated": "repeated",
    "invalid": "rejected",
}
"""The counts into which received records are divided, and the words for them."""

_VERDICT_WORDS = {
    Verdict.COMPLETE: "All requested records are stored.",
    Verdict.PARTIAL: "Not all requested records are stored.",
    Verdict.FAILED: "The harvest did not complete; received records are stored.",
}
_UNCERTAIN: Final = "It is not known whether all requested records are stored."
_SAMPLE: Final = "The sample is complete: it ended after the number of records that was asked for."


def received(counts: Mapping[str, int]) -> int:
    """Return how many records were received, rejected and repeated ones included."""
    return counts.get("records", 0) + counts.get("invalid", 0)


def shares_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the received records by what became of them: the sum is `received`.

    `deleted` is without the records that disappeared, which were not received.
    """
    shares = {name: counts.get(name, 0) for name in _SHARES}
    shares["deleted"] -= counts.get("disappeared", 0)
    return shares


def columns_of_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts as values of the columns of `oai_history`."""
    return {column: counts.get(name, 0) for name, column in _COLUMNS.items()}


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """The result of a harvest. `seconds` are those of this process; the counts are those of the whole run."""

    repository_id: int
    status: RunStatus
    verdict: Verdict
    exit_code: ExitCode
    counts: Mapping[str, int]
    evidence: Evidence
    seconds: float
    failure_reason: str | None = None
    failure: Failure | None = None
    """The reason as a code with facts, if it has one."""
    notes: Sequence[Note] = ()
    first_refusal: str | None = None
    """First record that this process refused."""
    raw_path: str | None = None
    history_id: int | None = None
    """Number of its history row, once that is written."""
    pace: Sequence[Sequence[float]] = ()
    """Samples of seconds, records and requests over its course."""

    def as_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "verdict": self.verdict.value,
            "status": self.status.value,
            "received": received(self.counts),
            **{name: self.counts.get(name, 0) for name in _COLUMNS},
            "unread_ranges": self.evidence.unread,
            "seconds": round(self.seconds, 3),
            "history_id": self.history_id,
            "repository_id": self.repository_id,
            "resumed_at": self.evidence.resumed_at,
            "held": self.evidence.held,
            "raw_path": self.raw_path,
            "failure_reason": self.failure_reason,
            **failure_columns(self.failure),
            "warnings": list(self.warnings),
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """The oddities, as technical text."""
        return tuple(note.text for note in self.notes)

    def columns(self) -> dict[str, Any]:
        """Return its column values for the row in `oai_history`."""
        return {
            "repository_id": self.repository_id,
            # Not this machine's clock, which may differ from that of the end. In whole seconds.
            "harvest_start_time": func.date_trunc("second", func.now() - timedelta(seconds=self.seconds)),
            "status": self.status.value,
            "verdict": self.verdict.value,
            "failure_reason": self.failure_reason,
            **failure_columns(self.failure),
            **columns_of(self.notes),
            "evidence": self.evidence.as_json(),
            "raw_path": self.raw_path,
            "pace": [list(sample) for sample in self.pace],
            **columns_of_counts(self.counts),
        }

    def in_words(self) -> str:
        """Return the result for people."""
        if self.failure is not None and self.failure.code in NOT_STARTED:
            return "The harvest did not start."
        named = {name: self.counts.get(name, 0) for name in _COLUMNS}
        shares = shares_of(self.counts)
        parts = [f"{shares[name]:,} {words}" for name, words in _SHARES.items() if shares[name]]
        listed = f" ({', '.join(parts)})" if parts else ""
        spent = f"in {self.seconds:,.1f} s and {counted(named['requests'], 'request')}"
        lines = [f"{self.status.capitalize()}: {counted(received(self.counts), 'record')}{listed} {spent}."]
        lines += self._beyond_this_process(named)
        lines.append(self._verdict_in_words())
        if named["invalid"]:
            first = f"; the first: {self.first_refusal}" if self.first_refusal else ""
            were = "was" if named["invalid"] == 1 else "were"
            lines.append(f"{counted(named['invalid'], 'record')} {were} rejected{first}.")
        if self.evidence.unread:
            cause = explained(self.evidence.unread_for, "en").what
            lines.append(f"{counted(self.evidence.unread, 'date range')} could not be listed: {cause}")
        if named["invalid"] or self.evidence.unread:
            lines.append(f"`zatva job errors {self.history_id or ''}".rstrip() + "` shows the details.")
        if self.evidence.missing and not named["invalid"]:
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

    def _verdict_in_words(self) -> str:
        if self.evidence.sampled:
            return _SAMPLE
        code = self.failure.code if self.failure else None
        lacking = self.counts.get("invalid", 0) + self.evidence.missing
        if self.verdict is Verdict.PARTIAL and is_uncertain(code, rejected=lacking):
            return _UNCERTAIN
        return _VERDICT_WORDS[self.verdict]

    def _beyond_this_process(self, named: Mapping[str, int]) -> list[str]:
        """Return sentences about records that this process did not receive."""
        lines = []
        if (before := self.evidence.resumed_at) and named["records"] > before:
            since = f"{named['records'] - before:,} since it was resumed"
            lines.append(f"The counts are those of the whole harvest: {before:,} before, {since}.")
        if named["disappeared"]:
            were, them = ("was", "it") if named["disappeared"] == 1 else ("were", "them")
            gone = counted(named["disappeared"], "record")
            lines.append(f"{gone} {were} deleted because the repository no longer lists {them}.")
        return lines


def get_history(session: Session, history_id: int) -> History:
    """Return the row of an ended run. Raises UsageError if there is no run with that number."""
    history = session.get(History, history_id)
    if history is None:
        raise UsageError(f"no run {history_id}; list runs with `zatva job history`")
    return history


def write_history(
    session: Session,
    request: HarvestRequest,
    outcome: RunOutcome,
    *,
    run: RunKey | None,
    rules: tuple[str | None, str | None],
) -> int:
    """Add the run's row to `oai_history`, and return its number; the caller commits.

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


_CONTINUE = text(
    """
    UPDATE oai_history AS piece SET
        evidence = piece.evidence || jsonb_build_object('reached', (
            SELECT jsonb_object_agg(key, value) FROM jsonb_each(to_jsonb(piece)) WHERE key = ANY(:columns)))
    WHERE repository_id = :repository_id AND harvest_id = :harvest_id AND run_started = :run_started
      AND history_id <> :history_id AND continued_by IS NULL
    """
)


def continue_rows(session: Session, row: History) -> None:
    """Let a resumed harvest's new row replace those of its earlier processes in sums; the caller commits.

    Each record then counts once: the earlier rows keep what they had counted as `evidence.reached`.
    """
    if row.harvest_id is None or row.run_started is None:
        return
    columns = list(_COLUMNS.values())
    run = {name: getattr(row, name) for name in ("repository_id", "harvest_id", "run_started", "history_id")}
    session.execute(_CONTINUE, {**run, "columns": columns})
    session.execute(
        update(History)
        .where(
            History.repository_id == row.repository_id,
            History.harvest_id == row.harvest_id,
            History.run_started == row.run_started,
            History.history_id != row.history_id,
        )
        .values(continued_by=row.history_id, **dict.fromkeys(columns, 0))
    )


_CHANGES = ("new", "updated", "deleted")
_FROM_TOTALS = (
    "mended", "missing", "unconfirmed", "tokens_refused", "abrupt", "late_no_match", "revised", "repeated",
    "empty_pages", "lists", "restarts", "taken_up", "halvings", "unread",
)  # fmt: skip
_ENDLESS = frozenset({FailureCode.LIST_IN_CIRCLES, FailureCode.NO_NEW_RECORDS})
_ENDS = {
    End.BROKEN_OFF: (
        "an answer was truncated before the end of the list, twice",
        Failure(code=FailureCode.DISCONNECTED),
    ),
    End.GAVE_UP: (
        "the search for the records that break an answer reached the limit isolation_requests",
        Failure(code=FailureCode.REQUESTS_SPENT, facts={"setting": "harvester.isolation_requests"}),
    ),
    End.INTERRUPTED: ("interrupted", Failure(code=FailureCode.INTERRUPTED)),
}


def gather(
    end: End,
    counts: Mapping[str, int],
    progress: RunProgress,
    *,
    complete_list_size: int | None,
    isolation_requests: int,
    resumed_at: int,
    lost: str | None,
) -> Evidence:
    """Return the evidence of a run that ends now."""
    totals = {name: progress.totals[name] for name in _FROM_TOTALS}
    totals["restarts"] += progress.totals["second_readings"]
    if (totals["unread"] or totals["tokens_refused"]) and end in PROPER and not progress.windows:
        # A list of which a part was skipped did not end, so that what it lacks is in no total.
        lacking = progress.totals["announced"] - received(counts) + counts.get("repeated", 0)
        totals["missing"] = max(totals["missing"], lacking)
    return Evidence(
        end=end,
        listed=counts.get("records", 0) + counts.get("invalid", 0),
        changes=sum(counts.get(name, 0) for name in _CHANGES),
        refused=counts.get("invalid", 0),
        complete_list_size=complete_list_size,
        windows_left=len(progress.windows),
        isolation_requests=isolation_requests,
        tombstones=counts.get("tombstones", 0),
        resumed_at=resumed_at,
        lost=lost,
        held=None,
        unread_for=progress.unread_for or Failure(code=FailureCode.OTHER),
        **totals,
    )


def wait_until(error: Exception | None, now: datetime) -> datetime | None:
    """Return until when the repository asked us to wait, if that ended the run."""
    if isinstance(error, ServerBusyError) and error.seconds is not None:
        return now + timedelta(seconds=error.seconds)
    return None


def failure_reason(evidence: Evidence, error: Exception | None) -> str | None:
    """Return why records are missing, for people.

    None if none are missing, or if the missing ones were refused one by one.
    """
    if error is not None:
        return str(as_zatva_error(error) or f"{type(error).__name__}: {error}")
    if evidence.end in _ENDS:
        return _ENDS[evidence.end][0]
    return "; ".join(doubts(evidence)) or None


def failure(evidence: Evidence, error: Exception | None) -> Failure | None:
    """Return the reason as a code with facts; of several doubts the first."""
    if error is not None:
        return failure_of(as_zatva_error(error) or error)
    if evidence.held:
        return Failure(code=FailureCode.HELD)
    if evidence.end in _ENDS:
        return _ENDS[evidence.end][1]
    if evidence.unanswered:
        return evidence.unread_for
    return next(iter(doubts(evidence).values()), None)


def resumable(end: End, error: Exception | None) -> bool:
    """Return whether the next run may continue where this one ended; false after an endless list."""
    endless = error is not None and failure_of(error).code in _ENDLESS
    return end not in PROPER and end is not End.SAMPLE and not endless


def exit_code(evidence: Evidence, verdict: Verdict, error: Exception | None, *, strict: bool) -> ExitCode:
    """Return the exit code."""
    if error is not None:
        if strict and isinstance(error, MalformedAnswerError):
            return ExitCode.STRICT_CHECK
        return error.exit_code if isinstance(error, ZatvaError) else ExitCode.FAULT
    if evidence.end is End.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if evidence.end is End.BROKEN_OFF or verdict is Verdict.FAILED:
        return ExitCode.REMOTE_FAILED
    if verdict is Verdict.COMPLETE or evidence.sampled:
        return ExitCode.DONE
    return ExitCode.STRICT_CHECK if strict else ExitCode.RECORDS_REFUSED
