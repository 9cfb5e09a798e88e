"""Unreadable records of the aggregate in the order in which they are read again.

All of them were sorted every few seconds.
"""

import sqlalchemy as sa
from alembic import op

revision = "0071"
down_revision = "0070"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index."""
    op.create_index(
        "ix_aggregate_unreadable_looked_at", "aggregate_unreadable", [sa.text("looked_at NULLS FIRST")]
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_index("ix_aggregate_unreadable_looked_at", table_name="aggregate_unreadable")
