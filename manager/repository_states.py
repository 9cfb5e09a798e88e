"""What lists of repositories show beside their names: last runs, next run, formats, organisation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from manager.models import IN_HAND, RecurringState

RUNS: Final = 20
"""Last runs of each repository, the newest first."""
_STATES: Final = text(
    """
    SELECT wanted.number, runs.found,
           (SELECT min(harvest_start_time) FROM oai_job
            WHERE repository_id = wanted.number AND status IN (0, 2)) AS next_due,
           EXISTS (SELECT FROM oai_job
                   WHERE repository_id = wanted.number AND status = ANY(:in_hand)) AS running,
           coalesce((SELECT bool_and(state = :paused) FROM oai_recurring_job
                     WHERE repository_id = wanted.number AND state <> :done), false) AS paused,
           ARRAY(SELECT DISTINCT metadata_prefix FROM oai_harvest
                 WHERE repository_id = wanted.number ORDER BY 1) AS formats,
           (SELECT name FROM web_organisation JOIN web_repository_owner USING (organisation_id)
            WHERE repository_id = wanted.number) AS organisation
    FROM unnest(CAST(:numbers AS integer[])) AS wanted(number)
    CROSS JOIN LATERAL (
        SELECT coalesce(json_agg(
                   json_build_array(history_id, status, ended, records) ORDER BY history_id DESC
               ), '[]') AS found
        FROM (SELECT history_id, status, harvest_end_time AS ended, record_count AS records FROM oai_history
              WHERE repository_id = wanted.number AND continued_by IS NULL
              ORDER BY history_id DESC LIMIT :runs) AS last
    ) AS runs
    """
)


@dataclass(frozen=True, kw_only=True)
class LastRun:
    """One of a repository's last runs."""

    history_id: int
    status: str
    ended: datetime
    records: int


@dataclass(frozen=True, kw_only=True)
class RepositoryState:
    """A repository's runs and plans."""

    runs: Sequence[LastRun]
    next_due: datetime | None
    running: bool
    """Whether it is being harvested."""
    paused: bool
    """Whether it has schedules that are not over, and all of these are paused."""
    formats: Sequence[str]
    """Formats that have been harvested."""
    organisation: str | None


def repository_states(session: Session, numbers: Sequence[int]) -> dict[int, RepositoryState]:
    """Return the state of each of these repositories, by number."""
    given = {
        "numbers": list(numbers),
        "runs": RUNS,
        "in_hand": list(IN_HAND),
        "paused": RecurringState.PAUSED,
        "done": RecurringState.ONE_OFF,
    }
    rows = session.execute(_STATES, given).mappings()
    return {
        row["number"]: RepositoryState(
            runs=[
                LastRun(
                    history_id=number, status=status, ended=datetime.fromisoformat(ended), records=records
                )
                for number, status, ended, records in row["found"]
            ],
            next_due=row["next_due"],
            running=row["running"],
            paused=row["paused"],
            formats=row["formats"],
            organisation=row["organisation"],
        )
        for row in rows
    }
