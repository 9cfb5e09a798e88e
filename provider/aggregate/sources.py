"""The aggregate's source repositories: adding, withdrawing, listing. The caller commits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from oai.errors import UsageError
from oai.reach import CREDENTIALS, without_credentials
from provider.aggregate import harvested
from provider.aggregate.identifiers import Identifiers, source_name, suggested_name
from provider.aggregate.models import (
    AggregateFeed,
    AggregateFormerAddress,
    AggregateRecord,
    AggregateSet,
    AggregateSource,
)

RECORDS: Final = "records"
"""`AggregateSource.walk`: check every harvested record."""
GONE: Final = "gone"
"""Delete records that are no longer harvested."""
WITHDRAWAL: Final = "withdrawal"
"""Delete all records."""

# Starts below the oldest transaction in progress, so that no line committed later is missed: at the newest
# line there, whose absence later shows that lines were pruned. Of two commands that insert at once, one does
# nothing.
_FOLLOW_FROM_HERE: Final = """
WITH oldest AS (SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) AS number)
INSERT INTO aggregate_feed (id, transaction_id, change_id, followed)
SELECT 1, coalesce(newest.transaction_id, number - 1), coalesce(newest.change_id, 0), clock_timestamp()
FROM oldest LEFT JOIN LATERAL (
    SELECT transaction_id, change_id FROM oai_change WHERE transaction_id < number
    ORDER BY transaction_id DESC, change_id DESC LIMIT 1
) AS newest ON true
ON CONFLICT DO NOTHING
"""
# As in `find_repository`.
_PUBLIC: Final = """
oai_repository AS repository
CROSS JOIN LATERAL (
    SELECT regexp_replace(
            coalesce(nullif(repository.repository_name, ''), repository.base_url), :credentials, '\\1'
        ) AS title,
        regexp_replace(repository.base_url, :credentials, '\\1') AS base_url
) AS public
"""
# When exactly it was changed is not known. Published records keep the address with their datestamps.
_ADDRESSES_LEFT: Final = f"""
INSERT INTO aggregate_former_address (repository_id, until, base_url)
SELECT source.repository_id, newest.harvest_time, regexp_replace(source.base_url, :credentials, '\\1')
FROM {_PUBLIC}
JOIN aggregate_source AS source ON source.repository_id = repository.repository_id
JOIN LATERAL (
    SELECT max(harvest_time) AS harvest_time FROM aggregate_record AS record
    WHERE record.repository_id = source.repository_id
) AS newest ON newest.harvest_time IS NOT NULL
WHERE regexp_replace(source.base_url, :credentials, '\\1') <> public.base_url
ON CONFLICT DO NOTHING
"""  # noqa: S608 constants
_NAMES_CHANGED: Final = f"""
UPDATE aggregate_source AS source
SET title = public.title, base_url = public.base_url
FROM {_PUBLIC}
WHERE repository.repository_id = source.repository_id
    AND (source.title, source.base_url) IS DISTINCT FROM (public.title, public.base_url)
RETURNING source.name, source.title
"""  # noqa: S608 constants
_OWN_SET_NAMED: Final = "UPDATE aggregate_set SET name = :title WHERE set_spec = :name"
FORMER_ADDRESS: Final = (
    select(AggregateFormerAddress.base_url)
    .where(
        AggregateFormerAddress.repository_id == AggregateRecord.repository_id,
        AggregateFormerAddress.until >= AggregateRecord.harvest_time,
    )
    .order_by(AggregateFormerAddress.until)
    .limit(1)
    .correlate(AggregateRecord)
    .scalar_subquery()
)
"""The base URL from which a record was harvested, if its source has another one now."""
_IDENTIFIED: Final = """
SELECT repository_id, identified FROM aggregate_source JOIN oai_repository USING (repository_id)
"""
# With `;`, the character after `:`, the sets below a source's own are a range of the index.
_SET_NAMES_CHANGED: Final = """
UPDATE aggregate_set AS known SET name = current.set_name
FROM aggregate_source AS source JOIN oai_set AS current USING (repository_id)
WHERE source.repository_id = ANY(:repositories) AND current.set_name <> ''
    AND known.set_spec > source.name || ':' AND known.set_spec < source.name || ';'
    AND current.set_spec = known.harvested_spec AND current.set_name <> known.name
"""
_VANISHED: Final = """
UPDATE aggregate_source AS source SET withdrawn = now(), walk = :withdrawal
WHERE withdrawn IS NULL
    AND NOT EXISTS (SELECT FROM oai_repository AS repository
                    WHERE repository.repository_id = source.repository_id)
"""
# A hash, because approvals and records fetched again have no common number with runs, only times, which are
# not in the order of their commits.
_CHANGED_WITHOUT_FEED: Final = """
SELECT repository_id, seen FROM (
    SELECT repository_id, seen_history, hashtextextended(concat_ws(' ',
        (SELECT max(history_id) FROM oai_history AS run WHERE run.repository_id = source.repository_id),
        (SELECT extract(epoch FROM max(decided)) FROM oai_hold JOIN oai_harvest AS harvest USING (harvest_id)
         WHERE harvest.repository_id = source.repository_id),
        (SELECT extract(epoch FROM max(resolved)) FROM oai_quarantine AS rejected
         WHERE rejected.repository_id = source.repository_id)
    ), 0) AS seen
    FROM aggregate_source AS source WHERE withdrawn IS NULL AND walk IS NULL
) AS current
WHERE seen <> seen_history
"""

Identified = Mapping[int, datetime | None]
"""When each repository last identified itself; its sets are listed then."""


@dataclass(frozen=True, kw_only=True)
class SourceRepository:
    """A repository as the harvester knows it."""

    repository_id: int
    title: str
    base_url: str


def find_repository(session: Session, named: str) -> SourceRepository:
    """Return the repository with this number, base URL or name. Raises UsageError unless one matches."""
    known = harvested.REPOSITORY.c
    wanted = (
        known.repository_id == int(named)
        if named.isdecimal()
        else (known.base_url == named) | (known.repository_name == named)
    )
    found = session.execute(
        select(known.repository_id, known.repository_name, known.base_url)
        .where(wanted)
        .order_by(known.repository_id)
    ).all()
    if not found:
        raise UsageError(f"no repository {named!r}; list repositories with `zatva repository list`")
    if len(found) > 1:
        ids = ", ".join(str(row[0]) for row in found)
        raise UsageError(f"{named!r} matches the repositories {ids}; give one number")
    repository_id, name, base_url = found[0]
    return SourceRepository(
        repository_id=repository_id,
        title=without_credentials(name or base_url),
        base_url=without_credentials(base_url),
    )


def add_source(
    session: Session,
    repository: SourceRepository,
    *,
    name: str | None = None,
    identifiers: str | None = None,
    altered: bool | None = None,
) -> AggregateSource:
    """Add a repository to the aggregate, or add a withdrawn one again.

    The next update publishes its records. `altered` None leaves an existing source as it is. Raises
    UsageError if the set belongs to another source, or if an existing source would change its set or
    identifiers, because that would rename its records.
    """
    session.execute(text(_FOLLOW_FROM_HERE))
    known = session.get(AggregateSource, repository.repository_id)
    if known is None:
        known = _new_source(session, repository, name, identifiers or Identifiers.ORIGINAL)
    else:
        _refuse_other_names(known, name, identifiers)
        known.identifiers = identifiers or known.identifiers
    if altered is not None:
        known.altered = altered
    known.withdrawn = None
    begin_walk(known)
    session.flush()
    return known


def _new_source(
    session: Session, repository: SourceRepository, name: str | None, identifiers: str
) -> AggregateSource:
    chosen = source_name(name) if name else _free_name(session, repository.base_url)
    if session.scalar(select(AggregateSource.name).where(AggregateSource.name == chosen)):
        raise UsageError("set %(name)s belongs to another source; choose another", name=repr(chosen))
    made = AggregateSource(
        repository_id=repository.repository_id,
        name=chosen,
        title=repository.title,
        base_url=repository.base_url,
        identifiers=identifiers,
        namespace="",
    )
    session.add(made)
    session.flush()
    session.add(
        AggregateSet(
            repository_id=made.repository_id,
            set_spec=chosen,
            harvested_spec="",
            name=repository.title,
            lineage=[],
        )
    )
    return made


def _refuse_other_names(known: AggregateSource, name: str | None, identifiers: str | None) -> None:
    if name not in {None, known.name}:
        raise UsageError(
            "%(title)s is already in the aggregate as set %(name)s, which cannot be changed: records keep "
            "their sets",
            title=known.title,
            name=repr(known.name),
        )
    if known.withdrawn is None and identifiers not in {None, known.identifiers}:
        raise UsageError(
            "records of %(title)s have other identifiers; to change that, remove it first, so that these "
            "records are reported to harvesters as deleted",
            title=known.title,
        )
    if known.walk == WITHDRAWAL and identifiers not in {None, known.identifiers}:
        raise UsageError(
            "not all records of %(title)s are reported as deleted yet; wait, or run "
            "`zatva provider aggregate update`",
            title=known.title,
        )


def _free_name(session: Session, base_url: str) -> str:
    """Return a name derived from the host, with a number appended if it is taken."""
    begin = suggested_name(base_url)
    taken = set(session.scalars(select(AggregateSource.name)))
    number = 1
    name = begin
    while name in taken:
        number += 1
        name = f"{begin}-{number}"
    return name


def withdraw_source(session: Session, repository_id: int) -> AggregateSource:
    """Withdraw a repository: the next update reports all its records as deleted. Raises UsageError."""
    source = session.get(AggregateSource, repository_id)
    if source is None or source.withdrawn is not None:
        raise UsageError(
            "repository %(repository)s is not in the aggregate; list its repositories with `zatva provider "
            "aggregate list`",
            repository=repository_id,
        )
    source.withdrawn = session.scalar(select(func.now()))
    source.walk = WITHDRAWAL
    session.flush()
    return source


def begin_walk(source: AggregateSource, prefix: str = "") -> None:
    """Mark the source so that the next update checks all its records, or those from this prefix on."""
    source.walk = RECORDS
    source.walked_prefix = prefix
    source.walked_key = None


def list_sources(session: Session) -> Sequence[AggregateSource]:
    """Return all sources, including withdrawn ones, by set."""
    return session.scalars(select(AggregateSource).order_by(AggregateSource.name)).all()


def refresh_sources(session: Session, compared: Identified) -> Identified:
    """Copy changed names and base URLs, and withdraw sources whose repository has been removed.

    Names of sets are copied of repositories that have identified themselves since they were `compared`.
    Returns the times for the next call, valid after the commit.
    """
    session.execute(text(_ADDRESSES_LEFT), {"credentials": CREDENTIALS})
    for renamed in session.execute(text(_NAMES_CHANGED), {"credentials": CREDENTIALS}).mappings().all():
        session.execute(text(_OWN_SET_NAMED), dict(renamed))
    # Read before the names: those that are stored in between are copied the next time.
    identified = {number: moment for number, moment in session.execute(text(_IDENTIFIED))}  # noqa: C416 rows
    changed = [one for one in identified if one not in compared or compared[one] != identified[one]]
    if changed:
        session.execute(text(_SET_NAMES_CHANGED), {"repositories": changed})
    session.execute(text(_VANISHED), {"withdrawal": WITHDRAWAL})
    return identified


def begin_walks_without_feed(session: Session) -> None:
    """Without a change feed, start walks over the sources that may have changed since their last walk.

    They were harvested, or a person approved a held run or fetched a rejected record again.
    """
    for repository_id, seen in session.execute(text(_CHANGED_WITHOUT_FEED)).all():
        source = session.get_one(AggregateSource, repository_id)
        begin_walk(source)
        source.seen_history = seen
    session.flush()


def end_walks_without_feed(session: Session) -> bool:
    """Return whether earlier updates had no change feed, so that the changes before it are unknown."""
    without = update(AggregateSource).where(AggregateSource.seen_history != 0).values(seen_history=0)
    return bool(session.execute(without.returning(AggregateSource.repository_id)).all())


def walk_everything(session: Session) -> None:
    """Mark all sources so that the next update checks every record."""
    for source in list_sources(session):
        if source.withdrawn is None:
            begin_walk(source)
    session.flush()


def follow_from_here(session: Session) -> None:
    """Set the position to the current end of the change feed: walks find the earlier changes."""
    session.execute(text("DELETE FROM aggregate_feed"))
    session.execute(text(_FOLLOW_FROM_HERE))


def feed(session: Session) -> AggregateFeed | None:
    """Return the position in the feed; None before the first source was added."""
    return session.get(AggregateFeed, 1, populate_existing=True)


def published_namespace(session: Session, repository_id: int) -> str | None:
    """Return the namespace of the source's newest own identifier; None if it has no own identifiers."""
    record = AggregateRecord
    own = select(record.identifier).where(
        record.repository_id == repository_id, record.identifier != record.harvested_identifier
    )
    # In the order of `ix_aggregate_record_source`. The newest first: of a source that had original
    # identifiers before, the oldest records have those.
    newest = own.order_by(record.format_id.desc(), record.datestamp.desc(), record.id.desc()).limit(1)
    found = session.scalar(newest)
    return None if found is None else found.split(":")[1]


def oldest_identifier(session: Session, repository_id: int) -> str | None:
    """Return the published identifier of the source's oldest record; original if the source had such once."""
    record = AggregateRecord
    published = select(record.identifier).where(record.repository_id == repository_id)
    return session.scalar(published.order_by(record.format_id, record.datestamp, record.id).limit(1))


def values_of(source: AggregateSource) -> dict[str, Any]:
    """Return a source's values as commands print them."""
    return {
        "repository_id": source.repository_id,
        "set_spec": source.name,
        "title": source.title,
        "base_url": source.base_url,
        "identifiers": source.identifiers,
        "state": "withdrawn" if source.withdrawn else "in the aggregate",
    }
