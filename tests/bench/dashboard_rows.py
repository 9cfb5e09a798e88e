"""Fills the dashboard's tables with generated repositories and everything that users create for them."""

from sqlalchemy import text

from oai.database import Database

_RUNS_EACH = 10
_RECORDS_EACH = 100
_PARTNERS_REPOSITORIES = 20

_REPOSITORIES = """
INSERT INTO oai_repository (base_url, base_dir, repository_name, admin_email)
SELECT 'https://r' || n || '.example/oai', 'r' || n, 'Library ' || n, 'admin@r' || n || '.example'
FROM generate_series(1, CAST(:repositories AS int)) AS n
"""
_FORMATS = (
    """
    INSERT INTO oai_metadata_format (metadata_prefix) VALUES ('oai_dc'), ('marc21')
    """,
    """
    INSERT INTO oai_prefix_mapping (repository_id, prefix_id)
    SELECT repository_id, prefix_id FROM oai_repository CROSS JOIN oai_metadata_format
    """,
    """
    INSERT INTO oai_set (repository_id, set_spec, set_name)
    SELECT repository_id, 's' || n, 'Set ' || n FROM oai_repository CROSS JOIN generate_series(1, 5) AS n
    """,
)
_SCHEDULES = (
    """
    INSERT INTO oai_recurring_job (repository_id, frequency, metadata_prefix, state, start_date)
    SELECT repository_id,
        CASE repository_id % 6
            WHEN 0 THEN 'weekly on saturday at 01:00' WHEN 1 THEN 'every 6 hours' WHEN 2 THEN 'daily'
            WHEN 3 THEN '30 2 * * 1-5' WHEN 4 THEN 'daily at 02:30'
            ELSE 'daily at ' || to_char(make_interval(hours => repository_id % 24), 'HH24:MI')
        END,
        'oai_dc', 1, now() - repository_id * interval '47 seconds'
    FROM oai_repository
    """,
    """
    INSERT INTO oai_job (repository_id, recurring_id, harvest_start_time, metadata_prefix)
    SELECT repository_id, id, now() + interval '1 day', 'oai_dc' FROM oai_recurring_job
    """,
)
_RUNS = """
INSERT INTO oai_history (
    repository_id, harvest_start_time, harvest_end_time, status, verdict, metadata_prefix, record_count,
    new_count
)
SELECT repository_id, moment, moment + interval '1 minute',
    CASE WHEN failed THEN 'failed' ELSE 'completed' END,
    CASE WHEN failed THEN 'failed' ELSE 'complete' END, 'oai_dc', 100, 10
FROM generate_series(1, :runs) AS n CROSS JOIN oai_repository
CROSS JOIN LATERAL (SELECT now() - (:runs - n) * interval '1 day' - interval '1 hour' AS moment) AS begun
-- Every second repository is in trouble, so that this list, too, fills a page in the small database.
CROSS JOIN LATERAL (
    SELECT CASE n WHEN :runs THEN repository_id % 2 = 0 ELSE (repository_id + n) % 50 = 0 END
) AS ended (failed)
ORDER BY n
"""
_RECORDS = """
INSERT INTO oai_record (
    repository_id, identifier, identifier_key, filename, datestamp, metadata_prefix, digest
)
SELECT repository_id, identifier, md5(identifier)::uuid, n || '.xml', '2026-01-01', 'oai_dc', sha256('x')
FROM generate_series(1, :records) AS n CROSS JOIN oai_repository
CROSS JOIN LATERAL (SELECT 'oai:r' || repository_id || ':' || n AS identifier) AS named
"""
_OWNERS = (
    """
    INSERT INTO web_organisation (short_name, name)
    SELECT 'library' || n, 'Library ' || n FROM generate_series(1, CAST(:repositories AS int) / 10) AS n
    """,
    """
    INSERT INTO web_api_token (user_id, name, token_hash, scopes)
    SELECT 1, 'program ' || n, sha256(n::text::bytea), ARRAY['read']
    FROM generate_series(1, CAST(:repositories AS int)) AS n
    """,
    """
    INSERT INTO notice_rule (repository_id, channel, target)
    SELECT repository_id, 'mail', 'admin@r' || repository_id || '.example' FROM oai_repository
    """,
    """
    INSERT INTO notice (rule_id, repository_id, occasion, channel, target, facts, state, ended)
    SELECT rule_id, repository_id, 'failing', channel, target, '{}', 'sent', now() FROM notice_rule
    """,
    """
    INSERT INTO web_repository_owner (repository_id, organisation_id)
    SELECT repository_id, 1 FROM oai_repository
    WHERE repository_id % (CAST(:repositories AS int) / CAST(:owned AS int)) = 1
    """,
    """
    INSERT INTO web_audit (user_id, user_name, action, object_kind, object_id)
    SELECT 1, 'bench', CASE n % 3 WHEN 0 THEN 'sign-in' ELSE 'schedules.pause' END, 'schedule', n::text
    FROM generate_series(1, CAST(:repositories AS int) * 10) AS n
    """,
)
_ERRORS = """
INSERT INTO oai_quarantine (
    repository_id, metadata_prefix, fault_key, identifier, reason, url, raw, raw_size, last_run, history_id
)
SELECT repository_id, metadata_prefix, md5(history_id::text)::uuid, 'oai:broken:' || history_id,
    'an attribute without quotes', 'https://r.example/oai', 'x', 1, harvest_start_time, history_id
FROM oai_history WHERE history_id % 3 = 0
"""
_ARCHIVE = (
    """
    INSERT INTO collection (parent_id, set_spec, name)
    SELECT id, concat(set_spec, ':', n), 'Collection ' || n
    FROM collection CROSS JOIN generate_series(1, CAST(:repositories AS int) / 10) AS n
    WHERE name = 'serials'
    """,
    """
    INSERT INTO index_run (host, again)
    SELECT 'worker', false FROM generate_series(1, CAST(:repositories AS int))
    """,
    """
    INSERT INTO index_file (run_id, path, size, state)
    SELECT id, '/archive/' || id || '-' || n || '.warc.gz', 1000000, 'done'
    FROM index_run CROSS JOIN generate_series(1, 3) AS n
    """,
    """
    INSERT INTO web_self_test (base_url, ended, checks)
    SELECT 'https://archive.example/oai', now(), 138 FROM generate_series(1, CAST(:repositories AS int)) AS n
    """,
    """
    INSERT INTO provider_client (
        key, address, user_agent, sender, first_request, last_request, requests, bytes_sent, refused
    )
    SELECT md5(n::text)::uuid, '192.0.2.0/24', 'Harvester/' || n, '', now(), now() - n * interval '1 minute',
        1, 1, 0
    FROM generate_series(1, CAST(:repositories AS int)) AS n
    """,
    """
    INSERT INTO provider_list (
        key, client_key, verb, metadata_prefix, set_spec, started, last_request, requests, passed
    )
    SELECT md5('list' || key::text)::uuid, key, 'ListRecords', 'oai_dc', '', first_request, last_request,
        1, 100
    FROM provider_client
    """,
)


def fill_dashboard(database: Database, repositories: int, *, statistics: bool = True) -> None:
    """Insert `repositories` repositories, each with schedule, job, runs, records, errors and alerts.

    Their ids start at 1. The archive's tables must be filled before (`tests.bench.rows`), and a user and an
    organisation with the id 1 must exist.
    """
    values = {
        "repositories": repositories,
        "runs": _RUNS_EACH,
        "records": _RECORDS_EACH,
        "owned": _PARTNERS_REPOSITORIES,
    }
    statements = (_REPOSITORIES, *_FORMATS, *_SCHEDULES, _RUNS, _RECORDS, _ERRORS, *_OWNERS, *_ARCHIVE)
    with database.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement), values)
    if not statistics:
        return
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
