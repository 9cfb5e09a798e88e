"""The records of a replay of which the store has a later state: a replay leaves them as they are."""

from dataclasses import replace
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.harvest.request import HarvestRequest
from harvester.harvest.transform import RecordBatch
from harvester.store.records import of_keys
from oai.datestamps import is_later

# When a row was written shows by which run, because a repository has one run at a time. A replay may change
# the rows written before the replayed run, by that run, and by replays of it or of runs that ended before it
# (`origin` is the run that received what a run wrote). If the run was interrupted, other runs may have
# written rows meanwhile. It is not known whether they received a record later, so these rows stay.
_STORED = text(
    """
    WITH replayed AS (
        SELECT history_id, harvest_id, run_started, coalesce(run_started, harvest_start_time) AS began,
               harvest_end_time AS ended
        FROM oai_history WHERE history_id = :replayed
    ), run AS (
        SELECT ours, tstzrange(least(CASE WHEN run.replay_of IS NOT NULL THEN run.run_started
                                          WHEN ours THEN replayed.began
                                          ELSE greatest(run.run_started, run.harvest_start_time) END,
                                     run.harvest_end_time), run.harvest_end_time, '[]') AS times
        FROM oai_history AS run CROSS JOIN replayed
        LEFT JOIN oai_history AS origin ON origin.history_id = coalesce(run.replay_of, run.history_id)
        CROSS JOIN LATERAL (
            SELECT coalesce(
                origin.harvest_end_time <= replayed.began OR origin.history_id = replayed.history_id
                OR origin.harvest_end_time <= replayed.ended AND origin.harvest_id = replayed.harvest_id
                    AND origin.run_started = replayed.run_started, false) AS ours
        ) AS whose
        WHERE run.repository_id = :repository_id AND run.harvest_end_time > replayed.began
            AND coalesce(run.metadata_prefix, :prefix) = :prefix
    ), replaceable AS MATERIALIZED (
        SELECT coalesce(range_agg(times) FILTER (WHERE ours), '{}')
            + tstzmultirange(tstzrange(coalesce(CAST(:began AS timestamptz), 'infinity'), NULL))
            - coalesce(range_agg(times) FILTER (WHERE NOT ours), '{}')
            + tstzmultirange(tstzrange(NULL, (SELECT began FROM replayed), '[]')) AS times
        FROM run
    )
    SELECT encode(uuid_send(identifier_key), 'hex') AS key, datestamp, NOT harvest_time <@ times AS later
    FROM oai_record CROSS JOIN replaceable
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND identifier_key = ANY(CAST(:keys AS uuid[]))
    """
)


def without_superseded(
    session: Session, batch: RecordBatch, replay: HarvestRequest, *, began: datetime | None = None
) -> tuple[RecordBatch, int]:
    """Return the batch without records of which the store has a later state, and their number.

    The state is later if its datestamp is, or if another harvest changed or deleted the record after the
    replayed run received it. `began` is the start of the replay, whose own rows are not later; None if it
    has not begun.
    """
    stored = session.execute(
        _STORED,
        {
            "replayed": replay.replay,
            "began": began,
            "repository_id": replay.repository_id,
            "prefix": replay.metadata_prefix,
            "keys": of_keys([record.key for record in batch.records]),
        },
    )
    known = {row.key: row for row in stored}
    current = [
        record
        for record in batch.records
        if (row := known.get(record.key)) is None
        or not (row.later or is_later(row.datestamp, record.header.datestamp))
    ]
    return replace(batch, records=current), len(batch.records) - len(current)
