"""The rows of harvested records, read and written a page at a time; the caller commits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.vocabulary import Change, DeletionReason, RecordStatus

_NULL = "NULL"


def of_texts(values: Sequence[str | None]) -> str:
    """An array of texts, with None as NULL. PostgreSQL refuses a text with the character NUL."""
    given = [value for value in values if value is not None]
    plain = "".join(given)
    if len(given) == len(values) and '"' not in plain and "\\" not in plain:
        return '{"' + '","'.join(given) + '"}' if given else "{}"
    return "{" + ",".join([_NULL if value is None else _quoted(value) for value in values]) + "}"


def of_keys(values: Iterable[str]) -> str:
    """An array of UUIDs, each given by its hexadecimal digits."""
    return "{" + ",".join(values) + "}"


def of_numbers(values: Iterable[int]) -> str:
    """An array of whole numbers."""
    return "{" + ",".join(map(str, values)) + "}"


def of_bytes(values: Iterable[bytes | None]) -> str:
    """An array of byte strings, with None as NULL."""
    return "{" + ",".join([_NULL if value is None else f'"\\\\x{value.hex()}"' for value in values]) + "}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class KnownRecord(NamedTuple):
    """What the table has of a record that a page brings again; a tuple, for many are made."""

    record_id: int
    filename: str | None
    digest: bytes | None
    status: str
    datestamp: str


class RecordRow(NamedTuple):
    """A record as its row is to be; a tuple, for many are made."""

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
    """None leaves the record in the sets that it is in."""
    reason: DeletionReason | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunKey:
    """Which run of a harvest it is, from its first page to its last, however often it was cut off."""

    harvest_id: int
    run_started: datetime


_KNOWN = text(
    """
    SELECT encode(uuid_send(identifier_key), 'hex'), record_id, filename, digest, status, datestamp
    FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND identifier_key = ANY(CAST(:keys AS uuid[]))
    """
)
# Name by name through the index: left free, PostgreSQL reads the repository's whole table for each page.
_TAKEN = text(
    """
    SELECT name FROM unnest(CAST(:names AS text[])) AS name
    CROSS JOIN LATERAL (
        SELECT FROM oai_record
        WHERE repository_id = :repository_id AND filename IS NOT NULL AND md5(lower(filename)) = md5(name)
        LIMIT 1
    ) AS record
    """
)
_INSERT = """
    WITH page AS MATERIALIZED (
        SELECT row.* FROM unnest(CAST(:ids AS bigint[]), CAST(:keys AS uuid[]), CAST(:identifiers AS text[]),
                                 CAST(:filenames AS text[]), CAST(:datestamps AS text[]),
                                 CAST(:statuses AS text[]), CAST(:changes AS text[]),
                                 CAST(:digests AS bytea[]), CAST(:reasons AS text[]))
            AS row(record_id, identifier_key, identifier, filename, datestamp, status, change, digest, reason)
    ), told AS (
        INSERT INTO oai_change (transaction_id, repository_id, harvest_id, run_started, identifier,
                                metadata_prefix, change, filename, datestamp)
        SELECT (SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)), :repository_id, :harvest_id,
               :run_started, identifier, :prefix, change, filename, datestamp
        FROM page WHERE CAST(:tell AS boolean)
    )
    INSERT INTO oai_record AS known (record_id, repository_id, metadata_prefix, identifier_key, identifier,
                                     filename, datestamp, status, update_flag, digest, deletion_reason,
                                     harvest_time)
    SELECT record_id, :repository_id, :prefix, identifier_key, identifier, filename, datestamp, status,
           change, digest, reason, :now
    FROM page
    """
_INSERT_NEW = text(_INSERT)
"""For a page of records that have no rows yet: to look for each row first would take a tenth longer."""
_WRITE = text(
    _INSERT
    + """
    ON CONFLICT (repository_id, metadata_prefix, identifier_key) DO UPDATE
    SET filename = excluded.filename, datestamp = excluded.datestamp, status = excluded.status,
        update_flag = excluded.update_flag, digest = excluded.digest,
        deletion_reason = excluded.deletion_reason, harvest_time = excluded.harvest_time
    """
)
# So the sets can be written without asking for the new rows' ids one by one. The sequence is looked up once:
# for each row it would cost as much as the row's sets.
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
# If it knows the length of an array, PostgreSQL takes each number for a part of a table without statistics,
# and reads all of it. It does not know it of one that comes from a query.
_FORGET_SETS = text(
    """
    DELETE FROM oai_set_mapping
    WHERE record_id = ANY(ARRAY(SELECT unnest(CAST(:ids AS bigint[]))))
    """
)
_WRITE_SETS = text(
    """
    INSERT INTO oai_set_mapping (record_id, set_spec)
    SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:set_specs AS text[]))
    """
)


_TEXTS = {
    "identifiers": "identifier",
    "filenames": "filename",
    "datestamps": "datestamp",
    "statuses": "status",
    "changes": "change",
    "reasons": "reason",
}
"""Parameters of the statement above that are arrays of texts, with the rows' fields."""


def known_records(
    session: Session, *, repository_id: int, metadata_prefix: str, keys: Sequence[str]
) -> dict[str, KnownRecord]:
    """The rows of those records that the table has already, by identifier key."""
    rows = session.execute(
        _KNOWN, {"repository_id": repository_id, "prefix": metadata_prefix, "keys": of_keys(keys)}
    )
    return {row[0]: KnownRecord._make(row[1:]) for row in rows.all()}


def taken_names(session: Session, *, repository_id: int, names: Sequence[str]) -> set[str]:
    """Those of the names (in lower case) that some record's file of the repository has."""
    rows = session.execute(_TAKEN, {"repository_id": repository_id, "names": of_texts(names)})
    return set(rows.scalars())


def write_records(
    session: Session,
    rows: Sequence[RecordRow],
    *,
    repository_id: int,
    metadata_prefix: str,
    now: datetime,
    told_by: RunKey | None,
) -> list[int]:
    """Insert or update the rows, with their sets, and give their ids. No two rows may have the same key.

    The change feed is told of the rows as the doing of the run `told_by`; without one it is not told.
    """
    if not rows:
        return []
    ids = _ids(session, rows)
    all_new = all(row.record_id is None for row in rows)
    session.execute(
        _INSERT_NEW if all_new else _WRITE,
        {
            **_columns(rows),
            **_teller(told_by, now),
            "ids": of_numbers(ids),
            "repository_id": repository_id,
            "prefix": metadata_prefix,
            "now": now,
        },
    )
    _write_sets(session, rows, ids)
    return ids


def _ids(session: Session, rows: Sequence[RecordRow]) -> list[int]:
    """Each row's id, a new one where it has none."""
    number = sum(row.record_id is None for row in rows)
    new = iter(session.scalars(_NEW_IDS, {"number": number}).all() if number else ())
    return [next(new) if row.record_id is None else row.record_id for row in rows]


def _columns(rows: Sequence[RecordRow]) -> dict[str, str]:
    columns = dict(zip(RecordRow._fields, zip(*rows, strict=True), strict=True))
    return {
        "keys": of_keys(columns["key"]),
        "digests": of_bytes(columns["digest"]),
        **{parameter: of_texts(columns[name]) for parameter, name in _TEXTS.items()},
    }


def _teller(run: RunKey | None, now: datetime) -> dict[str, object]:
    """Whose doing the change feed is told that it is; nobody's, and it is not told."""
    return {
        "tell": run is not None,
        "harvest_id": run.harvest_id if run else 0,
        "run_started": run.run_started if run else now,
    }


def _write_sets(session: Session, rows: Sequence[RecordRow], ids: Sequence[int]) -> None:
    again = [row.record_id for row in rows if row.record_id is not None and row.set_specs is not None]
    if again:
        session.execute(_FORGET_SETS, {"ids": of_numbers(again)})
    members: list[int] = []
    set_specs: list[str] = []
    for record_id, row in zip(ids, rows, strict=True):
        specs = dict.fromkeys(row.set_specs or ())
        members += [record_id] * len(specs)
        set_specs += specs
    if members:
        session.execute(_WRITE_SETS, {"ids": of_numbers(members), "set_specs": of_texts(set_specs)})


def mark_unchanged(session: Session, record_ids: Sequence[int], *, run_started: datetime) -> None:
    """Flag records that came again as they were, unless this run itself brought them."""
    if record_ids:
        session.execute(_UNCHANGED, {"ids": of_numbers(record_ids), "run_started": run_started})
