"""Schedules of changes whose rules have changed since all their records were requested."""

from collections.abc import Collection
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from sqlalchemy import Select, and_, func, select, true
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.harvest.preparation import LastRules, last_rules_of
from harvester.harvest.request import digest_of
from harvester.harvest.watermark import CompleteHarvest
from harvester.models import Harvest, History, Repository
from harvester.repositories import harvest_from_the_start
from manager.models import RecurringJob
from manager.schedules.limits import LimitError
from manager.schedules.service import RESTING, run_now

_OF_SCHEDULE: Final = and_(
    Harvest.repository_id == RecurringJob.repository_id,
    Harvest.metadata_prefix == RecurringJob.metadata_prefix,
    Harvest.set_spec == func.coalesce(RecurringJob.set_spec, ""),
)


def with_changed_rules(session: Session, schedules: Collection[int] | Select[int]) -> list[RecurringJob]:
    """Return those of the schedules whose next harvest requests only changes, although their rules changed.

    Records that were stored or filtered out before the change stay as they are until a harvest requests all
    records (`harvest_everything`).
    """
    of_harvest = (History.repository_id == Harvest.repository_id) & (History.harvest_id == Harvest.harvest_id)
    last = last_rules_of(of_harvest).lateral("last_rules")
    query = (
        select(RecurringJob, Harvest, Repository.protocol, *last.c)
        .join(Repository, Repository.repository_id == RecurringJob.repository_id)
        .join(Harvest, _OF_SCHEDULE)
        .join(last, true())
        .where(RecurringJob.id.in_(schedules), RecurringJob.incremental)
        .order_by(RecurringJob.id)
    )
    rules = cache(_rule_digests)  # thousands of schedules may have the same files
    return [
        schedule
        for schedule, harvest, protocol, *digests, changed in session.execute(query)
        if access_of(protocol).query is None
        and _requests_changes(schedule, harvest)
        and (present := rules(schedule.filter_file_path, schedule.normalize_file_path)) is not None
        and LastRules(digests=(digests[0], digests[1]), changed=changed).differ_from(present)
    ]


def harvest_everything(
    session: Session, schedules: Collection[RecurringJob], *, partner_minutes: float | None = None
) -> None:
    """Request all records of the schedules once, with jobs that are due now. The caller commits.

    If a harvest fails, the next one requests all records again. A schedule that makes no jobs, such as one
    that is paused, and one that a partner (`partner_minutes`) may not run yet, does so at its next run.
    """
    for schedule in schedules:
        of_schedule = select(Harvest.harvest_id).where(_OF_SCHEDULE, RecurringJob.id == schedule.id)
        harvest_from_the_start(session, Harvest.harvest_id.in_(of_schedule))
        if schedule.state not in RESTING:
            with suppress(LimitError):  # its next planned run requests them
                run_now(session, schedule.id, partner_minutes=partner_minutes)


def _requests_changes(schedule: RecurringJob, harvest: Harvest) -> bool:
    complete = CompleteHarvest(watermark=harvest.watermark, complete_from=harvest.complete_from)
    return complete.since(schedule.harvest_from or None) is not None


def _rule_digests(*files: str | None) -> tuple[str | None, str | None] | None:
    """Return the digests of a filter and a normalise file; None if they cannot be read."""
    try:
        filters, mappings = (digest_of(Path(file) if file else None) for file in files)
    except OSError:
        return None  # the next harvest fails, and names the file
    return filters, mappings
