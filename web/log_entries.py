"""The audit log's entries: written, filtered, listed; old ones go."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session

from oai.sections import WebSettings
from web.models import AuditEntry

_PAGE: Final = 50


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which entries; empty texts mean all. `since` counts, `until` does not."""

    user: str = ""
    action: str = ""
    kind: str = ""
    number: str = ""
    since: datetime | None = None
    until: datetime | None = None


def audit(session: Session, /, settings: WebSettings, *, action: str, **columns: Any) -> None:  # noqa: ANN401
    """Write an entry with these columns of `web_audit`; what is older than `audit_days` goes.

    The caller commits.
    """
    if settings.audit_days:
        oldest = func.now() - timedelta(days=settings.audit_days)
        session.execute(delete(AuditEntry).where(AuditEntry.at < oldest))
    session.add(AuditEntry(action=action, **columns))


def list_entries(
    session: Session, wanted: Filter, *, limit: int = _PAGE, before: int | None = None
) -> list[AuditEntry]:
    """Up to `limit` entries, the newest first; `before` is the last page's last `audit_id`."""
    rows = _filtered(wanted).limit(limit)
    if before is not None:
        rows = rows.where(AuditEntry.audit_id < before)
    return list(session.scalars(rows))


def list_actions(session: Session) -> list[str]:
    """Every action that there is an entry of; of a long log, those of its last 10,000 entries."""
    last = select(AuditEntry.action).order_by(AuditEntry.audit_id.desc()).limit(10_000).subquery()
    return list(session.scalars(select(last.c.action).distinct().order_by(last.c.action)))


def _filtered(wanted: Filter) -> Select[AuditEntry]:
    rows = select(AuditEntry).order_by(AuditEntry.audit_id.desc())
    for column, value in (
        (AuditEntry.user_name, wanted.user),
        (AuditEntry.action, wanted.action),
        (AuditEntry.object_kind, wanted.kind),
        (AuditEntry.object_id, wanted.number),
    ):
        if value:
            rows = rows.where(column == value)
    if wanted.since is not None:
        rows = rows.where(AuditEntry.at >= wanted.since)
    if wanted.until is not None:
        rows = rows.where(AuditEntry.at < wanted.until)
    return rows
