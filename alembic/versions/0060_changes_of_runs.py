"""The changes of one run by an index: the whole feed was read for them. Summaries of new block ranges."""

import sqlalchemy as sa
from alembic import op

revision = "0060"
down_revision = "0059"
branch_labels = None
depends_on = None

_INVALID = "SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(:name) AND NOT indisvalid)"
_NAME = "ix_oai_change_run"


def upgrade() -> None:
    """Create the index, without keeping harvests from writing to the feed."""
    op.execute("ALTER INDEX ix_oai_change_blocks SET (autosummarize = on)")
    if not op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM oai_change)")):
        _create(concurrently=False)
        return
    with op.get_context().autocommit_block():
        limit = op.get_bind().scalar(sa.text("SHOW lock_timeout"))
        # It waits for transactions without keeping anybody from the table.
        op.execute("SET lock_timeout = 0")
        if op.get_bind().scalar(sa.text(_INVALID), {"name": _NAME}):
            op.execute(f"DROP INDEX CONCURRENTLY {_NAME}")
        _create(concurrently=True)
        op.execute("SELECT brin_summarize_new_values('ix_oai_change_blocks')")
        op.execute(f"SET lock_timeout = '{limit}'")


def _create(*, concurrently: bool) -> None:
    op.create_index(
        _NAME,
        "oai_change",
        ["run_started", "change_id"],
        postgresql_concurrently=concurrently,
        if_not_exists=True,
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_index(_NAME, table_name="oai_change")
    op.execute("ALTER INDEX ix_oai_change_blocks RESET (autosummarize)")
