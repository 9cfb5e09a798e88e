"""Candidates of an import: the harvested records whose bibliographic row is missing or out of date.

The tables are compared, and no position in the change feed is stored: whatever ended an import, or was
harvested, restored, rebuilt or pruned meanwhile, the next import finds exactly what is missing.
"""

import uuid
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.store import records as arrays


class Candidate(NamedTuple):
    """A harvested record to process, and its present row in the tables; a tuple, because there are many."""

    key: uuid.UUID
    identifier: str
    filename: str | None
    datestamp: str
    digest: bytes | None
    bibliographic_id: int | None
    content_digest: bytes | None
    omitted: str | None

    @property
    def file_digest(self) -> str | None:
        """Return the digest in hexadecimal digits."""
        return None if self.digest is None else self.digest.hex()


# LIMIT makes each lookup use the whole key. As plain joins, tables without statistics (as in a first import)
# were compared row by row: a hundred times slower at 2,000 records.
_COMPARED: Final = """
    FROM oai_record AS harvested
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
_PAGE = text(
    f"""
    SELECT harvested.identifier_key, harvested.identifier, harvested.filename, harvested.datestamp,
           harvested.digest, row.bibliographic_id, row.content_digest, omission.kind AS omitted
    {_COMPARED} AND harvested.identifier_key > :after
    ORDER BY harvested.identifier_key LIMIT :most
    """
)
_COUNT = text(f"SELECT count(*) {_COMPARED}")
_SAMPLE = text(
    """
    SELECT identifier_key, identifier, filename, datestamp, digest, NULL, NULL, NULL FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix AND status = 'active'
    ORDER BY identifier_key LIMIT :most
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
_FORGET = text("DELETE FROM bibliographic_record WHERE bibliographic_id = ANY(CAST(:ids AS bigint[]))")
_FORGET_OMISSIONS = text(
    f"""
    DELETE FROM bibliographic_omission AS row
    WHERE repository_id = :repository_id AND (metadata_prefix <> :prefix OR NOT {_HARVESTED})
    """  # noqa: S608 built from constants
)

FIRST = uuid.UUID(int=0)


class ImportScope(NamedTuple):
    """The records that an import covers."""

    repository_id: int
    metadata_prefix: str
    bases: Sequence[str]
    """The bases with which a row is up to date."""
    anew: bool = False
    """Whether every record is processed again."""

    def parameters(self) -> dict[str, object]:
        """Return the parameters of the SQL statements."""
        return {
            "repository_id": self.repository_id,
            "prefix": self.metadata_prefix,
            "bases": arrays.of_texts(list(self.bases)),
            "anew": self.anew,
        }


def read_candidates(session: Session, scope: ImportScope, *, after: uuid.UUID, most: int) -> list[Candidate]:
    """Return the next records to process, in the order of their keys."""
    rows = session.execute(_PAGE, {**scope.parameters(), "after": after, "most": most})
    return [Candidate._make(row) for row in rows]


def count_candidates(session: Session, scope: ImportScope) -> int:
    """Return the number of records to process."""
    return int(session.execute(_COUNT, scope.parameters()).scalar_one())


def read_sample(session: Session, repository_id: int, metadata_prefix: str, *, most: int) -> list[Candidate]:
    """Return some of the stored records, practically at random, because the key is a digest."""
    values = {"repository_id": repository_id, "prefix": metadata_prefix, "most": most}
    return [Candidate._make(row) for row in session.execute(_SAMPLE, values)]


def departed(session: Session, scope: ImportScope, *, most: int) -> Iterator[Sequence[int]]:
    """Yield ids of rows whose records were deleted or whose format is no longer imported, `most` at a time.

    The query runs once, and its result is unaffected by what other sessions delete or commit meanwhile.
    """
    values = {"repository_id": scope.repository_id, "prefix": scope.metadata_prefix}
    found = session.execute(_DEPARTED, values, execution_options={"yield_per": most})
    yield from found.scalars().partitions(most)


def forget(session: Session, numbers: Sequence[int]) -> None:
    """Delete the rows with these ids."""
    session.execute(_FORGET, {"ids": arrays.of_numbers(numbers)})


def forget_omissions(session: Session, scope: ImportScope) -> None:
    """Delete the omissions of records that were deleted or whose format is no longer imported."""
    values = {"repository_id": scope.repository_id, "prefix": scope.metadata_prefix}
    session.execute(_FORGET_OMISSIONS, values)
