"""A repository's rows beside its files, both in the order of their paths, however many there are."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.orm import Session

_ROWS_AT_ONCE = 2000
_ROWS = text(
    """
    SELECT record_id, filename, digest, identifier FROM oai_record
    WHERE repository_id = :repository_id AND filename IS NOT NULL
    ORDER BY filename COLLATE "C"
    """
)
# Names one by one through their index, which PostgreSQL would not use for "this or that".
_ROWS_NOW = text(
    """
    SELECT record_id, filename, digest, identifier FROM oai_record
    WHERE repository_id = :repository_id AND filename IS NOT NULL AND record_id = ANY(CAST(:ids AS bigint[]))
    UNION
    SELECT record.* FROM unnest(CAST(:names AS text[])) AS name
    CROSS JOIN LATERAL (
        SELECT record_id, filename, digest, identifier FROM oai_record
        WHERE repository_id = :repository_id AND filename IS NOT NULL
          AND md5(lower(filename)) = md5(lower(name))
        LIMIT 1
    ) AS record
    """
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRow:
    """What a row says of its record's file."""

    record_id: int
    filename: str
    digest: bytes | None
    identifier: str


Pair = tuple[FileRow | None, bytes | None]
"""A row and the path that it names; either may be alone."""


def file_rows(session: Session, repository_id: int) -> Iterator[FileRow]:
    """The rows that name files, in the order of the names' bytes; the database sorts them, not we."""
    rows = session.execute(
        _ROWS, {"repository_id": repository_id}, execution_options={"yield_per": _ROWS_AT_ONCE}
    )
    return (FileRow(**row) for row in rows.mappings())


def rows_now(
    session: Session, repository_id: int, *, record_ids: Sequence[int], names: Sequence[str]
) -> list[FileRow]:
    """The rows as they are by now, of these records, and of these files whatever case their names have."""
    # Names that are no UTF-8 are none that a row can have.
    writable = [name for name in names if name.isprintable()]
    rows = session.execute(
        _ROWS_NOW, {"repository_id": repository_id, "ids": list(record_ids), "names": writable}
    )
    return [FileRow(**row) for row in rows.mappings()]


def compare(rows: Iterable[FileRow], paths: Iterable[bytes]) -> Iterator[Pair]:
    """Rows and paths, both in order, side by side."""
    rows, paths = iter(rows), iter(paths)
    row, path = next(rows, None), next(paths, None)
    while row is not None or path is not None:
        name = os.fsencode(row.filename) if row is not None else None
        if name == path:
            yield row, path
            row, path = next(rows, None), next(paths, None)
        elif path is None or (name is not None and name < path):
            yield row, None
            row = next(rows, None)
        else:
            yield None, path
            path = next(paths, None)


def readable(path: bytes) -> str:
    """The path for people, whatever bytes it has."""
    return path.decode(errors="backslashreplace")
