"""Brings captures into a temporary table, with the ids of all the sets that they name.

They go in by binary COPY, some hundred at a time as they are read; all that follows is set-based SQL,
whatever their number. The temporary tables belong to one connection and outlive a rollback of the publishing
transaction.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import psycopg
from sqlalchemy import text
from sqlalchemy.orm import Session

from provider.holdings.dimensions import Dimensions
from provider.holdings.identifiers import capture_digest
from provider.reading.captures import Capture

_AT_ONCE: Final = 1000

_SESSION: Final = (
    # A file's captures are sorted in memory.
    "SET work_mem = '64MB'",
)
_TABLES: Final = (
    """
    CREATE TEMP TABLE IF NOT EXISTS candidate (
        key uuid, "offset" bigint, archived timestamptz, length bigint, arc_id int, tld_id int, domain_id int,
        host_id int, mime_major_id int, mime_id int, http_status smallint, url text COLLATE "C", digest text,
        record_type text, title text
    )
    """,
    """
    CREATE TEMP TABLE IF NOT EXISTS fresh (
        key uuid, id bigint, arc_id int, host_id int, mime_major_id int, mime_id int, month date
    )
    """,
    """
    CREATE TEMP TABLE IF NOT EXISTS known (
        key uuid, id bigint, arc_id int, new_offset bigint, old_offset bigint, differs boolean, lacks boolean,
        state text
    )
    """,
    # Digests written differently (another algorithm, hexadecimal for base32) cannot be compared.
    """
    CREATE OR REPLACE FUNCTION pg_temp.differ(one text, other text) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN coalesce(
        lower(one) <> lower(other) AND length(one) = length(other)
        AND split_part(one, ':', 1) = split_part(other, ':', 1),
        false
    )
    """,
)
_EMPTY: Final = "TRUNCATE candidate, fresh, known"

_COPY: Final = "COPY candidate FROM STDIN (FORMAT binary)"
# PostgreSQL, "COPY", binary format: signature, flags, length of extension; each field after its length.
_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL: Final = b"\xff\xff"
_NULL: Final = b"\xff\xff\xff\xff"
_FIXED: Final = struct.Struct("!h i16s iq iq")
_FIELDS: Final = 15
_INT2: Final = struct.Struct("!ih")
_INT4: Final = struct.Struct("!ii")
_INT8: Final = struct.Struct("!iq")
_LENGTH: Final = struct.Struct("!i")
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_DAY: Final = 86_400_000_000
_SECOND: Final = 1_000_000


def open_staging(session: Session) -> None:
    """Make the temporary tables on this session's connection, to which it must be bound. Commits."""
    for statement in (*_SESSION, *_TABLES):
        session.execute(text(statement))
    session.commit()


def stage(session: Session, captures: Iterable[Capture], dimensions: Dimensions) -> int:
    """Fill the temporary table `candidate` with these captures, and nothing else; gives how many there were.

    `fresh` and `known` are left empty. Sets that were not there before get their rows. Commits by itself.
    """
    session.execute(text(_EMPTY))
    session.commit()
    number = 0
    packer = _Packer(dimensions)
    for batch in _batches(captures):
        dimensions.learn(session, {one.host for one in batch}, {one.mime_type for one in batch})
        connection = session.connection().connection.driver_connection
        assert isinstance(connection, psycopg.Connection)  # noqa: S101 tells the type checker which driver it is
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.write(b"".join((_HEAD, *map(packer.row, batch), _TAIL)))
        session.commit()
        number += len(batch)
    return number


def _batches(captures: Iterable[Capture]) -> Iterator[Sequence[Capture]]:
    source = iter(captures)
    while batch := list(islice(source, _AT_ONCE)):
        yield batch


class _Packer:
    """Writes captures as rows of the binary format; done by hand it takes a third of the driver's time."""

    def __init__(self, dimensions: Dimensions) -> None:
        self._dimensions = dimensions

    def row(self, capture: Capture) -> bytes:
        """The row of one capture, whose host and MIME type are known."""
        archived = capture.archived - _EPOCH
        moment = archived.days * _DAY + archived.seconds * _SECOND + archived.microseconds
        tld, domain, host = self._dimensions.hosts[capture.host]
        major, full = self._dimensions.mimetypes[capture.mime_type]
        return b"".join(
            (
                _FIXED.pack(
                    _FIELDS, 16, capture_digest(capture.url, capture.archived), 8, capture.offset, 8, moment
                ),
                _NULL if capture.length is None else _INT8.pack(8, capture.length),
                _integer(capture.arc_id),
                _INT4.pack(4, tld),
                _integer(domain),
                _INT4.pack(4, host),
                _INT4.pack(4, major),
                _INT4.pack(4, full),
                _NULL if capture.http_status is None else _INT2.pack(2, capture.http_status),
                _text(capture.url),
                _text(capture.digest),
                _text(capture.record_type),
                _text(capture.title),
            )
        )


def _integer(value: int | None) -> bytes:
    return _NULL if value is None else _INT4.pack(4, value)


def _text(value: str | None) -> bytes:
    if value is None:
        return _NULL
    raw = value.encode()
    return _LENGTH.pack(len(raw)) + raw
