"""The migration that adds failure codes sets them for sentences that earlier versions wrote."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from oai import migrations
from oai.database import Database, open_database
from oai.failures import Failure, FailureCode, explained
from oai.settings import Settings

PROCESS = "process 5 on host 'w1'"
X = "https://x.example/oai"
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{X}: Name or service not known": ("host_unknown", {"url": X}),
    f"{X}: connection refused": ("connection_refused", {"url": X}),
    f"{X}: TLS: certificate has expired": ("tls", {"url": X}),
    f"{X}: HTTP status 404 Not Found": ("http_gone", {"url": X}),
    f"{X}: HTTP status 403 Forbidden": ("http_forbidden", {"url": X}),
    f"{X}: HTTP status 503, come back in 60 seconds": ("server_busy", {"url": X}),
    f"{X}?verb=GetRecord&identifier=a: HTTP status 502": (
        "http_server_error",
        {"url": f"{X}?verb=GetRecord&identifier=a"},
    ),
    f"{X}: HTTP status 400 Bad Request": ("http_status", {"url": X}),
    f"{X}: badArgument: until is odd": ("bad_request", {"url": X}),
    f"{X}: badResumptionToken": ("bad_token", {"url": X}),
    f"{X}: no answer that is XML; it begins with '<html>'. Is this the base URL?": (
        "not_oai_pmh",
        {"url": X},
    ),
    f"{X}: the connection broke (Connection reset by peer)": ("disconnected", {"url": X}),
    f"{X}: no whole answer in time; see setting timeout": ("timeout", {"url": X}),
    f"{X}: redirected to 'ftp://x', an address that is neither http nor https": ("redirect", {"url": X}),
    f"{X}: the answer is larger than 1,000 bytes; see setting max_answer_bytes": (
        "answer_bytes",
        {"url": X, "limit": 1000, "setting": "harvester.max_answer_bytes"},
    ),
    f"{X}: the address is not on the public internet; see setting x": ("address_private", {"url": X}),
    "https://x.example/sru: diagnostic 66: 'mods' is none of the schemas": (
        "format_not_offered",
        {"url": "https://x.example/sru"},
    ),
    "record 'oai:x:1' is not valid: no title": ("invalid", {}),
    "7 records that the repository announced did not come": ("records_missing", {"count": 7}),
    "looking for what breaks the answers took more requests than isolation_requests allows": (
        "requests_spent",
        {"setting": "harvester.isolation_requests"},
    ),
    "a list ended in noRecordsMatch instead of a last page": ("list_ended_by_error", {}),
    "an answer broke off before the list's end, twice": ("disconnected", {}),
    "repository 3 is being harvested; try again when that is done": ("repository_busy", {}),
    "interrupted": ("interrupted", {}),
    "database: connection refused; see that the server runs and can be reached": ("database", {}),
    "KeyError: 'x'": ("internal_error", {}),
    "OSError: [Errno 28] No space left on device": ("disk_full", {}),
    "held: it would delete 9 of 10 records; without a yes it may delete 20 %": ("held", {}),
    "held: it would delete 9 of 10 records; released 2026-01-01T00:00:00Z: 9 records deleted": (
        "released",
        {},
    ),
    f"{PROCESS} was ended by signal 9": ("process_signalled", {"number": 5, "host": "w1", "signal": 9}),
    f"{PROCESS} ended with exit code 1 and wrote no history; the last it said: oh": (
        "process_exited",
        {"number": 5, "host": "w1", "exit_code": 1, "said": "oh"},
    ),
    f"{PROCESS} is gone, and the worker that ran it, too": ("process_lost", {"number": 5, "host": "w1"}),
    f"the job was killed, and {PROCESS} with it": ("process_killed", {"number": 5, "host": "w1"}),
    "the job was paused after a page; it goes on from there when it is resumed": ("job_paused", {}),
    "the harvest could not be started on host 'w1'": ("process_not_started", {"host": "w1"}),
    "due at 2026-01-01T00:00:00Z: the run before was still under way": (
        "run_skipped",
        {"times": "due at 2026-01-01T00:00:00Z"},
    ),
    f"{X}: the moon is full": ("other", {"text": f"{X}: the moon is full", "url": X}),
}
RECORDS = {
    "record 'oai:x:1': PCDATA invalid Char value 1, line 3, column 4": "record_character",
    "record 'oai:x:1': Input is not proper UTF-8, indicate encoding !": "record_encoding",
    "record 'oai:x:1': Opening and ending tag mismatch: a line 1 and b": "record_xml",
    "its end is missing": "record_xml",
    "the moon is full": "record_other",
    "a record without a header": "record_header",
    "record 'oai:x:1' has no metadata and is not deleted": "record_metadata_missing",
    "record 'oai:x:1' is not made of header, metadata and about": "record_structure",
    f"{X}?verb=GetRecord&identifier=oai:x:1&metadataPrefix=oai_dc: HTTP status 500": "http_server_error",
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "its end date 2026-01-02 00:00:00+00:00 has come": {
        "code": "schedule_over",
        "end": "2026-01-02 00:00:00+00:00",
    },
    "filter_file_path '/f.xml': line 3: no such element": {"code": "rules"},
    "end_date 1 is before start_date 2": {"code": "request_invalid"},
    f"3 runs in a row failed, the last one: {X}: HTTP status 500; "
    "mend what is wrong, then `zatva schedule resume 4`": {
        "code": "schedule_failing",
        "count": 3,
        "schedule": 4,
        "reason": f"{X}: HTTP status 500",
        "last": {"code": "http_server_error", "url": X},
    },
}

TOO_SHORT = "the record is truncated: its header declares more bytes than there are"
ARCHIVE_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    f"{TOO_SHORT} (1,234 bytes not read)": ("archive_record_truncated", {"bytes": 1234}),
    "the gzip member breaks off at the end of the file (9 bytes not read)": (
        "archive_record_truncated",
        {"bytes": 9},
    ),
    f"{TOO_SHORT}; its content is complete according to its digest or HTTP header, and was indexed": (
        "archive_record_length",
        {},
    ),
    "the announced length is wrong: b'x' follows where the record should end; its content is whole by its"
    " digest or its HTTP header, and was taken": ("archive_record_length", {}),
    "b'garbage' does not begin a WARC or ARC record (21 bytes not read)": (
        "archive_record_broken",
        {"bytes": 21},
    ),
    "URL 'http://' has no possible host name": ("archive_record_invalid", {}),
    "'yesterday' is not a valid capture time": ("archive_record_invalid", {}),
    "the gzip member goes on after its first record; the others have no place of their own and were not read:"
    " write the file anew with `warcio recompress`": ("archive_records_joined", {}),
    "line 7: 'x' is not a URL": ("archive_line_invalid", {"line": 7}),
    "not the content (digest) of the document 'http://a.example/': not taken": ("archive_digest_differs", {}),
    "2 archive files are named 'x.warc'; choose one with --archive-dir": (
        "archive_name_ambiguous",
        {"count": 2, "name": "x.warc"},
    ),
    "3 documents that were indexed from this file earlier are no longer in it": (
        "archive_documents_gone",
        {"count": 3},
    ),
    "and 1,500 problems more in this file": ("archive_more_problems", {"count": 1500}),
    "begins neither as an ARC nor as a WARC file": ("archive_not_archive", {}),
    "cannot be looked at: [Errno 2] No such file or directory": ("archive_not_readable", {}),
    "not indexed: null character": ("archive_not_indexed", {}),
    "the worker that had it is gone": ("archive_process_lost", {}),
    "the process on 'w1' was ended by signal 9; the last it said: oh": ("archive_process_lost", {}),
    "its task is gone from the queue; the file was queued again": ("archive_task_lost", {}),
    "the moon is full": ("archive_other", {"text": "the moon is full"}),
}


@pytest.fixture(scope="module")
def migrated(shared_settings: Settings) -> Iterator[Database]:
    """A database as the version before the codes left it, filled by the functions below, and migrated."""
    with open_database(shared_settings, check_tables=False) as database:
        with database.engine.begin() as connection:
            connection.execute(sa.text("DROP SCHEMA public CASCADE; CREATE SCHEMA public"))
        _migrate(database, "0012")
        with database.engine.begin() as connection:
            connection.execute(
                sa.text(
                    "INSERT INTO oai_repository (base_url, base_dir) VALUES ('https://x.example/oai', 'x')"
                )
            )
            # The first run has the refused records.
            for fill in (_fill_refused, _fill_runs, _fill_schedules, _fill_archive_files, _fill_audits):
                fill(connection)
        _migrate(database, migrations.head())
        yield database


def _migrate(database: Database, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations.folder()))
    with database.engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.commit()


def _rows(database: Database, query: str) -> list[Any]:
    with database.engine.begin() as connection:
        return list(connection.execute(sa.text(query)))


def _fill_runs(connection: sa.Connection) -> None:
    statement = sa.text(
        "INSERT INTO oai_history (repository_id, harvest_start_time, status, failure_reason)"
        " VALUES (1, now(), 'failed', :reason)"
    )
    connection.execute(statement, [{"reason": reason} for reason in RUNS])
    connection.execute(statement, {"reason": None})


def test_reasons_of_runs_get_failure_codes(migrated: Database) -> None:
    rows = _rows(
        migrated,
        "SELECT failure_reason, failure_code, failure_facts FROM oai_history WHERE status = 'failed'",
    )
    assert {row[0]: (row[1], row[2]) for row in rows if row[0] is not None} == RUNS
    assert [tuple(row) for row in rows if row[0] is None] == [(None, None, None)]
    assert {code for code, _ in RUNS.values()} <= set(FailureCode)
    for code, facts in RUNS.values():
        words = explained(Failure(code=FailureCode(code), facts=facts), "en")
        assert "?" not in words.what + words.todo, "a fact is missing"


WARNINGS = [
    *(f"{X}, byte 17: {reason}" for reason in RECORDS if "oai:x:1" in reason),
    f"{X}: the answer says another encoding than it has",
    f"{X}: record 'gone': well-formed",
]


def _fill_refused(connection: sa.Connection) -> None:
    connection.execute(
        sa.text(
            "INSERT INTO oai_quarantine (repository_id, metadata_prefix, fault_key, reason, url, raw,"
            " raw_size, last_run, history_id, byte_offset, identifier)"
            " VALUES (1, 'oai_dc', gen_random_uuid(), :reason, :url, '', 0, now(), 1, 17, 'oai:x:1')"
        ),
        [{"reason": reason, "url": X} for reason in RECORDS],
    )
    connection.execute(
        sa.text(
            "INSERT INTO oai_history (repository_id, harvest_start_time, status, warnings)"
            " VALUES (1, now(), 'completed with errors', CAST(:warnings AS jsonb))"
        ),
        {"warnings": json.dumps(WARNINGS)},
    )


def test_rejected_records_and_their_warnings_get_codes_and_common_keys(migrated: Database) -> None:
    kept = _rows(
        migrated, "SELECT reason, failure_code, replace(fault_key::text, '-', '') FROM oai_quarantine"
    )
    assert {reason: code for reason, code, _ in kept} == RECORDS
    ((failures,),) = _rows(
        migrated, "SELECT warning_failures FROM oai_history WHERE status = 'completed with errors'"
    )
    assert len(failures) == len(WARNINGS)
    keys = {failure["fault_key"] for failure in failures[:-2]}
    assert keys == {key for reason, _, key in kept if "oai:x:1" in reason}
    assert failures[-2:] == [None, {"code": "record_xml", "url": X, "fault_key": ""}]


def _fill_schedules(connection: sa.Connection) -> None:
    connection.execute(
        sa.text("INSERT INTO oai_recurring_job (repository_id, state, state_reason) VALUES (1, 3, :reason)"),
        [{"reason": reason} for reason in SCHEDULES],
    )
    connection.execute(
        sa.text(
            "INSERT INTO oai_harvest (repository_id, metadata_prefix, last_error)"
            " VALUES (1, 'oai_dc', 'waiting until 2026-01-02T03:04:05Z: HTTP status 503')"
        )
    )


def test_reasons_of_schedules_and_running_harvests_get_failure_codes(migrated: Database) -> None:
    rows = _rows(migrated, "SELECT state_reason, state_failure FROM oai_recurring_job")
    assert {row[0]: row[1] for row in rows} == SCHEDULES
    ((waiting,),) = _rows(migrated, "SELECT last_failure FROM oai_harvest")
    assert waiting == {
        "code": "waiting",
        "until": "2026-01-02T03:04:05Z",
        "for": {"code": "server_busy"},
    }
    for failure in (waiting, *SCHEDULES.values()):
        assert Failure.from_json(failure) is not None


def _fill_archive_files(connection: sa.Connection) -> None:
    connection.execute(sa.text("INSERT INTO arc (name, size, modified) VALUES ('x.warc', 0, now())"))
    connection.execute(sa.text("INSERT INTO index_run (host, again) VALUES ('h', false)"))
    for insert in (
        'INSERT INTO arc_problem (arc_id, "offset", reason) VALUES (1, 0, :reason)',
        "INSERT INTO index_file (run_id, path, size, reason) VALUES (1, '/x', 0, :reason)",
    ):
        connection.execute(sa.text(insert), [{"reason": reason} for reason in ARCHIVE_FILES])


@pytest.mark.parametrize("table", ["arc_problem", "index_file"])
def test_reasons_of_archive_files_get_failure_codes(migrated: Database, table: str) -> None:
    rows = _rows(migrated, f"SELECT reason, failure_code, failure_facts FROM {table}")  # noqa: S608 our own word
    assert {row[0]: (row[1], row[2]) for row in rows} == ARCHIVE_FILES
    assert {code for code, _ in ARCHIVE_FILES.values()} <= set(FailureCode)
    for code, facts in ARCHIVE_FILES.values():
        words = explained(Failure(code=FailureCode(code), facts=facts), "en")
        assert "?" not in words.what + words.todo, "a fact is missing"


def _fill_audits(connection: sa.Connection) -> None:
    connection.execute(
        sa.text(
            "INSERT INTO oai_store_audit (repository_id, started, ended, missing)"
            " VALUES (1, now(), now(), 0), (1, now(), now(), 3), (1, now(), NULL, 0)"
        )
    )


def test_store_audits_get_a_state_and_are_marked_as_announced(migrated: Database) -> None:
    columns = "state, failure_code, failure_facts, announced IS NOT NULL"
    rows = _rows(migrated, f"SELECT {columns} FROM oai_store_audit ORDER BY audit_id")  # noqa: S608 our own words
    assert [tuple(row) for row in rows] == [
        ("done", None, None, True),
        ("done", "store_damaged", {"missing": 3, "altered": 0, "stray": 0}, True),
        ("running", None, None, True),
    ]
