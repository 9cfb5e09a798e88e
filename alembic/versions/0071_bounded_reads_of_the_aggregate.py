"""Unreadable records of the aggregate in the order in which they are read again, and namespaces of sources.

All unreadable records were sorted every few seconds, and all records of a source searched for its namespace.
"""

import sqlalchemy as sa
from alembic import op

revision = "0071"
down_revision = "0070"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index, and the column: of the present sources, one search finds the namespace."""
    op.create_index(
        "ix_aggregate_unreadable_looked_at", "aggregate_unreadable", [sa.text("looked_at NULLS FIRST")]
    )
    op.add_column("aggregate_source", sa.Column("namespace", sa.Text()))


def downgrade() -> None:
    """Remove both."""
    op.drop_column("aggregate_source", "namespace")
    op.drop_index("ix_aggregate_unreadable_looked_at", table_name="aggregate_unreadable")
