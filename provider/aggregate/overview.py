"""Summary of the aggregate from kept counts: its sources, records per format, and publication delay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from oai.models import from_row
from provider.aggregate.models import (
    AggregateCount,
    AggregateFeed,
    AggregateFormat,
    AggregateRecord,
    AggregateSet,
    AggregateSource,
    AggregateUnreadable,
)
from provider.aggregate.sources import WITHDRAWAL, list_sources
from provider.models import UNLISTED


@dataclass(frozen=True, kw_only=True)
class SourceOverview:
    """A source with its number of listed records, including deleted ones."""

    repository_id: int
    set_spec: str
    title: str
    base_url: str
    identifiers: str
    """original: as harvested; own: below this provider's namespace."""
    added: datetime
    state: str
    formats: Mapping[str, int]
    """Listed records by metadataPrefix."""
    unreadable: int
    """Records that are withheld because their files could not be read."""

    @property
    def records(self) -> int:
        """Listed records in all formats."""
        return sum(self.formats.values())


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The whole aggregate."""

    sources: Sequence[SourceOverview]
    followed: datetime | None
    """Until when all harvested changes have been processed (UTC); None before the first time."""

    @property
    def records(self) -> int:
        """Listed records of all sources."""
        return sum(source.records for source in self.sources)

    @property
    def since(self) -> datetime | None:
        """When its first source was added."""
        return min((source.added for source in self.sources), default=None)


def read_overview(session: Session) -> Overview:
    """Return the aggregate's current state; only unreadable records are counted for it."""
    counts = _counts(session)
    unreadable = _unreadable(session)
    return Overview(
        sources=[
            from_row(
                SourceOverview,
                source,
                set_spec=source.name,
                state=_state(source),
                formats=counts.get(source.name, {}),
                unreadable=unreadable.get(source.repository_id, 0),
            )
            for source in list_sources(session)
        ],
        followed=session.scalar(select(AggregateFeed.followed)),
    )


def _state(source: AggregateSource) -> str:
    """Return the state as the `status` command shows it."""
    if source.walk == WITHDRAWAL:
        return "being withdrawn"
    if source.withdrawn is not None:
        return "withdrawn"
    return "followed" if source.walk is None else "being read"


def _counts(session: Session) -> dict[str, dict[str, int]]:
    """Return the number of listed records by source and format."""
    rows = session.execute(
        select(AggregateSet.set_spec, AggregateFormat.prefix, AggregateCount.records)
        .join(AggregateSet, AggregateSet.id == AggregateCount.set_id)
        .join(AggregateFormat, AggregateFormat.id == AggregateCount.format_id)
        .join(AggregateSource, AggregateSource.name == AggregateSet.set_spec)
        .where(AggregateCount.records > 0)
        .order_by(AggregateFormat.id)
    )
    found: dict[str, dict[str, int]] = {}
    for set_spec, prefix, records in rows:
        found.setdefault(set_spec, {})[prefix] = records
    return found


def _unreadable(session: Session) -> dict[int, int]:
    rows = session.execute(
        select(AggregateRecord.repository_id, func.count())
        .join(AggregateUnreadable, AggregateUnreadable.record_id == AggregateRecord.id)
        .group_by(AggregateRecord.repository_id)
    )
    return {repository_id: number for repository_id, number in rows}  # noqa: C416 rows, not pairs


# Counts rows; only for the rarely used status command, never for lists.
_STATUS: Final = """
SELECT source.name AS set_spec, format.prefix AS format, coalesce(numbers.listed, 0) AS listed,
    coalesce(numbers.deleted, 0) AS deleted, coalesce(numbers.unreadable, 0) AS unreadable,
    coalesce(numbers.others, 0) - coalesce(numbers.unreadable_unlisted, 0) AS overshadowed, numbers.reason,
    CASE
        WHEN source.walk = 'withdrawal' THEN 'being withdrawn'
        WHEN source.withdrawn IS NOT NULL THEN 'withdrawn'
        WHEN source.walk IS NOT NULL THEN 'being read'
        ELSE 'followed'
    END AS state
FROM aggregate_source AS source
LEFT JOIN (
    SELECT record.repository_id, record.format_id,
        count(*) FILTER (WHERE record.datestamp < :unlisted) AS listed,
        count(*) FILTER (WHERE record.datestamp < :unlisted AND record.deleted) AS deleted,
        count(*) FILTER (WHERE record.datestamp = :unlisted) AS others,
        count(unreadable.record_id) AS unreadable,
        count(unreadable.record_id) FILTER (WHERE record.datestamp = :unlisted) AS unreadable_unlisted,
        min(unreadable.reason) AS reason
    FROM aggregate_record AS record
    LEFT JOIN aggregate_unreadable AS unreadable ON unreadable.record_id = record.id
    GROUP BY record.repository_id, record.format_id
) AS numbers USING (repository_id)
LEFT JOIN aggregate_format AS format ON format.id = numbers.format_id
ORDER BY source.name, format.id
"""


@dataclass(frozen=True, kw_only=True)
class Status:
    """A source's records in one format; without a format if none of them is published yet."""

    set_spec: str
    format: str | None
    listed: int
    deleted: int
    """Of the listed records."""
    overshadowed: int
    """Not listed because another source has the same identifier."""
    unreadable: int
    """Records whose files could not be read."""
    reason: str | None
    """Why one of them could not be read."""
    state: str


def read_status(session: Session) -> list[Status]:
    """Return the status of each source and format, by set."""
    rows = session.execute(text(_STATUS), {"unlisted": UNLISTED}).mappings()
    return [Status(**row) for row in rows]
