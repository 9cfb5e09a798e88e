"""Failures of schedules, warnings and running harvests get codes; old rows are classified once.

The patterns are those by which earlier versions read their own sentences back. What none of them matches is
`other`, with the sentence as the fact `text`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_AT_ONCE = 1000
_PROCESS = r"process (?P<number>\d+) on host '(?P<host>[^']*)'"
_SAID = r"(?:; the last it said: (?P<said>.*))?"
_MANAGERS = tuple(
    (code, re.compile(pattern, re.DOTALL))
    for code, pattern in (
        ("job_stopped", r"the job was stopped after a page; .*"),
        ("job_paused", r"the job was paused after a page; .*"),
        ("job_restarted", r"it made no progress and was ended after a page; .*"),
        ("manager_ended", r"the manager ended, and the harvest with it; .*"),
        ("process_stopped", rf"the job was stopped, and {_PROCESS} did not .*"),
        ("process_paused", rf"the job was paused, and {_PROCESS} did not .*"),
        ("process_deleted", rf"the job was deleted, so {_PROCESS} was ended"),
        ("process_killed", rf"the job was killed, and {_PROCESS} with it"),
        ("process_restarted", rf"{_PROCESS} made no progress and was ended; .*"),
        ("process_ended_with_manager", rf"the manager ended, and {_PROCESS} with it; .*"),
        ("process_lost", rf"{_PROCESS} is gone, and the worker that ran it, too"),
        ("process_not_started", rf"the harvest could not be started on host '(?P<host>[^']*)'{_SAID}"),
        ("process_signalled", rf"{_PROCESS} was ended by signal (?P<signal>\d+){_SAID}"),
        ("process_exited", rf"{_PROCESS} ended with exit code (?P<code>\d+) and wrote no history{_SAID}"),
        ("run_skipped", r"(?P<times>.+): the run before was still under way"),
        ("run_missed", r"(?P<times>.+): it did not begin in time, .*"),
        ("schedule_over", r"its end date (?P<end>.+) has come"),
    )
)
_FAILING = re.compile(
    r"(?P<count>\d+) runs in a row failed, the last one: (?P<reason>.*); "
    r"mend what is wrong, then `zatva schedule resume (?P<schedule>\d+)`",
    re.DOTALL,
)
_ADDRESS = re.compile(r"https?://[^\s'\"]+")
_SIGNS = tuple(
    (code, re.compile(pattern, re.IGNORECASE))
    for code, pattern in (
        ("released", r"^held: .*; released \d{4}-"),
        ("database", r"^database( \S+)?: |\bpsycopg\b"),
        ("held", r"\bwould (delete|change)|\bheld\b"),
        ("records_missing", r"announced did not come"),
        ("list_ended_abruptly", r"a list ended with a full page"),
        ("list_ended_by_error", r"a list ended in noRecordsMatch"),
        ("list_unconfirmed", r"does not say how many records"),
        ("address_private", r"public internet|private_addresses"),
        ("host_unknown", r"\bdns\b|name or service|getaddrinfo|no address|not known|cannot be resolved"),
        ("connection_refused", r"refused|no route|unreachable"),
        ("tls", r"\btls\b|\bssl\b|certificate"),
        ("timeout", r"timed? ?out|timeout|no answer (with)?in|slowly"),
        ("http_gone", r"HTTP status (404|410)"),
        ("http_forbidden", r"HTTP status (401|403)"),
        ("server_busy", r"HTTP status (429|503)|come back|Retry-After"),
        ("http_server_error", r"HTTP status 5\d\d"),
        ("redirect", r"\bredirect"),
        ("http_status", r"HTTP status \d"),
        ("answer_bytes", r"answer is larger than"),
        (
            "format_not_offered",
            r"cannotDisseminateFormat|noMetadataFormats|diagnostic 66\b|format: .* cannot be had",
        ),
        ("no_sets", r"noSetHierarchy"),
        ("bad_request", r"badArgument|badVerb|\bdiagnostic \d"),
        ("list_in_circles", r"in circles"),
        ("bad_token", r"badResumptionToken|resumption ?token"),
        ("not_oai_pmh", r"not OAI-PMH|Is this the base URL"),
        ("disconnected", r"connection (broke|was closed)|broke off"),
        ("requests_spent", r"took more requests than isolation_requests"),
        ("invalid", r"\bis not valid\b"),
        ("malformed_answer", r"well-formed|not XML|encoding|truncated|breaks the answers"),
        ("rules", r"filter|normali[sz]e"),
        ("disk_full", r"no space left|disk is full|disk quota|read-only file system"),
        ("process_lost", r"ended by signal|exit code|could not be started|is gone"),
        ("repository_busy", r"is being harvested"),
        ("interrupted", r"^interrupted\b"),
        ("internal_error", r"^\w+(Error|Exception): "),
    )
)
_OF_RECORDS = tuple(
    (code, re.compile(pattern, re.IGNORECASE))
    for code, pattern in (
        ("record_metadata_missing", r"has no metadata"),
        ("record_header", r"without a header|without an identifier|has no datestamp"),
        ("record_structure", r"is not made of|where a part of the list belongs"),
        ("record_mismatch", r"the answer was the record"),
        ("http_server_error", r"HTTP status 5\d\d"),
        ("http_status", r"HTTP status \d"),
        ("timeout", r"timed? ?out"),
        ("disconnected", r"connect|broke off|breaks off"),
        ("record_encoding", r"encod|utf-8|codec"),
        ("record_character", r"invalid Char|xmlChar"),
        ("record_xml", r"well-formed|parse|tag|entity|attribute|its end is missing|PCDATA|not one element"),
        ("record_invalid", r"schema|not expected|not allowed|facet|valid"),
        ("record_rule_limit", r"\.xml, line \d+"),
    )
)
_REFUSED = re.compile(r"https?://\S+, byte [\d,]+: |https?://\S+: record ['\"]|the records .* are left out: ")
_SETTINGS = {
    "answer_bytes": "harvester.max_answer_bytes",
    "requests_spent": "harvester.isolation_requests",
}
_AMOUNTS = {
    "answer_bytes": re.compile(r"larger than ([\d,]+) bytes"),
    "records_missing": re.compile(r"([\d,]+) records that the repository announced"),
}
_LINE = re.compile(r"\bline (\d+)")
_IMPORT_LOST = "its process ended before it was done"
_WAITING = re.compile(r"waiting until (?P<until>\S+): (?P<why>.*)", re.DOTALL)
_NUMBERS = frozenset({"number", "signal", "code", "count", "schedule"})


def upgrade() -> None:
    """Add the columns, and classify what is there."""
    for table in ("oai_history", "oai_harvest"):
        empty = sa.text("'[]'")
        op.add_column(table, sa.Column("warning_failures", JSONB(), nullable=False, server_default=empty))
    op.add_column("oai_harvest", sa.Column("last_failure", JSONB(), nullable=True))
    op.add_column("oai_recurring_job", sa.Column("state_failure", JSONB(), nullable=True))
    op.add_column("bibliographic_import", sa.Column("failure_code", sa.Text(), nullable=True))
    op.add_column("bibliographic_import", sa.Column("failure_facts", JSONB(), nullable=True))
    connection = op.get_bind()
    _classify(connection, "oai_quarantine", "quarantine_id", "reason", _record_failure)
    _classify(connection, "oai_history", "history_id", "failure_reason", _failure)
    _classify(connection, "bibliographic_import", "import_id", "failure_reason", _import_failure)
    _classify_schedules(connection)
    _classify_running(connection)
    _classify_warnings(connection)


def _classify(connection: sa.Connection, table: str, key: str, column: str, classify: Any) -> None:  # noqa: ANN401 a function
    where = f"{column} IS NOT NULL AND failure_code IS NULL"
    for rows in _batches(connection, table, key, column, where):
        found = [{"key": row[0], **_columns(classify(row[1]))} for row in rows]
        statement = (
            f"UPDATE {table} SET failure_code = :code, failure_facts = CAST(:facts AS jsonb)"  # noqa: S608 our own words
            f" WHERE {key} = :key"
        )
        connection.execute(sa.text(statement), found)


def _classify_schedules(connection: sa.Connection) -> None:
    for rows in _batches(connection, "oai_recurring_job", "id", "state_reason", "state_reason IS NOT NULL"):
        found = [{"key": row[0], "failure": json.dumps(_state_failure(row[1]))} for row in rows]
        statement = "UPDATE oai_recurring_job SET state_failure = CAST(:failure AS jsonb) WHERE id = :key"
        connection.execute(sa.text(statement), found)


def _classify_running(connection: sa.Connection) -> None:
    """What harvests wait for, or have noted last."""
    for rows in _batches(connection, "oai_harvest", "harvest_id", "last_error", "last_error IS NOT NULL"):
        found = [{"key": row[0], "failure": json.dumps(_last_failure(row[1]))} for row in rows]
        statement = "UPDATE oai_harvest SET last_failure = CAST(:failure AS jsonb) WHERE harvest_id = :key"
        connection.execute(sa.text(statement), found)


def _classify_warnings(connection: sa.Connection) -> None:
    """Warnings of records that were refused get the keys of their rows in `oai_quarantine`."""
    where = "jsonb_array_length(warnings) > 0"
    for rows in _batches(connection, "oai_history", "history_id", "warnings", where):
        keys = _fault_keys(connection, [row[0] for row in rows])
        found = [
            {"key": row[0], "failures": json.dumps(_warning_failures(row[1], keys.get(row[0], {})))}
            for row in rows
        ]
        statement = (
            "UPDATE oai_history SET warning_failures = CAST(:failures AS jsonb) WHERE history_id = :key"
        )
        connection.execute(sa.text(statement), found)


def _fault_keys(connection: sa.Connection, runs: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
    """By run and warning, the failure of the row that the warning is of, with its key."""
    query = sa.text(
        "SELECT history_id, identifier, byte_offset, url, reason, fault_key, failure_code, failure_facts"
        " FROM oai_quarantine WHERE history_id = ANY(:runs)"
    )
    found: dict[int, dict[str, Any]] = {}
    for row in connection.execute(query, {"runs": list(runs)}):
        where = f", byte {row.byte_offset:,}" if row.byte_offset is not None else ""
        named = bool(row.identifier) and row.identifier not in row.reason
        record = f"record {row.identifier!r}: " if named else ""
        words = f"{row.url}{where}: {record}{row.reason.removeprefix(f'{row.url}: ')}"[:2000]
        facts = {**(row.failure_facts or {}), "fault_key": row.fault_key.hex}
        found.setdefault(row.history_id, {})[words] = {"code": row.failure_code, **facts}
    return found


def _warning_failures(warnings: Sequence[object], known: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for warning in map(str, warnings):
        failure = known.get(warning)
        if failure is None and _REFUSED.match(warning):
            failure = {**_record_failure(warning), "fault_key": ""}
        found.append(failure)
    return found


def _batches(
    connection: sa.Connection, table: str, key: str, column: str, where: str
) -> Iterator[Sequence[Any]]:
    last = -1
    while True:
        query = (
            f"SELECT {key}, {column} FROM {table} WHERE {key} > :last AND {where}"  # noqa: S608 our own words
            f" ORDER BY {key} LIMIT {_AT_ONCE}"
        )
        rows = connection.execute(sa.text(query), {"last": last}).all()
        if not rows:
            return
        yield rows
        last = rows[-1][0]


def _columns(failure: Mapping[str, Any]) -> dict[str, str]:
    facts = {name: value for name, value in failure.items() if name != "code"}
    return {"code": failure["code"], "facts": json.dumps(facts)}


def _failure(reason: str) -> dict[str, Any]:
    for code, pattern in _MANAGERS:
        match = pattern.fullmatch(reason)
        if match is not None:
            return _with_code(code, match.groupdict())
    return _sign(reason, _SIGNS)


def _with_code(code: str, facts: Mapping[str, str | None]) -> dict[str, Any]:
    kept = {name: int(value) if name in _NUMBERS else value for name, value in facts.items() if value}
    # An exit code is a fact of that name; in one object the failure's own code comes first.
    exit_code = kept.pop("code", None)
    return {"code": code, **kept, **({"exit_code": exit_code} if exit_code is not None else {})}


def _sign(reason: str, signs: Sequence[tuple[str, re.Pattern[str]]]) -> dict[str, Any]:
    address = _ADDRESS.search(reason)
    url = {"url": address[0].rstrip(":;,.)")} if address else {}
    without = _ADDRESS.sub("", reason)
    code = next((code for code, pattern in signs if pattern.search(without)), None)
    return (
        {"code": code, **url, **_named(code, without)} if code else {"code": "other", "text": reason, **url}
    )


def _named(code: str, reason: str) -> dict[str, Any]:
    """The facts that the code's explanation names, as far as the sentence has them."""
    setting = {"setting": _SETTINGS[code]} if code in _SETTINGS else {}
    number = _AMOUNTS[code].search(reason) if code in _AMOUNTS else None
    if number is None:
        return setting
    return {"limit" if setting else "count": int(number[1].replace(",", "")), **setting}


def _record_failure(reason: str) -> dict[str, Any]:
    found = _sign(reason, _OF_RECORDS)
    line = _LINE.search(reason)
    code = "record_other" if found["code"] == "other" else found["code"]
    return {**found, "code": code, **({"line": int(line[1])} if line else {})}


def _import_failure(reason: str) -> dict[str, Any]:
    return {"code": "import_lost"} if reason == _IMPORT_LOST else _sign(reason, _SIGNS)


def _state_failure(reason: str) -> dict[str, Any]:
    match = _FAILING.fullmatch(reason)
    if match is not None:
        facts = _with_code("schedule_failing", match.groupdict())
        return {**facts, "last": _failure(match["reason"])}
    found = _failure(reason)
    return found if found["code"] in {"rules", "schedule_over"} else {"code": "request_invalid"}


def _last_failure(note: str) -> dict[str, Any]:
    match = _WAITING.fullmatch(note)
    if match is not None:
        return {"code": "waiting", "until": match["until"], "for": _failure(match["why"])}
    return {**_record_failure(note), "fault_key": ""} if _REFUSED.match(note) else _failure(note)
