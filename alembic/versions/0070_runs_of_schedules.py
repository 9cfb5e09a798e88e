"""The runs of one schedule by an index: the whole history was read for each schedule that was planned."""

import sqlalchemy as sa
from alembic import op

revision = "0070"
down_revision = "0069"
branch_labels = None
depends_on = None

_INVALID = "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(:name) AND NOT indisvalid)"
_NAME = "ix_oai_history_recurring_runs"


def upgrade() -> None:
    """Create the index, without keeping harvests from writing to the history."""
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
    """Remove it."""
    op.drop_index(_NAME, table_name="oai_history")
