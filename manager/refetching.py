"""By what rules a record that could not be read is fetched again: those of the schedule that harvests it."""

from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import History
from harvester.running.models import Quarantined
from harvester.running.parameters import HarvestRequest
from harvester.vocabulary import Level
from manager.models import RecurringJob
from oai.settings import Settings


def schedule_of(session: Session, error: Quarantined) -> RecurringJob | None:
    """The schedule whose run met the fault last, or else the newest one of the same format and set."""
    run = session.get(History, error.history_id) if error.history_id is not None else None
    if run is not None and run.recurring_id is not None:
        schedule = session.get(RecurringJob, run.recurring_id)
        if schedule is not None:
            return schedule
    same = (
        select(RecurringJob)
        .where(
            RecurringJob.repository_id == error.repository_id,
            RecurringJob.metadata_prefix == error.metadata_prefix,
            func.coalesce(RecurringJob.set_spec, "") == error.set_spec,
        )
        .order_by(RecurringJob.id.desc())
        .limit(1)
    )
    return session.scalars(same).one_or_none()


def request_for(session: Session, settings: Settings, error: Quarantined) -> HarvestRequest | None:
    """How the record is harvested, as its schedule says it; None where no schedule tells."""
    schedule = schedule_of(session, error)
    if schedule is None:
        return None
    return HarvestRequest(
        repository_id=error.repository_id,
        metadata_prefix=error.metadata_prefix,
        set_spec=error.set_spec,
        validation=Level(schedule.validation),
        filter_file=_path(schedule.filter_file_path),
        normalize_file=_path(schedule.normalize_file_path),
        parse_id=schedule.parse_id,
        files_per_directory=schedule.files_per_dir or settings.harvester.files_per_directory,
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
