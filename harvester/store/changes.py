"""The change feed, `oai_change`: read in an order that misses no change, and pruned."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.store.records import RunKey
from harvester.store.versions import prune_versions
from oai.database import Database
from oai.errors import UsageError

_PRUNING_LOCK = 0x7A_72_70  # "zrp": one process prunes at a time
_ROWS_AT_ONCE = 1000
_PRUNED_AT_ONCE = 10_000
_MOST_PIECES = 50
"""The next run prunes the rest, so that the end of a run is not delayed for long."""

_BEGINNING = -(2**63)
"""Below all transactions: those from before a restore may have negative numbers."""
_PLACE = text("SELECT transaction_id FROM oai_change WHERE change_id = :change_id")
# PostgreSQL 18 would look for the line in each transaction of the feed, by a skip scan of the primary key;
# block ranges are not an index scan.
_INDEX_SCANS = text(
    """
    SELECT set_config(name, :value, true)
    FROM unnest(ARRAY['enable_indexscan', 'enable_indexonlyscan']) AS name
    """
)
# Before rows of transactions above the oldest running one, further rows may still appear.
_COLUMNS = """
    SELECT change_id, changed, repository_id, identifier, metadata_prefix, change, filename, datestamp
    FROM oai_change
    WHERE transaction_id < CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)
      AND (CAST(:repository_id AS integer) IS NULL OR repository_id = :repository_id)
    """
_READ = text(
    f"""
    {_COLUMNS} AND (transaction_id, change_id) > (:transaction_id, :since)
    ORDER BY transaction_id, change_id
    """
)
# The transactions of a run follow each other, so the numbers of its lines are in the order of the feed.
_READ_RUN = text(
    f"""
    {_COLUMNS} AND run_started = :run_started AND harvest_id = :harvest_id AND change_id > :since
    ORDER BY run_started, change_id
    """
)
# In a database copied by other means than `zatva database restore`, which renumbers all rows, transaction
# numbers may exceed ours for a long time. Those rows, and all with lower numbers of their own, are older than
# others and keep their order.
_ADOPT = text(
    """
    UPDATE oai_change SET transaction_id = transaction_id - newest - 1
    FROM (
        SELECT max(transaction_id) AS newest, max(change_id) AS last FROM oai_change
        WHERE transaction_id > CAST(CAST(pg_current_xact_id() AS text) AS bigint)
    ) AS copied
    WHERE change_id <= last
    """
)
# The newest of the old lines stays: a reader who has read everything since continues after it.
_OLD = """
    SELECT transaction_id, change_id FROM (
        SELECT transaction_id, change_id, changed FROM oai_change ORDER BY transaction_id, change_id
        LIMIT :most
    ) AS oldest
    WHERE changed < :before ORDER BY transaction_id DESC, change_id DESC OFFSET :kept
    """
_WANTED = text(
    f"""
    SELECT EXISTS (
        SELECT FROM oai_change
        WHERE transaction_id >= CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)
    ) OR EXISTS ({_OLD}) OR EXISTS (SELECT FROM oai_record_version WHERE replaced < :before)
    """  # noqa: S608 constant text
)
_ALONE = text("SELECT pg_try_advisory_xact_lock(:key)")
_PRUNE = text(f"DELETE FROM oai_change WHERE (transaction_id, change_id) IN ({_OLD})")  # noqa: S608 constant text


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeLine:
    """A line of the feed."""

    change_id: int
    changed: datetime
    repository_id: int
    identifier: str
    metadata_prefix: str
    change: str
    filename: str | None
    datestamp: str


def read_changes(
    session: Session, *, since: int = 0, repository_id: int | None = None, run: RunKey | None = None
) -> Iterator[ChangeLine]:
    """Return the changes after the line `since` (0: from the beginning), in the order of the feed.

    With `run`, they are those of the run, and `since` is a line of it. Lines of transactions that began after
    the oldest running one are left for the next call, so that a reader who continues after the last line it
    got never misses one. Raises UsageError if the line `since` is no longer kept, or was lost by a restore:
    the lines after it may have been removed, too.
    """
    values: dict[str, Any] = {
        "transaction_id": _transaction(session, since), "since": since, "repository_id": repository_id,
    }  # fmt: skip
    if run is not None:
        values |= run.parameters
    options = {"yield_per": _ROWS_AT_ONCE}
    rows = session.execute(_READ if run is None else _READ_RUN, values, execution_options=options)
    return (ChangeLine(**row) for row in rows.mappings())


def prune_changes(database: Database, *, keep_days: float, now: datetime | None = None) -> int:
    """Delete changes, and replaced versions of records, older than so many days; return how many changes.

    The newest of them stays, unless no days are kept. Commits by itself, in small pieces.
    """
    before = (now or datetime.now(UTC)) - timedelta(days=keep_days)
    kept = int(keep_days > 0)
    values = {"before": before, "most": _PRUNED_AT_ONCE + kept, "kept": kept}
    pruned = 0
    with database.session() as session:
        if not session.execute(_WANTED, values).scalar_one():
            return 0
        session.execute(_ADOPT)
        session.commit()
        for _ in range(_MOST_PIECES):
            # Tried, not awaited: if another process prunes, this one need not. Each commit releases the
            # lock.
            if not session.execute(_ALONE, {"key": _PRUNING_LOCK}).scalar_one():
                break
            result: Any = session.execute(_PRUNE, values)
            versions = prune_versions(session, before)
            session.commit()
            pruned += result.rowcount
            if max(result.rowcount, versions) < _PRUNED_AT_ONCE:
                break
    return pruned


def _transaction(session: Session, since: int) -> int:
    if since <= 0:
        return _BEGINNING
    session.execute(_INDEX_SCANS, {"value": "off"})
    found = session.execute(_PLACE, {"change_id": since}).scalar()
    session.execute(_INDEX_SCANS, {"value": "on"})
    if found is None:
        raise UsageError(
            "change %(since)s is no longer kept, so later changes may be missing; export all "
            "records again with `zatva store export`, then follow the newest change",
            since=since,
        )
    return int(found)
