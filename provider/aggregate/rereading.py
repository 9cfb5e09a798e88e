"""Records whose files could not be read: tried again, and listed as soon as they can be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from provider.aggregate.gathering import Gatherer
from provider.aggregate.merging import Staged
from provider.aggregate.models import AggregateSource
from provider.aggregate.stored import UnreadableRecordError, read_stored

_TOGETHER: Final = 500

_DUE: Final = """
SELECT unreadable.record_id, record.repository_id, format.harvested_prefix, record.harvested_identifier,
    current.filename, current.status, repository.base_dir
FROM aggregate_unreadable AS unreadable
JOIN aggregate_record AS record ON record.id = unreadable.record_id
JOIN aggregate_format AS format ON format.id = record.format_id
JOIN aggregate_source AS source ON source.repository_id = record.repository_id AND source.withdrawn IS NULL
JOIN oai_repository AS repository ON repository.repository_id = record.repository_id
LEFT JOIN oai_record AS current ON current.repository_id = record.repository_id
    AND current.metadata_prefix = format.harvested_prefix AND current.identifier_key = record.harvested_key
WHERE unreadable.looked_at IS NULL OR unreadable.looked_at < clock_timestamp() - interval '1 minute'
ORDER BY unreadable.looked_at NULLS FIRST, record.repository_id, format.harvested_prefix
LIMIT :most
"""
_LOOKED_AT: Final = """
UPDATE aggregate_unreadable SET looked_at = clock_timestamp() WHERE record_id = ANY(:ids)
"""
_NOTICE: Final = """
INSERT INTO aggregate_unreadable (record_id, reason)
SELECT record.id, noticed.reason
FROM unnest(CAST(:ids AS bigint[]), CAST(:reasons AS text[])) AS noticed(id, reason)
JOIN aggregate_record AS record ON record.id = noticed.id AND NOT record.deleted
ON CONFLICT (record_id) DO UPDATE SET reason = excluded.reason, looked_at = NULL
"""
_READABLE: Final = "DELETE FROM aggregate_unreadable WHERE record_id = ANY(:ids)"


def notice_unreadable(session: Session, reasons: Mapping[int, str]) -> None:
    """Note records, by their ids, whose files could not be read when somebody asked. The caller commits."""
    ids = sorted(reasons)
    session.execute(text(_NOTICE), {"ids": ids, "reasons": [reasons[number] for number in ids]})


@dataclass(frozen=True, kw_only=True)
class Rereader:
    """Looks at files anew, each once a minute at most."""

    session: Session
    store: Path
    """Under which relative base directories lie."""

    def any_due(self) -> bool:
        """Whether there is something to look at."""
        return bool(self.session.execute(text(_DUE), {"most": 1}).first())

    def take(self, gatherer: Gatherer) -> list[Staged]:
        """The records that were looked at, to be listed or not by what was found.

        Where a whole base directory is missing, as when a disk is not mounted, its records stay as they are.
        """
        rows = self.session.execute(text(_DUE), {"most": _TOGETHER}).all()
        self.session.execute(text(_LOOKED_AT), {"ids": [row.record_id for row in rows]})
        settled = [row for row in rows if (self.store / row.base_dir).is_dir()]
        readable = [row.record_id for row in settled if self._is_settled(row)]
        self.session.execute(text(_READABLE), {"ids": readable})
        settled.sort(key=_format)
        return [
            staged
            for (repository_id, prefix), group in groupby(settled, key=_format)
            for staged in gatherer.named(
                self.session.get_one(AggregateSource, repository_id), prefix, _identifiers(list(group))
            )
        ]

    def _is_settled(self, row: Row[Any]) -> bool:
        """Whether the record needs no file, or has one that can be read."""
        if row.status != "active":
            return True
        if row.filename is None:
            return False
        try:
            read_stored(self.store / row.base_dir, row.filename, row.harvested_identifier)
        except UnreadableRecordError:
            return False
        return True


def _format(row: Row[Any]) -> tuple[int, str]:
    return row.repository_id, row.harvested_prefix


def _identifiers(rows: Sequence[Row[Any]]) -> set[str]:
    return {row.harvested_identifier for row in rows}
