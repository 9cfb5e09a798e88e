"""How many records of a repository are stored, beside how many it offered at its last complete list."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.harvest.verdict import PROPER
from harvester.vocabulary import MADE_UP, RecordStatus, RunStatus, Verdict

MOST_COUNTED: Final = 100_000
"""Records of a repository up to which they are counted at each request."""
_SOME: Final = text(
    # From the index alone, in its order: of a larger repository, each row would be on a page of its own.
    """
    SELECT count(*) FROM (SELECT FROM oai_record WHERE repository_id = :repository_id
                          ORDER BY metadata_prefix, identifier_key LIMIT :most) AS first
    """
)
_COUNTS: Final = text(
    """
    SELECT metadata_prefix, status, count(*) FROM oai_record WHERE repository_id = :repository_id
    GROUP BY metadata_prefix, status
    """
)
_LISTS: Final = text(
    # The history does not say which runs requested changes only: they list much less than the largest run.
    """
    SELECT DISTINCT ON (run.metadata_prefix)
           run.metadata_prefix, run.history_id, run.harvest_end_time AS ended, run.listed,
           run.invalid_count AS rejected, run.filtered_count AS filtered,
           whole.evidence->>'end' AS end,
           CASE WHEN (whole.evidence->>'lists')::integer = 1
                THEN (whole.evidence->>'complete_list_size')::bigint END AS stated
    FROM (SELECT *, max(listed) OVER (PARTITION BY metadata_prefix) AS largest
          FROM (SELECT history_id, metadata_prefix, harvest_end_time, invalid_count, filtered_count,
                       record_count + invalid_count - repeated_count AS listed
                FROM oai_history
                WHERE repository_id = :repository_id AND set_spec IS NULL AND continued_by IS NULL
                  AND replay_of IS NULL AND host IS DISTINCT FROM :made_up
                  AND (verdict = :complete OR status = :with_errors)) AS lists) AS run
    JOIN oai_history AS whole USING (history_id)
    WHERE run.listed > 0 AND 2 * run.listed >= run.largest
    ORDER BY run.metadata_prefix, run.history_id DESC
    """
)


@dataclass(frozen=True, kw_only=True)
class OfferedList:
    """The last run that requested all records of a format, whatever their sets, and reached the end."""

    history_id: int
    ended: datetime
    records: int
    """The size that the repository stated, otherwise the number of different records that it listed."""
    rejected: int
    filtered: int
    """Records that the rules excluded."""


@dataclass(frozen=True, kw_only=True)
class FormatCount:
    """The stored and the offered records in one format."""

    metadata_prefix: str
    active: int | None
    """None if the repository has too many records to count."""
    deleted: int | None
    offered: OfferedList | None
    """None if the history has no such run."""


@dataclass(frozen=True, kw_only=True)
class RepositoryCounts:
    """The counts of a repository's records, by format."""

    formats: Sequence[FormatCount]
    whole: bool
    """Whether the stored records were counted; False if there are more than `MOST_COUNTED`."""


def count_records(session: Session, repository_id: int) -> RepositoryCounts:
    """Return what is stored of a repository beside what it offered; formats in the order of their names."""
    some = {"repository_id": repository_id, "most": MOST_COUNTED + 1}
    whole = session.scalars(_SOME, some).one() <= MOST_COUNTED
    stored: dict[str, dict[str, int]] = defaultdict(dict)
    for prefix, status, count in session.execute(_COUNTS, some) if whole else ():
        stored[prefix][status] = count
    offered = _offered(
        session, repository_id, {prefix: sum(counts.values()) for prefix, counts in stored.items()}
    )
    formats = [
        FormatCount(
            metadata_prefix=prefix,
            active=stored[prefix].get(RecordStatus.ACTIVE, 0) if whole else None,
            deleted=stored[prefix].get(RecordStatus.DELETED, 0) if whole else None,
            offered=offered.get(prefix),
        )
        for prefix in sorted({*stored, *offered})
    ]
    return RepositoryCounts(formats=formats, whole=whole)


def _offered(session: Session, repository_id: int, stored: Mapping[str, int]) -> Mapping[str, OfferedList]:
    """Return the last complete list of each format; `stored` has the stored records as far as known."""
    values = {
        "repository_id": repository_id,
        "made_up": MADE_UP,
        "complete": Verdict.COMPLETE,
        "with_errors": RunStatus.COMPLETED_WITH_ERRORS,
    }
    return {
        row["metadata_prefix"]: OfferedList(
            history_id=row["history_id"],
            ended=row["ended"],
            records=row["listed"] if row["stated"] is None else row["stated"],
            rejected=row["rejected"],
            filtered=row["filtered"],
        )
        for row in session.execute(_LISTS, values).mappings()
        # Not a list of changes, or a sample, after the complete lists were removed from the history.
        if row["end"] in PROPER and 2 * row["listed"] >= stored.get(row["metadata_prefix"], 0)
    }
