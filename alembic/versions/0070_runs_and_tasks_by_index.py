"""The runs of a schedule, and the task of an archive file, by indexes.

The whole history was read for each schedule that was planned, and the whole queue for each page of files.
"""

import sqlalchemy as sa
from alembic import op

revision = "0070"
down_revision = "0069"
branch_labels = None
depends_on = None

_INVALID = "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(:name) AND NOT indisvalid)"
_NAME = "ix_oai_history_recurring_runs"
_FILE = "jsonb_extract_path_text(args, 'file_id')"
_TASKS = f"CREATE INDEX ix_procrastinate_jobs_file ON procrastinate_jobs ({_FILE}) WHERE {_FILE} IS NOT NULL"


def upgrade() -> None:
    """Create the indexes, that of the history without keeping harvests from writing to it."""
    op.execute(_TASKS)
    if not op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM oai_history)")):
        _create(concurrently=False)
        return
    with op.get_context().autocommit_block():
        limit = op.get_bind().scalar(sa.text("SHOW lock_timeout"))
        # It waits for transactions without keeping anybody from the table.
        op.execute("SET lock_timeout = 0")
        if op.get_bind().scalar(sa.text(_INVALID), {"name": _NAME}):
            op.execute(f"DROP INDEX CONCURRENTLY {_NAME}")
        _create(concurrently=True)
        op.execute(f"SET lock_timeout = '{limit}'")


def _create(*, concurrently: bool) -> None:
    op.create_index(
        _NAME,
        "oai_history",
        ["recurring_id", "history_id"],
        postgresql_where=sa.text("recurring_id IS NOT NULL"),
        postgresql_concurrently=concurrently,
        if_not_exists=True,
    )


def downgrade() -> None:
    """Remove them."""
    op.execute("DROP INDEX ix_procrastinate_jobs_file")
    op.drop_index(_NAME, table_name="oai_history")
