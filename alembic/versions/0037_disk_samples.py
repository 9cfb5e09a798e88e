"""Hourly samples of free disk space, from which it is estimated when a disk is full."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "disk_sample",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("free", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("host", "folder", "at", name="pk_disk_sample"),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("disk_sample")
