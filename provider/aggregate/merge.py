"""Merges staged records into the aggregate: which are new or changed, which are listed, and in which sets.

Runs inside a publishing transaction (`provider.holdings.publication`), which provides the datestamp. The
publisher holds the lock of `provider.aggregate.update`, so no other process changes these tables.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from provider.models import UNLISTED


class Staged(NamedTuple):
    """A harvested record as it will be in the aggregate; a tuple for speed, because there are many."""

    repository_id: int
    format_id: int
    identifier: str
    identifier_key: UUID
    harvested_identifier: str
    harvested_key: UUID
    filename: str | None
    digest: bytes | None
    harvested_datestamp: str
    harvest_time: datetime
    deleted: bool
    altered: bool
    set_ids: list[int]


_TABLES: Final = (
    """
    CREATE TEMP TABLE staged (
        repository_id integer, format_id smallint, identifier text, identifier_key uuid,
        harvested_identifier text, harvested_key uuid, filename text, digest bytea, harvested_datestamp text,
        harvest_time timestamptz, deleted boolean, altered boolean, set_ids integer[]
    ) ON COMMIT DROP
    """,
    "CREATE TEMP TABLE touched (id bigint PRIMARY KEY, was_listed boolean) ON COMMIT DROP",
    "CREATE TEMP TABLE step (set_id integer, format_id smallint, records integer) ON COMMIT DROP",
)
_STAGE: Final = """
INSERT INTO staged
SELECT repository_id, format_id, identifier, identifier_key, harvested_identifier, harvested_key, filename,
    decode(digest, 'hex'), harvested_datestamp, harvest_time, deleted, altered, set_ids
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS row(
    repository_id integer, format_id smallint, identifier text, identifier_key uuid,
    harvested_identifier text, harvested_key uuid, filename text, digest text, harvested_datestamp text,
    harvest_time timestamptz, deleted boolean, altered boolean, set_ids integer[]
)
"""
# A deleted record stays in its sets, because harvesters of each of them have to learn of the deletion.
_KEEP_SETS: Final = """
UPDATE staged SET set_ids = ARRAY(
    SELECT DISTINCT one FROM unnest(staged.set_ids || known.set_ids) AS one ORDER BY one
)
FROM aggregate_record AS known
WHERE staged.deleted AND known.identifier_key = staged.identifier_key
    AND known.format_id = staged.format_id AND known.repository_id = staged.repository_id
"""
# A new record has no datestamp yet (it is not listed); a changed one still has its old datestamp.
_WRITE: Final = """
WITH changed AS (
    SELECT staged.*
    FROM staged LEFT JOIN aggregate_record AS known USING (identifier_key, format_id, repository_id)
    WHERE known.id IS NULL
        OR (staged.digest, staged.deleted, staged.altered, staged.set_ids)
            IS DISTINCT FROM (known.digest, known.deleted, known.altered, known.set_ids)
), written AS (
    INSERT INTO aggregate_record AS known (
        repository_id, format_id, identifier, identifier_key, harvested_identifier, harvested_key, filename,
        digest, datestamp, harvested_datestamp, harvest_time, deleted, altered, set_ids
    )
    SELECT repository_id, format_id, identifier, identifier_key, harvested_identifier, harvested_key,
        filename, digest, :unlisted, harvested_datestamp, harvest_time, deleted, altered, set_ids
    FROM changed ORDER BY identifier_key
    ON CONFLICT (identifier_key, format_id, repository_id) DO UPDATE
    SET filename = excluded.filename, digest = excluded.digest,
        harvested_datestamp = excluded.harvested_datestamp, harvest_time = excluded.harvest_time,
        deleted = excluded.deleted, altered = excluded.altered, set_ids = excluded.set_ids
    RETURNING known.id, known.datestamp
)
INSERT INTO touched SELECT id, datestamp < :unlisted FROM written
"""
# File locations are not public, so a record that was only moved keeps its datestamp.
_MOVE_FILES: Final = """
UPDATE aggregate_record AS known SET filename = staged.filename
FROM staged
WHERE known.identifier_key = staged.identifier_key AND known.format_id = staged.format_id
    AND known.repository_id = staged.repository_id AND known.filename IS DISTINCT FROM staged.filename
"""
# A changed record may be readable now; if it is not, the next request marks it again.
_FORGET_UNREADABLE: Final = """
DELETE FROM aggregate_unreadable AS unreadable USING touched WHERE touched.id = unreadable.record_id
"""
# Of the sources with the same identifier one is listed: a live record before a deleted one, then the one
# already listed, then the source added first.
_CHOOSE: Final = """
CREATE TEMP TABLE verdict ON COMMIT DROP AS
SELECT id, old, CASE
    WHEN NOT first OR unreadable THEN CAST(:unlisted AS timestamptz)
    WHEN touched OR old = :unlisted THEN CAST(:datestamp AS timestamptz)
    ELSE old
END AS new
FROM (
    SELECT record.id, record.datestamp AS old, unreadable.record_id IS NOT NULL AS unreadable,
        touched.id IS NOT NULL AS touched,
        row_number() OVER (
            PARTITION BY record.identifier_key, record.format_id
            ORDER BY unreadable.record_id IS NOT NULL, record.deleted, record.datestamp = :unlisted,
                record.repository_id
        ) = 1 AS first
    FROM (SELECT DISTINCT identifier_key, format_id FROM staged) AS named
    JOIN aggregate_record AS record USING (identifier_key, format_id)
    LEFT JOIN aggregate_unreadable AS unreadable ON unreadable.record_id = record.id
    LEFT JOIN touched ON touched.id = record.id
) AS ranked
"""
_DATE: Final = (
    """
    INSERT INTO touched SELECT id, old < :unlisted FROM verdict WHERE new <> old ON CONFLICT DO NOTHING
    """,
    """
    UPDATE aggregate_record AS record SET datestamp = verdict.new
    FROM verdict WHERE verdict.id = record.id AND verdict.new <> record.datestamp
    """,
)
_FILE: Final = (
    """
    WITH left_sets AS (
        DELETE FROM aggregate_membership AS membership USING touched WHERE touched.id = membership.record_id
        RETURNING membership.set_id, membership.format_id
    )
    INSERT INTO step SELECT set_id, format_id, -count(*) FROM left_sets GROUP BY set_id, format_id
    """,
    """
    WITH entered AS (
        INSERT INTO aggregate_membership (record_id, set_id, format_id, datestamp)
        SELECT DISTINCT record.id, upper_set, record.format_id, record.datestamp
        FROM touched JOIN aggregate_record AS record USING (id)
        JOIN aggregate_set AS named ON named.id = ANY(record.set_ids)
        CROSS JOIN unnest(named.lineage) AS upper_set
        WHERE record.datestamp < :unlisted
        RETURNING set_id, format_id
    )
    INSERT INTO step SELECT set_id, format_id, count(*) FROM entered GROUP BY set_id, format_id
    """,
    """
    INSERT INTO step
    SELECT own.id, record.format_id,
        sum(CAST(record.datestamp < :unlisted AS integer) - CAST(touched.was_listed AS integer))
    FROM touched JOIN aggregate_record AS record USING (id)
    JOIN aggregate_source AS source USING (repository_id)
    JOIN aggregate_set AS own ON own.set_spec = source.name
    GROUP BY own.id, record.format_id
    """,
    """
    INSERT INTO aggregate_count AS known (set_id, format_id, records)
    SELECT set_id, format_id, sum(records) FROM step GROUP BY set_id, format_id HAVING sum(records) <> 0
    ORDER BY set_id, format_id
    ON CONFLICT (set_id, format_id) DO UPDATE SET records = known.records + excluded.records
    """,
)
_ANALYZE_TOUCHED: Final = "ANALYZE touched"
# Of records that another source's precedence hides, harvesters see no change.
_CHANGED: Final = """
SELECT count(DISTINCT (record.identifier_key, record.format_id))
FROM touched JOIN aggregate_record AS record USING (id)
WHERE touched.was_listed OR record.datestamp < :unlisted
"""


def merge(session: Session, rows: Iterable[Staged], datestamp: datetime) -> int:
    """Merge the rows into the aggregate and return the number of listed records that changed.

    No two rows may have the same source, format and identifier.
    """
    staged = list(rows)
    if not staged:
        return 0
    for statement in _TABLES:
        session.execute(text(statement))
    session.execute(text(_STAGE), {"rows": json.dumps([_plain(row) for row in staged])})
    session.execute(text("ANALYZE staged"))
    values = {"datestamp": datestamp, "unlisted": UNLISTED}
    session.execute(text(_KEEP_SETS))
    session.execute(text(_WRITE), {"unlisted": UNLISTED})
    for statement in (_ANALYZE_TOUCHED, _MOVE_FILES, _FORGET_UNREADABLE):
        session.execute(text(statement))
    session.execute(text(_CHOOSE), values)
    for statement in (*_DATE, _ANALYZE_TOUCHED, *_FILE):
        session.execute(text(statement), {"unlisted": UNLISTED} if ":unlisted" in statement else {})
    return session.scalar(text(_CHANGED), {"unlisted": UNLISTED}) or 0


def _plain(row: Staged) -> dict[str, object]:
    return {
        **row._asdict(),
        "identifier_key": row.identifier_key.hex,
        "harvested_key": row.harvested_key.hex,
        "digest": None if row.digest is None else row.digest.hex(),
        "harvest_time": row.harvest_time.isoformat(),
    }
