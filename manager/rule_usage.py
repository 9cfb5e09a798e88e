"""Where a rule file is used: the schedules that name it, and the runs that read a version of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from harvester.listing import Among
from harvester.models import History, Repository
from harvester.rule_lab.models import Rule, RuleVersion
from harvester.rule_lab.versions import version_of_digest
from harvester.vocabulary import RuleKind
from manager.models import RecurringJob
from manager.rule_access import spellings_of
from oai.models import from_row
from oai.settings import Settings

_MOST = 200


@dataclass(frozen=True, kw_only=True)
class RuleRead:
    """A rule file that a run read."""

    kind: str
    digest: str
    """SHA-256 in hexadecimal digits."""
    rule: Rule | None
    """The rule and the version with this content; None if there is none."""
    version: RuleVersion | None


@dataclass(frozen=True, kw_only=True)
class Use:
    """A schedule that names the file."""

    schedule_id: int
    repository_id: int
    repository_name: str
    metadata_prefix: str
    set_spec: str | None
    frequency: str | None
    time_zone: str


def uses_of(session: Session, settings: Settings, rule: Rule, *, among: Among = None) -> list[Use]:
    """Return the first schedules whose harvests read the file; with `among`, only of these repositories."""
    query = (
        select(RecurringJob, Repository.display_name)
        .join(Repository, Repository.repository_id == RecurringJob.repository_id)
        .where(RecurringJob.id.in_(schedules_with(settings, rule, among=among)))
    )
    return [
        from_row(Use, job, schedule_id=job.id, repository_name=name)
        for job, name in session.execute(query.order_by(RecurringJob.id).limit(_MOST))
    ]


def schedules_with(settings: Settings, rule: Rule, *, among: Among = None) -> Select[int]:
    """Return the query for the ids of all schedules whose harvests read the file."""
    # A row inserted by SQL may spell the path differently from the web pages.
    spellings = spellings_of(rule, settings.data)
    named = or_(RecurringJob.filter_file_path.in_(spellings), RecurringJob.normalize_file_path.in_(spellings))
    query = select(RecurringJob.id).where(named)
    return query if among is None else query.where(RecurringJob.repository_id.in_(among))


def last_runs(
    session: Session, rule: Rule, versions: Sequence[RuleVersion], *, among: Among = None
) -> Mapping[int, int]:
    """Return the last run that read each version, by version number; versions without runs are absent."""
    column = History.filter_digest if rule.kind == "filter" else History.normalize_digest
    query = select(column, func.max(History.history_id)).where(
        column.in_({version.digest for version in versions})
    )
    if among is not None:
        query = query.where(History.repository_id.in_(among))
    found = {digest: run for digest, run in session.execute(query.group_by(column))}  # noqa: C416 rows, not pairs
    return {version.number: found[version.digest] for version in versions if version.digest in found}


def rules_read(session: Session, run: History, *, among: Among = None) -> list[RuleRead]:
    """Return the rule files that the run read; with `among`, only rules of these repositories are matched."""
    read = ((RuleKind.FILTER, run.filter_digest), (RuleKind.NORMALISE, run.normalize_digest))
    found = []
    for kind, digest in read:
        if digest is not None:
            version = version_of_digest(session, digest, among=among)
            rule = None if version is None else session.get(Rule, version.rule_id)
            found.append(RuleRead(kind=kind.value, digest=digest, rule=rule, version=version))
    return found
