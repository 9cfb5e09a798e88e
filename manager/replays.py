"""Replays with changed rules: which runs can be replayed, with which rule files, and the harvest request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.access import ACCESSES
from harvester.harvest.models import Quarantined
from harvester.harvest.request import HarvestRequest
from harvester.harvest.source import replay_request
from harvester.listing import Among
from harvester.models import History, Repository
from harvester.rule_lab.files import file_of
from harvester.rule_lab.models import Rule
from harvester.vocabulary import Level, RuleKind
from manager.models import RecurringJob
from manager.rule_access import check_rule_access
from oai.errors import UsageError
from oai.settings import Settings

_LATEST: Final = 20_000
"""How many of the latest runs are searched; older runs are replayed by number, on the command line."""
_REHEARSED: Final = [access.protocol.value for access in ACCESSES.values() if access.query is None]


@dataclass(frozen=True, kw_only=True)
class RuleFiles:
    """The rule files of a harvest."""

    filter_file: Path | None = None
    normalize_file: Path | None = None


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """A run whose raw answers were kept."""

    history_id: int
    repository_id: int
    repository_name: str
    metadata_prefix: str
    set_spec: str
    ended: datetime
    records: int


def kept_runs(
    session: Session, *, among: Among = None, repository_id: int | None = None, limit: int = 50
) -> Sequence[KeptRun]:
    """Return the latest replayable runs of these repositories, or of one; newest first."""
    latest = select(History.history_id).order_by(History.history_id.desc()).limit(_LATEST)
    query = (
        select(History, Repository.display_name)
        .join(Repository, Repository.repository_id == History.repository_id)
        .where(
            History.history_id.in_(latest),
            History.raw_path.is_not(None),
            History.continued_by.is_(None),
            Repository.protocol.in_(_REHEARSED),
        )
    )
    if among is not None:
        query = query.where(History.repository_id.in_(among))
    if repository_id is not None:
        query = query.where(History.repository_id == repository_id)
    rows = session.execute(query.order_by(History.history_id.desc()).limit(limit))
    return [
        KeptRun(
            history_id=run.history_id,
            repository_id=run.repository_id,
            repository_name=name,
            metadata_prefix=run.metadata_prefix or "",
            set_spec=run.set_spec or "",
            ended=run.harvest_end_time,
            records=run.record_count,
        )
        for run, name in rows
    ]


def files_as_scheduled(session: Session, run: History, data: Path | None = None) -> RuleFiles:
    """Return the rule files that the run's schedule names now.

    Raises UsageError if it has no schedule, or if its organisation may not use the files; without the `data`
    folder, no rule of an organisation is found.
    """
    schedule = _schedule(session, run)
    if schedule is None:
        raise UsageError(
            f"run {run.history_id} does not belong to a schedule; give the rules with --filter and "
            "--normalise"
        )
    check_rule_access(session, schedule, data)
    return RuleFiles(
        filter_file=_path(schedule.filter_file_path),
        normalize_file=_path(schedule.normalize_file_path),
    )


def files_with(session: Session, settings: Settings, rule: Rule, run: History) -> RuleFiles:
    """Return the rule's file and, for the other kind, the file that the run's schedule names now, if any."""
    file = file_of(settings, rule)
    others = (
        files_as_scheduled(session, run, settings.data)
        if _schedule(session, run) is not None
        else RuleFiles()
    )
    if rule.kind == RuleKind.FILTER:
        return replace(others, filter_file=file)
    return replace(others, normalize_file=file)


def requested_replay(
    session: Session, settings: Settings, number: int, files: RuleFiles | None
) -> HarvestRequest:
    """Return the request to replay a run with these rule files, or else with those its schedule names now.

    Raises UsageError if there is no such run, if its answers were not kept, or if no schedule names files.
    """
    usual = settings.harvester.files_per_directory
    request = HarvestRequest(repository_id=0, files_per_directory=usual)
    run = session.get(History, number)
    if run is not None:
        schedule = _schedule(session, run)
        if schedule is not None:
            per_directory = schedule.files_per_dir or usual
            request = replace(request, parse_id=schedule.parse_id, files_per_directory=per_directory)
        files = files or files_as_scheduled(session, run, settings.data)
        request = replace(request, filter_file=files.filter_file, normalize_file=files.normalize_file)
    return replay_request(session, settings, request, number)


def _schedule(session: Session, run: History) -> RecurringJob | None:
    return session.get(RecurringJob, run.recurring_id) if run.recurring_id else None


def schedule_of(session: Session, error: Quarantined) -> RecurringJob | None:
    """Return the schedule whose run last met the error, or else the newest with the same format and set."""
    run = session.get(History, error.history_id) if error.history_id is not None else None
    if run is not None and (schedule := _schedule(session, run)) is not None:
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
    """Return how the record is harvested according to its schedule; None if there is no schedule.

    Raises UsageError if the schedule's organisation may not use its rule files.
    """
    schedule = schedule_of(session, error)
    if schedule is None:
        return None
    check_rule_access(session, schedule, settings.data)
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
