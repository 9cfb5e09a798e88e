"""Candidates of an import: the harvested records whose bibliographic row is missing or out of date.

The tables are compared, and no position in the change feed is stored: whatever ended an import, or was
harvested, restored, rebuilt or pruned meanwhile, the next import finds exactly what is missing.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.bibliographic.converters import Candidate
from harvester.store import records as arrays
from harvester.store.paths import identifier_key

# LIMIT makes each lookup use the whole key. As plain joins, tables without statistics (as in a first import)
# were compared row by row: a hundred times slower at 2,000 records.
_COMPARED: Final = """
    LEFT JOIN LATERAL (
        SELECT bibliographic_id, content_digest, file_digest, basis FROM bibliographic_record AS known
        WHERE known.repository_id = harvested.repository_id
          AND known.metadata_prefix = harvested.metadata_prefix
          AND known.identifier_key = harvested.identifier_key LIMIT 1) AS row ON true
    LEFT JOIN LATERAL (
        SELECT kind, file_digest, basis FROM bibliographic_omission AS known
        WHERE known.repository_id = harvested.repository_id
          AND known.metadata_prefix = harvested.metadata_prefix
          AND known.identifier_key = harvested.identifier_key LIMIT 1) AS omission ON true
    CROSS JOIN (SELECT CAST(:bases AS text[]) AS bases) AS present
    WHERE harvested.repository_id = :repository_id AND harvested.metadata_prefix = :prefix
      AND harvested.status = 'active'
      AND (CAST(:anew AS boolean) OR omission.kind = 'unreadable'
           OR NOT COALESCE(row.file_digest = harvested.digest AND row.basis = ANY(bases), false)
          AND NOT COALESCE(omission.file_digest = harvested.digest AND omission.basis = ANY(bases), false))
    """
_PAGE: Final = f"""
    SELECT harvested.identifier_key, harvested.identifier, harvested.filename, harvested.datestamp,
           harvested.digest, row.bibliographic_id, row.content_digest, omission.kind AS omitted
    FROM {{records}} {_COMPARED} AND harvested.identifier_key > :after
    ORDER BY harvested.identifier_key LIMIT :most
    """  # noqa: S608 built from constants
_COUNT: Final = f"SELECT count(*) FROM {{records}} {_COMPARED}"  # noqa: S608 built from constants
_ALL: Final = "oai_record AS harvested"
_GIVEN: Final = "unnest(CAST(:keys AS uuid[])) AS given(key)"
_SOME: Final = f"""
    {_GIVEN} CROSS JOIN LATERAL (
        SELECT * FROM oai_record AS record
        WHERE record.repository_id = :repository_id AND record.metadata_prefix = :prefix
          AND record.identifier_key = given.key LIMIT 1) AS harvested
    """  # noqa: S608 built from constants
_SAMPLE = text(
    """
    SELECT identifier_key, identifier, filename, datestamp, digest, NULL, NULL, NULL FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix AND status = 'active'
      AND identifier_key > :after
    ORDER BY identifier_key LIMIT :most
    """
)
# A filtering set may have omitted most records, so they are searched only if imports since the last one that
# compared all records had errors. LIMIT as above.
_UNREADABLE = text(
    """
    SELECT harvested.* FROM bibliographic_omission AS omission
    CROSS JOIN LATERAL (
        SELECT identifier_key, identifier, filename, datestamp, digest, NULL, NULL, NULL FROM oai_record
        WHERE repository_id = omission.repository_id AND metadata_prefix = omission.metadata_prefix
          AND identifier_key = omission.identifier_key AND status = 'active' LIMIT 1) AS harvested
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND kind = 'unreadable' AND basis = :basis
      AND EXISTS (
          SELECT FROM bibliographic_import
          WHERE repository_id = :repository_id AND state = 'completed with errors' AND import_id >= (
              SELECT max(import_id) FROM bibliographic_import WHERE repository_id = :repository_id AND whole))
    LIMIT :most
    """
)
_NAMED = text(
    """
    SELECT identifier_key, identifier, filename, datestamp, digest, NULL, NULL, NULL FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix AND status = 'active'
      AND identifier_key = ANY(CAST(:keys AS uuid[]))
    """
)
# OFFSET makes each lookup use the whole key: a join would be planned with statistics, which the tables of a
# first import do not have.
_HARVESTED: Final = """
    EXISTS (SELECT FROM oai_record AS harvested
            WHERE harvested.repository_id = row.repository_id
              AND harvested.metadata_prefix = row.metadata_prefix
              AND harvested.identifier_key = row.identifier_key AND harvested.status = 'active' OFFSET 0)
    """
_DEPARTED = text(
    f"""
    SELECT bibliographic_id FROM bibliographic_record AS row
    WHERE repository_id = :repository_id AND (metadata_prefix <> :prefix OR NOT {_HARVESTED})
    """  # noqa: S608 built from constants
)
_DEPARTED_OF_SOME = text(
    f"""
    SELECT row.bibliographic_id FROM {_GIVEN} CROSS JOIN LATERAL (
        SELECT * FROM bibliographic_record AS known
        WHERE known.repository_id = :repository_id AND known.metadata_prefix = :prefix
          AND known.identifier_key = given.key LIMIT 1) AS row
    WHERE NOT {_HARVESTED}
    """  # noqa: S608 built from constants
)
_FORGET = text("DELETE FROM bibliographic_record WHERE bibliographic_id = ANY(CAST(:ids AS bigint[]))")
_FORGET_OMISSIONS = text(
    f"""
    DELETE FROM bibliographic_omission AS row
    WHERE repository_id = :repository_id AND (metadata_prefix <> :prefix OR NOT {_HARVESTED})
    """  # noqa: S608 built from constants
)

_FORGET_OMISSIONS_OF_SOME = text(
    f"""
    DELETE FROM bibliographic_omission AS row
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND identifier_key = ANY(CAST(:keys AS uuid[])) AND NOT {_HARVESTED}
    """  # noqa: S608 built from constants
)

# All transactions below the mark had ended. Above the newest number, it comes from a copied database; below
# the oldest line, lines that it needs may have been removed.
_IS_KEPT: Final = text(
    """
    SELECT :mark <= CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)
       AND :mark >= (SELECT transaction_id FROM oai_change ORDER BY transaction_id, change_id LIMIT 1)
    """
)
_CHANGED: Final = text(
    """
    SELECT DISTINCT identifier FROM oai_change
    WHERE transaction_id >= :mark AND repository_id = :repository_id AND metadata_prefix = :prefix
    LIMIT :most
    """
)
_HAS_CHANGED: Final = text(
    "SELECT EXISTS (SELECT FROM oai_change WHERE transaction_id >= :mark AND repository_id = :repository_id)"
)
_MARK: Final = text("SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)")

FIRST = uuid.UUID(int=0)


@dataclass(frozen=True, kw_only=True)
class ImportScope:
    """The records that an import covers."""

    repository_id: int
    metadata_prefix: str
    bases: Sequence[str]
    """The bases with which a row is up to date."""
    anew: bool = False
    """Whether every record is processed again."""
    keys: Sequence[uuid.UUID] | None = None
    """Only these records; None for all of the repository."""

    @property
    def records(self) -> str:
        """Return where the statements read the records from, in SQL."""
        return _ALL if self.keys is None else _SOME

    def parameters(self) -> dict[str, object]:
        """Return the parameters of the SQL statements."""
        return {
            "repository_id": self.repository_id,
            "prefix": self.metadata_prefix,
            "bases": arrays.of_texts(list(self.bases)),
            "anew": self.anew,
            "keys": None if self.keys is None else arrays.of_texts([key.hex for key in self.keys]),
        }


def feed_mark(session: Session) -> int:
    """Return the place in the change feed before which all changes can be read now."""
    return int(session.execute(_MARK).scalar_one())


def changed_since(
    session: Session, repository_id: int, metadata_prefix: str, mark: int, *, most: int
) -> list[uuid.UUID] | None:
    """Return the keys of the records changed since `feed_mark`; None if more than `most`, or unknown."""
    if not session.execute(_IS_KEPT, {"mark": mark}).scalar_one():
        return None
    values = {"mark": mark, "repository_id": repository_id, "prefix": metadata_prefix, "most": most + 1}
    found = session.scalars(_CHANGED, values).all()
    return None if len(found) > most else [identifier_key(one) for one in found]


def has_changed_since(session: Session, repository_id: int, mark: int) -> bool:
    """Return whether a record of the repository changed, in any format, since a recent `feed_mark`."""
    values = {"mark": mark, "repository_id": repository_id}
    return bool(session.execute(_HAS_CHANGED, values).scalar_one())


def read_candidates(session: Session, scope: ImportScope, *, after: uuid.UUID, most: int) -> list[Candidate]:
    """Return the next records to process, in the order of their keys."""
    statement = text(_PAGE.format(records=scope.records))
    rows = session.execute(statement, {**scope.parameters(), "after": after, "most": most})
    return [Candidate._make(row) for row in rows]


def count_candidates(session: Session, scope: ImportScope) -> int:
    """Return the number of records to process."""
    statement = text(_COUNT.format(records=scope.records))
    return int(session.execute(statement, scope.parameters()).scalar_one())


def read_sample(
    session: Session, repository_id: int, metadata_prefix: str, *, most: int, after: uuid.UUID = FIRST
) -> list[Candidate]:
    """Return some of the stored records, practically at random, because the key is a digest.

    `after` is the key of the last record of the previous call, to read on.
    """
    values = {"repository_id": repository_id, "prefix": metadata_prefix, "most": most, "after": after}
    return [Candidate._make(row) for row in session.execute(_SAMPLE, values)]


def read_unreadable(
    session: Session, repository_id: int, metadata_prefix: str, *, basis: str, most: int
) -> list[Candidate]:
    """Return at most so many records that the imports omitted as unreadable with this basis."""
    values = {"repository_id": repository_id, "prefix": metadata_prefix, "basis": basis, "most": most}
    return [Candidate._make(row) for row in session.execute(_UNREADABLE, values)]


def read_named(
    session: Session, repository_id: int, metadata_prefix: str, keys: Sequence[uuid.UUID]
) -> list[Candidate]:
    """Return the stored records with these keys that are not deleted."""
    values = {
        "repository_id": repository_id,
        "prefix": metadata_prefix,
        "keys": arrays.of_keys(key.hex for key in keys),
    }
    return [Candidate._make(row) for row in session.execute(_NAMED, values)]


def departed(session: Session, scope: ImportScope, *, most: int) -> Iterator[Sequence[int]]:
    """Yield ids of rows whose records were deleted or whose format is no longer imported, `most` at a time.

    The query runs once, and its result is unaffected by what other sessions delete or commit meanwhile.
    """
    statement = _DEPARTED if scope.keys is None else _DEPARTED_OF_SOME
    found = session.execute(statement, scope.parameters(), execution_options={"yield_per": most})
    yield from found.scalars().partitions(most)


def forget(session: Session, numbers: Sequence[int]) -> None:
    """Delete the rows with these ids."""
    session.execute(_FORGET, {"ids": arrays.of_numbers(numbers)})


def forget_omissions(session: Session, scope: ImportScope) -> None:
    """Delete the omissions of records that were deleted or whose format is no longer imported."""
    statement = _FORGET_OMISSIONS if scope.keys is None else _FORGET_OMISSIONS_OF_SOME
    session.execute(statement, scope.parameters())
