"""The mark up to which answers show everything."""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table with its row."""
    op.create_table(
        "publication_mark",
        sa.Column("id", sa.SmallInteger(), primary_key=True, autoincrement=False),
        sa.Column("moment", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("looked", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_publication_mark_single")),
    )
    # An earlier version may have answered a moment ago, and with its clock.
    op.execute(
        "INSERT INTO publication_mark VALUES (1, date_trunc('second', clock_timestamp()), '-infinity')"
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("publication_mark")
