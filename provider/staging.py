"""Brings one archive file's captures into temporary tables, with rows for all the sets that they name.

Captures go in by COPY as they are read; all that follows is set-based SQL, whatever their number. The
temporary tables belong to one connection and outlive a rollback of the publishing transaction.
"""

from collections.abc import Iterable
from typing import Final

import psycopg
from sqlalchemy import text
from sqlalchemy.orm import Session

from provider.captures import Capture
from provider.identifiers import capture_key
from provider.sets import domain_set_specs, mimetype_set_specs

_TABLES: Final = (
    """
    CREATE TEMP TABLE IF NOT EXISTS staged (
        key uuid, "offset" bigint, length bigint, url text COLLATE "C", archived timestamptz, host text,
        mimetype text, http_status smallint, digest text, record_type text
    )
    """,
    """
    CREATE TEMP TABLE IF NOT EXISTS candidate (
        key uuid, "offset" bigint, length bigint, url text COLLATE "C", archived timestamptz, tld_id int,
        domain_id int, host_id int, mime_major_id int, mime_id int, http_status smallint, digest text,
        record_type text
    )
    """,
    "CREATE TEMP TABLE IF NOT EXISTS fresh (key uuid, id bigint, host_id int, mime_id int)",
    """
    CREATE TEMP TABLE IF NOT EXISTS known (
        key uuid, id bigint, arc_id int, new_offset bigint, old_offset bigint, state text
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
    "TRUNCATE staged, candidate, fresh, known",
)

_COPY: Final = """
COPY staged (key, "offset", length, url, archived, host, mimetype, http_status, digest, record_type)
FROM STDIN
"""
_COPY_TYPES: Final = (
    "uuid", "int8", "int8", "text", "timestamptz", "text", "text", "int2", "text", "text"
)  # fmt: skip

# One statement for each level, so that parents are there; in order, so that loaders do not block each other.
_DOMAINS: Final = """
INSERT INTO domain (parent_id, set_spec, name, level)
SELECT parent.id, node.set_spec, node.name, :level
FROM unnest(CAST(:parents AS text[]), CAST(:set_specs AS text[]), CAST(:names AS text[]))
    AS node (parent, set_spec, name)
LEFT JOIN domain AS parent ON parent.set_spec = node.parent
WHERE NOT EXISTS (SELECT FROM domain WHERE domain.set_spec = node.set_spec)
ORDER BY node.set_spec
ON CONFLICT (set_spec) DO NOTHING
"""
_MIMETYPES: Final = """
INSERT INTO mimetype (parent_id, set_spec, name)
SELECT parent.id, node.set_spec, node.name
FROM unnest(CAST(:parents AS text[]), CAST(:set_specs AS text[]), CAST(:names AS text[]))
    AS node (parent, set_spec, name)
LEFT JOIN mimetype AS parent ON parent.set_spec = node.parent
WHERE NOT EXISTS (SELECT FROM mimetype WHERE mimetype.set_spec = node.set_spec)
ORDER BY node.set_spec
ON CONFLICT (set_spec) DO NOTHING
"""

# The first capture with a key in a file is the document; others with that key are its duplicates.
_CANDIDATES: Final = """
INSERT INTO candidate
WITH host AS MATERIALIZED (
    SELECT named.host, tld.id AS tld_id, registered.id AS domain_id, own.id AS host_id
    FROM (SELECT DISTINCT host FROM staged) AS named
    JOIN domain AS own ON own.set_spec = named.host
    LEFT JOIN domain AS tld ON tld.set_spec = array_to_string((string_to_array(named.host, ':'))[1:2], ':')
    LEFT JOIN domain AS registered
        ON registered.level = 2
        AND registered.set_spec = array_to_string((string_to_array(named.host, ':'))[1:3], ':')
),
kind AS MATERIALIZED (
    SELECT named.mimetype, own.id AS mime_id, coalesce(own.parent_id, own.id) AS mime_major_id
    FROM (SELECT DISTINCT mimetype FROM staged) AS named
    JOIN mimetype AS own ON own.set_spec = named.mimetype
)
SELECT DISTINCT ON (staged.key)
    staged.key, staged."offset", staged.length, staged.url, staged.archived, host.tld_id, host.domain_id,
    host.host_id, kind.mime_major_id, kind.mime_id, staged.http_status, staged.digest, staged.record_type
FROM staged
JOIN host USING (host)
JOIN kind USING (mimetype)
ORDER BY staged.key, staged."offset"
"""


def stage(session: Session, captures: Iterable[Capture]) -> None:
    """Fill the temporary tables `staged` and `candidate` of this session's connection, and the sets' tables.

    `candidate` has one row for each key, with the sets' ids; `fresh` and `known` are left empty. Commits by
    itself: the new sets are there for all, with no documents yet. The session must be bound to one
    connection.
    """
    for statement in _TABLES:
        session.execute(text(statement))
    hosts: set[tuple[tuple[str, str, int], ...]] = set()
    mimetypes: set[tuple[tuple[str, str], ...]] = set()
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)  # noqa: S101 tells the type checker which driver it is
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.set_types(_COPY_TYPES)
        for capture in captures:
            host = domain_set_specs(capture.host)
            mimetype = mimetype_set_specs(capture.mime_type)
            hosts.add(host)
            mimetypes.add(mimetype)
            copy.write_row(
                (
                    capture_key(capture.url, capture.archived),
                    capture.offset,
                    capture.length,
                    capture.url,
                    capture.archived,
                    host[-1][0],
                    mimetype[-1][0],
                    capture.http_status,
                    capture.digest,
                    capture.record_type,
                )
            )
    session.commit()
    _add_domains(session, hosts)
    _add_mimetypes(session, mimetypes)
    session.execute(text(_CANDIDATES))
    session.execute(text("ANALYZE candidate"))
    session.commit()


def _add_domains(session: Session, hosts: Iterable[tuple[tuple[str, str, int], ...]]) -> None:
    levels: dict[int, dict[str, str]] = {}
    for host in hosts:
        for set_spec, name, level in host:
            levels.setdefault(level, {})[set_spec] = name
    for level, nodes in sorted(levels.items()):
        session.execute(text(_DOMAINS), {**_nodes(nodes), "level": level})


def _add_mimetypes(session: Session, mimetypes: Iterable[tuple[tuple[str, str], ...]]) -> None:
    majors: dict[str, str] = {}
    types: dict[str, str] = {}
    for (major, name), *full in mimetypes:
        majors[major] = name
        types.update(full)
    for nodes in (majors, types):
        session.execute(text(_MIMETYPES), _nodes(nodes))


def _nodes(nodes: dict[str, str]) -> dict[str, list[str]]:
    return {
        "parents": [set_spec.rpartition(":")[0] for set_spec in nodes],
        "set_specs": list(nodes),
        "names": list(nodes.values()),
    }
