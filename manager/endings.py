"""How harvests come to their end, and the history rows of those that could not write their own.

Such a row has all that the harvest had committed: its counts, its warnings, the errors and changes that
belong to it.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import Harvest, History
from harvester.running.notes import Note, columns_of, notes_of
from harvester.running.quarantine import Ward
from harvester.vocabulary import RunStatus
from manager.launching import Run
from oai.datestamps import format_datestamp
from oai.failures import Failure, FailureCode

_COUNTS: Final = ("new", "updated", "unchanged", "deleted", "filtered", "invalid")
_LONGEST_NOTE: Final = 500


class Cause(Enum):
    """Why a harvest is over."""

    ENDED = auto()
    """Its process ended, for a reason of its own."""
    STOPPED = auto()
    """Somebody stopped the job; it may finish its page."""
    DELETED = auto()
    """Somebody deleted the job's row."""
    KILLED = auto()
    """Somebody wants it ended at once."""
    PAUSED = auto()
    """Somebody paused it; it may finish its page."""
    RESTARTED = auto()
    """It made no progress, and goes on in another process."""
    SHUTDOWN = auto()
    """Its worker ended, and the harvest with it."""
    LOST = auto()
    """Its worker is gone without a word."""


_ENDED_BY_US: Final = {
    Cause.STOPPED: (RunStatus.KILLED, FailureCode.PROCESS_STOPPED),
    Cause.PAUSED: (RunStatus.KILLED, FailureCode.PROCESS_PAUSED),
    Cause.DELETED: (RunStatus.KILLED, FailureCode.PROCESS_DELETED),
    Cause.KILLED: (RunStatus.KILLED, FailureCode.PROCESS_KILLED),
    Cause.RESTARTED: (RunStatus.FAILED, FailureCode.PROCESS_RESTARTED),
    Cause.SHUTDOWN: (RunStatus.KILLED, FailureCode.PROCESS_ENDED_WITH_MANAGER),
    Cause.LOST: (RunStatus.LOST, FailureCode.PROCESS_LOST),
}


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a harvest came to its end."""

    cause: Cause
    exit_code: int | None = None
    """None where nobody knows it, or the process did not even start."""
    said: str = ""
    """The last that the process said."""


def write_cut_off(session: Session, run: Run, ending: Ending) -> History:
    """Add the row that the harvester did not write, with what it had committed. The caller commits."""
    query = select(Harvest).where(Harvest.job_id == run.job_id).limit(1).with_for_update()
    reached = session.scalars(query).one_or_none()
    status, failure = _failure(run, ending)
    ended = History(
        repository_id=run.repository_id,
        recurring_id=run.recurring_id,
        job_id=run.job_id,
        status=status,
        failure_reason=_reason(failure),
        failure_code=failure.code.value,
        failure_facts=dict(failure.facts),
        set_spec=run.set_spec,
        metadata_prefix=run.metadata_prefix,
        harvest_method=run.harvest_method,
        harvest_start_time=run.started,
        host=run.host,
        process_id=run.process_id,
        **({} if reached is None else _reached(reached, ending)),
    )
    session.add(ended)
    session.flush()
    if reached is not None and reached.run_started is not None:
        _claim_errors(session, reached, ended, reached.run_started)
    return ended


def _reached(harvest: Harvest, ending: Ending) -> dict[str, Any]:
    """The columns that tell how far the harvest was when it was cut off."""
    counts = harvest.counts
    records = counts.get("records", 0)
    return {
        "harvest_id": harvest.harvest_id,
        "run_started": harvest.run_started,
        "verdict": "partial" if records else "failed",
        "record_count": records,
        "requests": counts.get("requests", 0),
        "bytes": counts.get("bytes", 0),
        **{f"{name}_count": counts.get(name, 0) for name in _COUNTS},
        **columns_of([*notes_of(harvest.warnings, harvest.warning_failures), *_last_note(harvest)]),
        "evidence": {
            "end": "cut off",
            "cause": ending.cause.name.lower(),
            "exit_code": ending.exit_code,
            "pages": counts.get("pages", 0),
            "complete_list_size": harvest.complete_list_size,
            "last_progress": format_datestamp(harvest.updated),
            "resumable": harvest.run_parameters is not None,
        },
    }


def _last_note(harvest: Harvest) -> list[Note]:
    """What it had noted last, unless that is among its warnings."""
    note = harvest.last_error
    if not note or note in harvest.warnings:
        return []
    failure = Failure.from_json(harvest.last_failure)
    return [Note(text=f"last progress before it was interrupted: {note[:_LONGEST_NOTE]}", failure=failure)]


def _claim_errors(session: Session, harvest: Harvest, ended: History, run_started: datetime) -> None:
    """Let the records that the run refused belong to its row, as the harvester itself does."""
    ward = Ward(
        repository_id=harvest.repository_id,
        metadata_prefix=harvest.metadata_prefix,
        set_spec=harvest.set_spec,
        run_started=run_started,
        job_id=ended.job_id,
    )
    now = session.execute(select(func.now())).scalar_one()
    ward.close(session, history_id=ended.history_id, complete=False, now=now)


def _failure(run: Run, ending: Ending) -> tuple[RunStatus, Failure]:
    facts: dict[str, object] = {"number": run.process_id, "host": run.host}
    if ending.cause in _ENDED_BY_US:
        status, failed = _ENDED_BY_US[ending.cause]
        return status, Failure(code=failed, facts=facts)
    # PostgreSQL keeps no NUL.
    last_line = ending.said.replace("\0", "").strip().rpartition("\n")[2].strip()
    if last_line:
        facts["said"] = last_line
    code = ending.exit_code
    if code is None:
        return RunStatus.FAILED, Failure(code=FailureCode.PROCESS_NOT_STARTED, facts=facts)
    if code < 0:
        return RunStatus.FAILED, Failure(code=FailureCode.PROCESS_SIGNALLED, facts={**facts, "signal": -code})
    return RunStatus.FAILED, Failure(code=FailureCode.PROCESS_EXITED, facts={**facts, "exit_code": code})


def _reason(failure: Failure) -> str:
    said = failure.facts.get("said")
    return f"{failure.sentence()}; its last message was: {said}" if said else failure.sentence()
