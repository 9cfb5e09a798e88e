"""Reasons of archive files get codes; old rows are classified once.

The patterns match what earlier versions wrote. What none of them matches is `archive_other`, with the
sentence as the fact `text`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_AT_ONCE = 5000
# The first match counts. Named groups become facts.
_SIGNS = tuple(
    (code, re.compile(pattern, re.DOTALL))
    for code, pattern in (
        ("archive_more_problems", r"^and (?P<count>[\d,]+) (more problems|problems more) in this file$"),
        ("archive_documents_gone", r"^(?P<count>[\d,]+) documents that were indexed from this file "),
        ("archive_name_ambiguous", r"^(?P<count>[\d,]+) archive files are named '(?P<name>[^']*)'"),
        ("archive_line_invalid", r"^line (?P<line>\d+): "),
        ("archive_digest_differs", r"^the digest differs from |^not the content \(digest\) of "),
        ("archive_records_joined", r"`warcio recompress`$"),
        ("archive_record_length", r"; its content is (complete according to|whole by) its digest or "),
        (
            "archive_record_truncated",
            r"(is truncated|breaks off)\b.*\((?P<bytes>[\d,]+) bytes not read\)$",
        ),
        ("archive_record_broken", r"\((?P<bytes>[\d,]+) bytes not read\)$"),
        (
            "archive_record_invalid",
            r"(is not a|is no) URL$| has no (valid|possible) host name$| (valid|possible) capture time$",
        ),
        ("archive_not_archive", r"^the file is empty$|^(is|begins) neither .* WARC file$"),
        ("archive_not_readable", r"^cannot be (opened|looked at|read): "),
        ("archive_not_indexed", r"^not indexed: "),
        ("archive_task_lost", r"^its task (was|is) (no longer in|gone from) the queue"),
        (
            "archive_process_lost",
            r"^could not be started on |^the worker (that|on) |^the process on .* ended ",
        ),
    )
)
_NUMBERS = frozenset({"count", "line", "bytes"})


def upgrade() -> None:
    """Add the columns, and classify what is there."""
    for table in ("arc_problem", "index_file"):
        op.add_column(table, sa.Column("failure_code", sa.Text(), nullable=True))
        op.add_column(table, sa.Column("failure_facts", JSONB(), nullable=True))
    connection = op.get_bind()
    for table in ("arc_problem", "index_file"):
        statement = sa.text(
            f"UPDATE {table} SET failure_code = :code, failure_facts = CAST(:facts AS jsonb)"  # noqa: S608 our own words
            " WHERE id = :id"
        )
        for rows in _batches(connection, table):
            connection.execute(statement, [{"id": row.id, **_classified(row.reason)} for row in rows])


def downgrade() -> None:
    """Remove the columns; the sentences stay."""
    for table in ("index_file", "arc_problem"):
        op.drop_column(table, "failure_facts")
        op.drop_column(table, "failure_code")


def _batches(connection: sa.Connection, table: str) -> Iterator[Sequence[Any]]:
    query = sa.text(
        f"SELECT id, reason FROM {table} WHERE id > :last AND reason IS NOT NULL"  # noqa: S608 our own words
        f" ORDER BY id LIMIT {_AT_ONCE}"
    )
    last = 0
    while rows := connection.execute(query, {"last": last}).all():
        yield rows
        last = rows[-1].id


def _classified(reason: str) -> dict[str, str]:
    for code, pattern in _SIGNS:
        match = pattern.search(reason)
        if match is not None:
            facts = {
                name: int(value.replace(",", "")) if name in _NUMBERS else value
                for name, value in match.groupdict().items()
            }
            return {"code": code, "facts": json.dumps(facts)}
    return {"code": "archive_other", "facts": json.dumps({"text": reason})}
