"""Reads and writes the rows of harvested records, one page at a time; the caller commits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.vocabulary import Change, DeletionReason, RecordStatus

_NULL = "NULL"


def of_texts(values: Sequence[str | None]) -> str:
    """Return an array of texts, with None as NULL. PostgreSQL rejects a text with the character NUL."""
    given = [value for value in values if value is not None]
    plain = "".join(given)
    if len(given) == len(values) and '"' not in plain and "\\" not in plain:
        return '{"' + '","'.join(given) + '"}' if given else "{}"
    return "{" + ",".join([_NULL if value is None else _quoted(value) for value in values]) + "}"


def of_keys(values: Iterable[str]) -> str:
    """Return an array of UUIDs, each given by its hexadecimal digits."""
    return "{" + ",".join(values) + "}"


def of_numbers(values: Iterable[int | None]) -> str:
    """Return an array of whole numbers, with None as NULL."""
    return "{" + ",".join([_NULL if value is None else str(value) for value in values]) + "}"


def of_bytes(values: Iterable[bytes | None]) -> str:
    """Return an array of byte strings, with None as NULL."""
    return "{" + ",".join([_NULL if value is None else f'"\\\\x{value.hex()}"' for value in values]) + "}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class KnownRecord(NamedTuple):
    """The row of a record that a page contains again; a tuple, because many are created."""

    record_id: int
    filename: str | None
    digest: bytes | None
    status: str
    datestamp: str
    size: int | None = None
    """Bytes of the file, if known."""


class RecordRow(NamedTuple):
    """The row to write for a record; a tuple, because many are created."""

    record_id: int | None
    """None for a record that has no row yet."""
    key: str
    """The identifier's key, in hexadecimal digits."""
    identifier: str
    filename: str | None
    datestamp: str
    status: RecordStatus
    change: Change
    digest: bytes | None
    set_specs: tuple[str, ...] | None
    """None leaves the record in its present sets."""
    reason: DeletionReason | None = None
    size: int | None = None
    """Bytes of the file; None without a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunKey:
    """Identifies a run of a harvest, from its first page to its last, including its interruptions."""

    harvest_id: int
    run_started: datetime

    @property
    def parameters(self) -> dict[str, object]:
        """Return the parameters of statements about the run."""
        return {"harvest_id": self.harvest_id, "run_started": self.run_started}


_KNOWN = text(
    """
    SELECT encode(uuid_send(identifier_key), 'hex'), record_id, filename, digest, status, datestamp,
           size
    FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND identifier_key = ANY(CAST(:keys AS uuid[]))
    """
)
# Each name through the index: otherwise PostgreSQL scans all of the repository's rows for each page. The
# repository is a subquery so that the plan is for an average one: PostgreSQL believes that one which is newer
# than the statistics has a single row, and scans its rows for each name through the index of identifiers.
_TAKEN = text(
    """
    SELECT name FROM unnest(CAST(:names AS text[])) AS name
    CROSS JOIN LATERAL (
        SELECT FROM oai_record
        WHERE repository_id = (SELECT CAST(:repository_id AS integer)) AND filename IS NOT NULL
            AND md5(lower(filename)) = md5(name)
        LIMIT 1
    ) AS record
    """
)
_INSERT = """
    WITH page AS MATERIALIZED (
        SELECT row.* FROM unnest(CAST(:ids AS bigint[]), CAST(:keys AS uuid[]), CAST(:identifiers AS text[]),
                                 CAST(:filenames AS text[]), CAST(:datestamps AS text[]),
                                 CAST(:statuses AS text[]), CAST(:changes AS text[]),
                                 CAST(:digests AS bytea[]), CAST(:reasons AS text[]),
                                 CAST(:sizes AS bigint[]))
            AS row(record_id, identifier_key, identifier, filename, datestamp, status, change, digest, reason,
                   size)
    ), feed AS (
        INSERT INTO oai_change (transaction_id, repository_id, harvest_id, run_started, identifier,
                                metadata_prefix, change, filename, datestamp)
        SELECT (SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)), :repository_id, :harvest_id,
               :run_started, identifier, :prefix, change, filename, datestamp
        FROM page WHERE CAST(:in_feed AS boolean)
    )
    INSERT INTO oai_record AS known (record_id, repository_id, metadata_prefix, identifier_key, identifier,
                                     filename, datestamp, status, update_flag, digest, deletion_reason,
                                     size, harvest_time)
    SELECT record_id, :repository_id, :prefix, identifier_key, identifier, filename, datestamp, status,
           change, digest, reason, size, :now
    FROM page
    """
_INSERT_NEW = text(_INSERT)
"""For a page of records without rows: looking for each row first would take a tenth longer."""
_WRITE = text(
    _INSERT
    + """
    ON CONFLICT (repository_id, metadata_prefix, identifier_key) DO UPDATE
    SET filename = excluded.filename, datestamp = excluded.datestamp, status = excluded.status,
        update_flag = excluded.update_flag, digest = excluded.digest,
        deletion_reason = excluded.deletion_reason, size = excluded.size,
        harvest_time = excluded.harvest_time
    """
)
# Allocates ids, so that the sets can be written without querying the new rows. The sequence is looked up
# once: for each row it would cost as much as the row's sets.
_NEW_IDS = text(
    """
    WITH ours AS MATERIALIZED (
        SELECT CAST(pg_get_serial_sequence('oai_record', 'record_id') AS regclass) AS sequence
    )
    SELECT nextval(sequence) FROM ours, generate_series(1, :number)
    """
)
_UNCHANGED = text(
    """
    UPDATE oai_record SET update_flag = 'unchanged'
    WHERE record_id = ANY(CAST(:ids AS bigint[])) AND update_flag <> 'unchanged'
      AND harvest_time < :run_started
    """
)
# If PostgreSQL knows the length of an array, it expects each number to match a fraction of a table without
# statistics, and scans the whole table. It does not know the length of an array from a query.
_FORGET_SETS = text(
    """
    DELETE FROM oai_set_mapping
    WHERE record_id = ANY(ARRAY(SELECT unnest(CAST(:again AS bigint[]))))
      AND (record_id, set_spec) NOT IN (
          SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:set_specs AS text[]))
      )
    """
)
_WRITE_SETS = text(
    """
    INSERT INTO oai_set_mapping (record_id, set_spec)
    SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:set_specs AS text[]))
    """
)
_KEEP_SETS = text(f"{_WRITE_SETS.text} ON CONFLICT DO NOTHING")
"""For records that may be in the sets already: most changed records stay in theirs."""


_TEXTS = {
    "identifiers": "identifier",
    "filenames": "filename",
    "datestamps": "datestamp",
    "statuses": "status",
    "changes": "change",
    "reasons": "reason",
}
"""The text-array parameters of the statement above, with the fields of the rows."""


def known_records(
    session: Session, *, repository_id: int, metadata_prefix: str, keys: Sequence[str]
) -> dict[str, KnownRecord]:
    """Return the existing rows of these records, by identifier key."""
    rows = session.execute(
        _KNOWN, {"repository_id": repository_id, "prefix": metadata_prefix, "keys": of_keys(keys)}
    )
    return {row[0]: KnownRecord._make(row[1:]) for row in rows.all()}


def taken_names(session: Session, *, repository_id: int, names: Sequence[str]) -> set[str]:
    """Return those of the names (in lower case) that a record file of the repository has."""
    rows = session.execute(_TAKEN, {"repository_id": repository_id, "names": of_texts(names)})
    return set(rows.scalars())


def write_records(
    session: Session,
    rows: Sequence[RecordRow],
    *,
    repository_id: int,
    metadata_prefix: str,
    now: datetime,
    feed_run: RunKey | None,
) -> list[int]:
    """Insert or update the rows, with their sets; return their ids. No two rows may have the same key.

    The changes are written to the change feed under the run `feed_run`; without a run they are not.
    """
    if not rows:
        return []
    ids = _ids(session, rows)
    all_new = all(row.record_id is None for row in rows)
    session.execute(
        _INSERT_NEW if all_new else _WRITE,
        {
            **_columns(rows),
            **_feed_values(feed_run, now),
            "ids": of_numbers(ids),
            "repository_id": repository_id,
            "prefix": metadata_prefix,
            "now": now,
        },
    )
    _write_sets(session, rows, ids)
    return ids


def _ids(session: Session, rows: Sequence[RecordRow]) -> list[int]:
    """Return each row's id, a new one if it has none."""
    number = sum(row.record_id is None for row in rows)
    new = iter(session.scalars(_NEW_IDS, {"number": number}).all() if number else ())
    return [next(new) if row.record_id is None else row.record_id for row in rows]


def _columns(rows: Sequence[RecordRow]) -> dict[str, str]:
    columns = dict(zip(RecordRow._fields, zip(*rows, strict=True), strict=True))
    return {
        "keys": of_keys(columns["key"]),
        "digests": of_bytes(columns["digest"]),
        "sizes": of_numbers(columns["size"]),
        **{parameter: of_texts(columns[name]) for parameter, name in _TEXTS.items()},
    }


def _feed_values(run: RunKey | None, now: datetime) -> dict[str, object]:
    """Return the parameters for the change feed: the run, or that nothing is written to it."""
    return {
        "in_feed": run is not None,
        "harvest_id": run.harvest_id if run else 0,
        "run_started": run.run_started if run else now,
    }


def _write_sets(session: Session, rows: Sequence[RecordRow], ids: Sequence[int]) -> None:
    members: list[int] = []
    set_specs: list[str] = []
    for record_id, row in zip(ids, rows, strict=True):
        specs = dict.fromkeys(row.set_specs or ())
        members += [record_id] * len(specs)
        set_specs += specs
    values = {"ids": of_numbers(members), "set_specs": of_texts(set_specs)}
    again = [row.record_id for row in rows if row.record_id is not None and row.set_specs is not None]
    if again:
        session.execute(_FORGET_SETS, {**values, "again": of_numbers(again)})
    if members:
        session.execute(_KEEP_SETS if again else _WRITE_SETS, values)


def mark_unchanged(session: Session, record_ids: Sequence[int], *, run_started: datetime) -> None:
    """Flag records that were received again unchanged, unless this run itself stored them."""
    if record_ids:
        session.execute(_UNCHANGED, {"ids": of_numbers(record_ids), "run_started": run_started})
