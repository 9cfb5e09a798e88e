"""Copies captures into a temporary table, with the ids of all their sets.

They are written by binary COPY in batches while they are read; all further steps are set-based SQL,
whatever the number of captures. The temporary tables belong to one connection and survive a rollback of
the publishing transaction.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from sqlalchemy import text
from sqlalchemy.orm import Session

from provider.holdings.identifiers import capture_digest
from provider.holdings.sets import domain_set_specs, mimetype_set_specs
from provider.holdings.urlkeys import WwwRule, stored_key
from provider.reading.captures import Capture

_MOST_KEPT: Final = 100_000
_REGISTERED: Final = 2

_FIND: Final = {
    "domain": "SELECT set_spec, id FROM domain WHERE set_spec = ANY(:set_specs)",
    "mimetype": "SELECT set_spec, id FROM mimetype WHERE set_spec = ANY(:set_specs)",
}
# One statement per level, so that parents exist; in a fixed order, so that loaders cannot deadlock.
_ADD: Final = {
    "domain": """
        INSERT INTO domain (parent_id, set_spec, name, level)
        SELECT parent.id, node.set_spec, node.name, :level
        FROM unnest(CAST(:parents AS text[]), CAST(:set_specs AS text[]), CAST(:names AS text[]))
            AS node (parent, set_spec, name)
        LEFT JOIN domain AS parent ON parent.set_spec = node.parent
        ORDER BY node.set_spec
        ON CONFLICT (set_spec) DO NOTHING
    """,
    "mimetype": """
        INSERT INTO mimetype (parent_id, set_spec, name)
        SELECT parent.id, node.set_spec, node.name
        FROM unnest(CAST(:parents AS text[]), CAST(:set_specs AS text[]), CAST(:names AS text[]))
            AS node (parent, set_spec, name)
        LEFT JOIN mimetype AS parent ON parent.set_spec = node.parent
        ORDER BY node.set_spec
        ON CONFLICT (set_spec) DO NOTHING
    """,
}

if TYPE_CHECKING:
    import psycopg


_Name = TypeVar("_Name", str, str | None)
_Ids = TypeVar("_Ids")


class HostIds(NamedTuple):
    """The ids of a host's sets."""

    tld: int
    domain: int | None
    """Of the registered domain; None for a host of one label."""
    host: int


class MimetypeIds(NamedTuple):
    """The ids of a MIME type's sets."""

    major: int
    full: int


class Dimensions:
    """Provides ids for hosts and MIME types, and creates missing rows."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostIds] = {}
        self.mimetypes: dict[str | None, MimetypeIds] = {}

    def learn(self, session: Session, hosts: AbstractSet[str], mimetypes: AbstractSet[str | None]) -> None:
        """Ensure that `hosts` and `mimetypes` contain all of these.

        Commits new rows, and therefore before they are used: a row without documents does no harm, and
        another loader may need it immediately.
        """
        new_hosts = _unknown(self.hosts, hosts)
        if new_hosts:
            specs = {host: domain_set_specs(host) for host in new_hosts}
            ids = _ids(session, "domain", [node[:2] for nodes in specs.values() for node in nodes])
            self.hosts.update((host, _host_ids(nodes, ids)) for host, nodes in specs.items())
        new_types = _unknown(self.mimetypes, mimetypes)
        if new_types:
            types = {mimetype: mimetype_set_specs(mimetype) for mimetype in new_types}
            ids = _ids(session, "mimetype", [node for nodes in types.values() for node in nodes])
            self.mimetypes.update(
                (mimetype, MimetypeIds(ids[nodes[0][0]], ids[nodes[-1][0]]))
                for mimetype, nodes in types.items()
            )


def _unknown(known: dict[_Name, _Ids], wanted: AbstractSet[_Name]) -> AbstractSet[_Name]:
    """Return the unknown names; clears the cache when it grows too large, because it refills quickly."""
    missing = {name for name in wanted if name not in known}
    if len(known) + len(missing) > _MOST_KEPT:
        known.clear()
        return wanted
    return missing


def _host_ids(nodes: tuple[tuple[str, str, int], ...], ids: dict[str, int]) -> HostIds:
    registered = ids[nodes[_REGISTERED - 1][0]] if len(nodes) >= _REGISTERED else None
    return HostIds(ids[nodes[0][0]], registered, ids[nodes[-1][0]])


def _ids(session: Session, tree: str, nodes: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the ids of these nodes (set spec and name), creating missing ones; commits."""
    names = dict(nodes)
    ids = _found(session, tree, names)
    missing = {set_spec: name for set_spec, name in names.items() if set_spec not in ids}
    if missing:
        levels: dict[int, dict[str, str]] = {}
        for set_spec, name in missing.items():
            levels.setdefault(set_spec.count(":"), {})[set_spec] = name
        for level, added in sorted(levels.items()):
            values = {
                "parents": [set_spec.rpartition(":")[0] for set_spec in added],
                "set_specs": list(added),
                "names": list(added.values()),
            }
            session.execute(text(_ADD[tree]), values | ({"level": level} if tree == "domain" else {}))
        session.commit()
        # Read after the commit: the rows may have been inserted by another loader.
        ids |= _found(session, tree, missing)
    session.commit()
    return ids


def _found(session: Session, tree: str, set_specs: Iterable[str]) -> dict[str, int]:
    rows = session.execute(text(_FIND[tree]), {"set_specs": list(set_specs)})
    return {row.set_spec: row.id for row in rows}


_AT_ONCE: Final = 1000

_SESSION: Final = (
    # Memory for sorting a file's captures.
    "SET work_mem = '64MB'",
)
_TABLES: Final = (
    """
    CREATE TEMP TABLE IF NOT EXISTS candidate (
        key uuid, "offset" bigint, archived timestamptz, length bigint, arc_id int, tld_id int, domain_id int,
        host_id int, mime_major_id int, mime_id int, http_status smallint, url text COLLATE "C", digest text,
        record_type text, title text, url_key text COLLATE "C", packed_length int, recognised_type text,
        declared_type text, language text
    )
    """,
    """
    CREATE TEMP TABLE IF NOT EXISTS fresh (
        key uuid, id bigint, arc_id int, host_id int, mime_major_id int, mime_id int, title_id int,
        month date
    )
    """,
    """
    CREATE TEMP TABLE IF NOT EXISTS known (
        key uuid, id bigint, arc_id int, new_offset bigint, old_offset bigint, differs boolean,
        unlike boolean, alters boolean, reveals boolean, lacks boolean, state text
    )
    """,
    # Bits as text, which is as long as the algorithm's digests; NULL if algorithm or notation are unknown. As
    # `oai.digests` reads them: hexadecimal, or base32 with or without padding.
    """
    CREATE OR REPLACE FUNCTION pg_temp.digest_bits(digest text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
    RETURN (
        SELECT CASE
            WHEN length(digits) = size / 4 AND digits ~ '^[0-9a-f]+$' THEN CAST('x' || digits AS varbit)::text
            WHEN length(digits) = (size + 4) / 5 AND digits ~ '^[a-z2-7]+$' THEN (
                SELECT left(string_agg(
                    (strpos('abcdefghijklmnopqrstuvwxyz234567', digit) - 1)::bit(5)::text, '' ORDER BY place
                ), size)
                FROM unnest(string_to_array(digits, NULL)) WITH ORDINALITY AS one (digit, place)
            )
        END
        FROM (VALUES ('md5', 128), ('sha1', 160), ('sha256', 256), ('sha512', 512)) AS algorithm (name, size)
        CROSS JOIN rtrim(lower(split_part(digest, ':', 2)), '=') AS digits
        WHERE name = replace(lower(split_part(digest, ':', 1)), '-', '')
    )
    """,
    # Whether two digests are equal; NULL if they cannot be compared, as those of different algorithms.
    """
    CREATE OR REPLACE FUNCTION pg_temp.same(one text, other text) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN lower(one) = lower(other) THEN true
        WHEN length(pg_temp.digest_bits(one)) = length(pg_temp.digest_bits(other))
            THEN pg_temp.digest_bits(one) = pg_temp.digest_bits(other)
        WHEN length(one) = length(other) AND split_part(one, ':', 1) = split_part(other, ':', 1) THEN false
    END
    """,
)
_EMPTY: Final = "TRUNCATE candidate, fresh, known"

_COPY: Final = "COPY candidate FROM STDIN (FORMAT binary)"
# PostgreSQL, "COPY", binary format: signature, flags, length of extension; each field after its length.
_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TAIL: Final = b"\xff\xff"
_NULL: Final = b"\xff\xff\xff\xff"
_FIXED: Final = struct.Struct("!h i16s iq iq")
_FIELDS: Final = 20
_INT2: Final = struct.Struct("!ih")
_INT4: Final = struct.Struct("!ii")
_INT8: Final = struct.Struct("!iq")
_LENGTH: Final = struct.Struct("!i")
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_DAY: Final = 86_400_000_000
_SECOND: Final = 1_000_000


def open_staging(session: Session) -> None:
    """Create the temporary tables on this session's connection, to which it must be bound. Commits."""
    for statement in (*_SESSION, *_TABLES):
        session.execute(text(statement))
    session.commit()


def stage(session: Session, captures: Iterable[Capture], dimensions: Dimensions, rule: WwwRule) -> int:
    """Fill the temporary table `candidate` with exactly these captures; return how many there were.

    Their keys follow `rule`, which the publishing transaction has to hold (`hold_rule`). `fresh` and `known`
    are emptied. New sets get their rows. Commits.
    """
    session.execute(text(_EMPTY))
    session.commit()
    return stage_more(session, captures, dimensions, rule)


def stage_more(session: Session, captures: Iterable[Capture], dimensions: Dimensions, rule: WwwRule) -> int:
    """Add captures to those that are staged, as `stage` does; return how many were added. Commits."""
    number = 0
    packer = _Packer(dimensions, rule)
    for batch in _batches(captures):
        dimensions.learn(session, {one.host for one in batch}, {one.set_type for one in batch})
        connection = cast(
            "psycopg.Connection[tuple[object, ...]]", session.connection().connection.driver_connection
        )
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
    """Writes captures as rows of the binary format, in a third of the time that the driver takes."""

    def __init__(self, dimensions: Dimensions, rule: WwwRule) -> None:
        self._dimensions = dimensions
        self._rule = rule

    def row(self, capture: Capture) -> bytes:
        """Return the row of one capture, whose host and MIME type are already in `dimensions`."""
        archived = capture.archived - _EPOCH
        moment = archived.days * _DAY + archived.seconds * _SECOND + archived.microseconds
        tld, domain, host = self._dimensions.hosts[capture.host]
        major, full = self._dimensions.mimetypes[capture.set_type]
        hidden = capture.set_type != capture.mime_type
        declared = mimetype_set_specs(capture.mime_type)[-1][1] if hidden else None
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
                _text(stored_key(capture.url, self._rule)),
                _integer(capture.packed_length),
                _text(capture.recognised_type),
                _text(declared),
                _text(capture.language),
            )
        )


def _integer(value: int | None) -> bytes:
    return _NULL if value is None else _INT4.pack(4, value)


def _text(value: str | None) -> bytes:
    if value is None:
        return _NULL
    raw = value.encode()
    return _LENGTH.pack(len(raw)) + raw
