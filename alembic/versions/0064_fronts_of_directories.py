"""Ranges of take-downs have numbers: two keys may be longer than an entry of an index."""

import sqlalchemy as sa
from alembic import op

revision = "0064"
down_revision = "0063"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Number the ranges."""
    op.drop_constraint("pk_takedown_range", "takedown_range")
    op.add_column("takedown_range", sa.Column("range_id", sa.BigInteger(), sa.Identity(), nullable=False))
    op.create_primary_key("pk_takedown_range", "takedown_range", ["takedown_id", "range_id"])


def downgrade() -> None:
    """Remove the numbers; the ranges stay."""
    op.execute(
        "DELETE FROM takedown_range AS one USING takedown_range AS other"
        " WHERE (one.takedown_id, one.low, one.high) = (other.takedown_id, other.low, other.high)"
        " AND one.range_id > other.range_id"
    )
    op.drop_column("takedown_range", "range_id")
    op.create_primary_key("pk_takedown_range", "takedown_range", ["takedown_id", "low", "high"])
