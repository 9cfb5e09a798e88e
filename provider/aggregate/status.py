"""How much of each source is given out, and what hinders the rest."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from provider.models import UNLISTED

# Counts for people, who ask seldom; lists never do this.
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
    """A source's records in one format; in none where nothing of it is published yet."""

    set_spec: str
    format: str | None
    listed: int
    deleted: int
    """Of the listed ones."""
    overshadowed: int
    """Not listed, for another source has the same identifier."""
    unreadable: int
    """Whose files could not be read."""
    reason: str | None
    """Why one of them could not."""
    state: str


def read_status(session: Session) -> list[Status]:
    """Each source with its formats, by set."""
    rows = session.execute(text(_STATUS), {"unlisted": UNLISTED}).mappings()
    return [Status(**row) for row in rows]
