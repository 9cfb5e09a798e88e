"""What there is to tell of a harvest, as plain values: a notice is written from them, even much later."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import RunStatus
from manager.models import Job
from manager.notices.models import NoticeStreak
from oai.failures import Failure, FailureCode

_SHOWN_WARNINGS: Final = 3
_LONGEST: Final = 1000
_COUNTS: Final = ("new", "updated", "unchanged", "deleted", "filtered", "invalid")

Facts = dict[str, Any]


def facts_of_run(session: Session, run: History) -> Facts:
    """A run that has ended, with what comes next. Times are ISO 8601 in UTC."""
    refused = run.status == RunStatus.COMPLETED_WITH_ERRORS and run.failure is None
    other = Failure(code=FailureCode.RECORDS_REFUSED if refused else FailureCode.OTHER)
    failure = run.failure or other
    return {
        **facts_of_repository(session, run.repository_id),
        "history_id": run.history_id,
        "job_id": run.job_id,
        "recurring_id": run.recurring_id,
        "metadata_prefix": run.metadata_prefix or "",
        "set_spec": run.set_spec or "",
        "status": run.status,
        "verdict": run.verdict,
        "failure_kind": failure.kind,
        "failure": failure.as_json(),
        "failure_reason": _short(run.failure_reason),
        "request": failure.facts.get("url"),
        "started": moment(run.harvest_start_time),
        "ended": moment(run.harvest_end_time),
        "records": run.record_count,
        **{name: getattr(run, f"{name}_count") for name in _COUNTS},
        "requests": run.requests,
        "bytes": run.bytes,
        "warnings": [_short(str(warning)) for warning in run.warnings[:_SHOWN_WARNINGS]],
        "warning_count": len(run.warnings),
        "host": run.host,
        "next": _next_try(session, run),
        "streak": None,
    }


def facts_of_repository(session: Session, repository_id: int | None) -> Facts:
    """A repository's number, name, address and the mail address of its keeper."""
    repository = None if repository_id is None else session.get(Repository, repository_id)
    if repository is None:
        return {"repository_id": repository_id, "repository_name": "", "base_url": "", "admin_email": None}
    return {
        "repository_id": repository.repository_id,
        "repository_name": repository.repository_name or repository.base_url,
        "base_url": repository.base_url,
        "admin_email": repository.admin_email,
    }


def facts_of_streak(streak: NoticeStreak) -> Mapping[str, Any]:
    """How long a source has been failing."""
    return {"began": moment(streak.began), "failures": streak.failures, "gravity": streak.gravity}


def moment(value: datetime) -> str:
    """The time in UTC, as facts have it."""
    return value.astimezone(UTC).isoformat(timespec="seconds")


def _next_try(session: Session, run: History) -> str | None:
    """When the same source is harvested next, as far as it is planned."""
    due = session.scalar(
        select(func.min(Job.harvest_start_time)).where(
            Job.repository_id == run.repository_id,
            Job.metadata_prefix == (run.metadata_prefix or "oai_dc"),
            func.coalesce(Job.set_spec, "") == (run.set_spec or ""),
        )
    )
    return None if due is None else moment(due)


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
