"""Fills the archive's tables with generated documents directly in SQL, as after a first load."""

import time
from collections.abc import Callable

from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.database import Database
from provider.indexing.first_load import begin_first_load, finish_first_load

_PIECE = 500_000

# Three top-level domains, 300 registered ones, 1,200 hosts; five types of three kinds; nine collections.
_DOMAINS = (
    """
    INSERT INTO domain (set_spec, name, level)
    SELECT 'domain:' || tld, tld, 1 FROM unnest(ARRAY['cz', 'sk', 'eu']) AS tld
    """,
    """
    INSERT INTO domain (parent_id, set_spec, name, level)
    SELECT id, set_spec || ':' || 'site' || n, 'site' || n || '.' || name, 2
    FROM domain CROSS JOIN generate_series(1, 100) AS n WHERE level = 1
    """,
    """
    INSERT INTO domain (parent_id, set_spec, name, level)
    SELECT id, set_spec || ':' || 'www' || n, 'www' || n || '.' || name, 3
    FROM domain CROSS JOIN generate_series(1, 4) AS n WHERE level = 2
    """,
)
_TYPES = (
    """
    INSERT INTO mimetype (set_spec, name)
    SELECT 'mimetype:' || major, major FROM unnest(ARRAY['text', 'image', 'application']) AS major
    """,
    """
    INSERT INTO mimetype (parent_id, set_spec, name)
    SELECT major.id, major.set_spec || ':' || kind.minor, major.name || '/' || kind.minor
    FROM (VALUES
        ('text', 'html'), ('text', 'css'), ('image', 'jpeg'), ('image', 'png'), ('application', 'pdf')
    ) AS kind (major, minor)
    JOIN mimetype AS major ON major.name = kind.major
    """,
)
_COLLECTIONS = (
    "INSERT INTO collection (set_spec, name) VALUES ('collection', 'Collections')",
    """
    INSERT INTO collection (parent_id, set_spec, name)
    SELECT id, set_spec || ':' || spec, spec FROM collection, unnest(ARRAY['serials', 'topics']) AS spec
    """,
    """
    INSERT INTO collection (parent_id, set_spec, name)
    SELECT id, set_spec || ':' || 'c' || n, 'c' || n
    FROM collection CROSS JOIN generate_series(1, 3) AS n WHERE parent_id IS NOT NULL
    """,
)
_ARCS = """
INSERT INTO arc (path, name, size, modified, documents)
SELECT '/archive/a' || n || '.warc.gz', 'a' || n || '.warc', 1000000000, '2020-01-01Z', 30000
FROM generate_series(0, :documents / 30000) AS n
"""
_LISTS = (
    """
    CREATE TEMP TABLE host_list AS
    SELECT row_number() OVER (ORDER BY host.id) - 1 AS place, host.id AS host_id, site.id AS domain_id,
        site.parent_id AS tld_id, host.name,
        split_part(site.name, '.', 2) || ',' || split_part(site.name, '.', 1) AS key
    FROM domain AS host JOIN domain AS site ON site.id = host.parent_id
    WHERE host.level = 3
    """,
    """
    CREATE TEMP TABLE type_list (place, mime_id, mime_major_id) AS
    SELECT share.place, mimetype.id, mimetype.parent_id
    FROM (VALUES (0, 'text/html'), (1, 'text/html'), (2, 'text/html'), (3, 'text/html'), (4, 'text/html'),
        (5, 'image/jpeg'), (6, 'image/jpeg'), (7, 'image/png'), (8, 'text/css'), (9, 'application/pdf'))
        AS share (place, name)
    JOIN mimetype USING (name)
    """,
    "CREATE TEMP TABLE first_arc AS SELECT min(id) AS id FROM arc",
)
# Two thousand documents share a datestamp, like those of one archive file.
_DOCUMENTS = """
INSERT INTO document (
    key, arc_id, "offset", length, url, archived, datestamp, tld_id, domain_id, host_id, mime_major_id,
    mime_id, http_status, digest, record_type, title, url_key
)
SELECT
    md5(n::text)::uuid, first_arc.id + n / 30000, n % 30000 * 33333, 12345,
    'http://' || host_list.name || '/section/' || n % 97 || '/page-' || n || '.html?version=' || n % 7,
    timestamptz '2007-01-01Z' + n * interval '13 seconds',
    timestamptz '2020-01-01Z' + n / 2000 * interval '61 seconds', host_list.tld_id, host_list.domain_id,
    host_list.host_id, type_list.mime_major_id, type_list.mime_id, 200, 'sha1:' || upper(md5(n::text)),
    'response', CASE WHEN type_list.place < 5 THEN 'The title of page ' || n END,
    host_list.key || ')/section/' || n % 97 || '/page-' || n || '.html?version=' || n % 7
FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS n
CROSS JOIN first_arc
JOIN host_list ON host_list.place = abs(hashint8(n)::bigint) % 1200
JOIN type_list ON type_list.place = abs(hashint8(n + 1000000007)::bigint) % 10
ORDER BY n
"""
# A third of the documents is in one of the six collections below the two.
_MEMBERSHIPS = """
INSERT INTO document_collection (document_id, collection_id, datestamp, direct)
SELECT document.id, family.collection_id, document.datestamp, family.direct
FROM document
JOIN (
    SELECT row_number() OVER (ORDER BY id) - 1 AS n, id, parent_id FROM collection
    WHERE parent_id IN (SELECT id FROM collection WHERE parent_id IS NOT NULL)
) AS leaf ON leaf.n = document.id % 18
JOIN LATERAL (
    SELECT leaf.id AS collection_id, true AS direct
    UNION ALL SELECT leaf.parent_id, false
    UNION ALL SELECT collection.id, false FROM collection WHERE collection.parent_id IS NULL
) AS family ON true
"""
_COUNTS = (
    """
    UPDATE domain SET documents = counted.documents FROM (
        SELECT id, count(*) AS documents
        FROM (
            SELECT unnest(ARRAY[tld_id, domain_id, host_id]) AS id FROM document
        ) AS level GROUP BY id
    ) AS counted WHERE counted.id = domain.id
    """,
    """
    UPDATE mimetype SET documents = counted.documents FROM (
        SELECT id, count(*) AS documents
        FROM (SELECT unnest(ARRAY[mime_major_id, mime_id]) AS id FROM document) AS level GROUP BY id
    ) AS counted WHERE counted.id = mimetype.id
    """,
    """
    UPDATE collection SET documents = counted.documents FROM (
        SELECT collection_id AS id, count(*) AS documents FROM document_collection GROUP BY collection_id
    ) AS counted WHERE counted.id = collection.id
    """,
)


def fill(
    database: Database, documents: int, on_step: Callable[[str], None], *, statistics: bool = True
) -> float:
    """Fill the empty tables and return the seconds that it took; `on_step` receives the progress.

    Without `statistics` the tables have only those that a first load makes itself.
    """
    begun = time.monotonic()
    begin_first_load(database)
    with database.session() as session:
        _execute(session, *_DOMAINS, *_TYPES, *_COLLECTIONS)
        session.execute(text(_ARCS), {"documents": documents})
        _execute(session, *_LISTS)
        for first in range(0, documents, _PIECE):
            last = min(first + _PIECE, documents) - 1
            session.execute(text(_DOCUMENTS), {"first": first, "last": last})
            on_step(f"{last + 1:,} documents written")
        _execute(session, _MEMBERSHIPS, *_COUNTS)
        session.commit()
    finish_first_load(database, lambda name: on_step(f"building {name}"))
    if statistics:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE document"))
            connection.execute(text("VACUUM ANALYZE document_collection"))
    return time.monotonic() - begun


def switch_off_statistics(database: Database) -> None:
    """Disable autovacuum, so that newly written tables have no statistics."""
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ALTER SYSTEM SET autovacuum = off"))
        connection.execute(text("SELECT pg_reload_conf()"))


def _execute(session: Session, *statements: str) -> None:
    for statement in statements:
        session.execute(text(statement))
