"""Daily and weekly summaries: what was harvested since the last one, and what fails."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import NOT_RUN, RunStatus
from manager.notices.announcing import notices_for
from manager.notices.facts import Facts, facts_of_repository, moment
from manager.notices.models import Kind, NoticeRule, Occasion
from manager.schedules import database_now

PERIOD: Final = {Kind.DAILY: timedelta(days=1), Kind.WEEKLY: timedelta(days=7)}
_SHOWN: Final = 50
_BAD: Final = (RunStatus.FAILED, RunStatus.LOST, RunStatus.HELD)


def summarise(session: Session) -> int:
    """Write the summaries that are due; gives how many. The caller commits.

    A summary reaches from the last one, or from the rule's adding, to a whole number of periods later; so it
    comes at the same time of day, and one that is late makes up for those that were missed.
    """
    now = database_now(session)
    written = 0
    for kind, period in PERIOD.items():
        due = select(NoticeRule).where(NoticeRule.kind == kind, NoticeRule.summarised <= now - period)
        for rule in session.scalars(due.with_for_update(skip_locked=True)).all():
            until = rule.summarised + (now - rule.summarised) // period * period
            session.add_all(notices_for(rule, Occasion.SUMMARY, _facts(session, rule, until)))
            rule.summarised = until
            written += 1
    return written


def _facts(session: Session, rule: NoticeRule, until: datetime) -> Facts:
    """What a summary from the rule's last one until then tells."""
    window = (
        History.harvest_end_time >= rule.summarised,
        History.harvest_end_time < until,
        History.status.not_in(NOT_RUN),
        *([] if rule.repository_id is None else [History.repository_id == rule.repository_id]),
        *([] if rule.recurring_id is None else [History.recurring_id == rule.recurring_id]),
    )
    return {
        **facts_of_repository(session, rule.repository_id),
        "period": rule.kind,
        "since": moment(rule.summarised),
        "until": moment(until),
        **_figures(session, window),
        "failing": _failing(session, window),
    }


def _figures(session: Session, window: tuple[ColumnElement[bool], ...]) -> Facts:
    by_status = session.execute(
        select(History.status, func.count()).where(*window).group_by(History.status).order_by(History.status)
    )
    columns = ("record_count", "new_count", "updated_count", "deleted_count", "invalid_count")
    sums = session.execute(
        select(*(func.coalesce(func.sum(getattr(History, name)), 0) for name in columns)).where(*window)
    ).one()
    statuses = {row[0]: row[1] for row in by_status}
    return {
        "runs": sum(statuses.values()),
        "statuses": statuses,
        **{name.removesuffix("_count"): int(number) for name, number in zip(columns, sums, strict=True)},
    }


def _failing(session: Session, window: tuple[ColumnElement[bool], ...]) -> list[Facts]:
    """The sources whose last run in the window failed."""
    source = (History.repository_id, History.metadata_prefix, History.set_spec)
    last = (
        select(func.max(History.history_id))
        .where(*window, History.status.not_in((RunStatus.KILLED, RunStatus.INCOMPLETE)))
        .group_by(*source)
        .scalar_subquery()
    )
    query = (
        select(History, func.coalesce(Repository.repository_name, Repository.base_url))
        .join(Repository, Repository.repository_id == History.repository_id)
        .where(History.history_id.in_(last), History.status.in_(_BAD))
        .order_by(History.history_id)
        .limit(_SHOWN)
    )
    return [
        {
            "repository_name": name,
            "metadata_prefix": run.metadata_prefix or "",
            "set_spec": run.set_spec or "",
            "status": run.status,
            "failure_reason": run.failure_reason,
            "history_id": run.history_id,
        }
        for run, name in session.execute(query)
    ]
