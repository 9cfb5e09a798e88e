"""Records are searchable by default: imports follow harvests, and cover only what the harvest changed."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. Repositories with settings of their own keep them; the others have no row."""
    op.alter_column("bibliographic_source", "after_harvest", server_default=sa.text("true"))
    op.add_column("bibliographic_import", sa.Column("basis", sa.Text()))
    op.add_column("bibliographic_import", sa.Column("feed_mark", sa.BigInteger()))
    op.add_column(
        "bibliographic_import",
        sa.Column("whole", sa.Boolean(), server_default=sa.text("true"), nullable=False),
    )


def downgrade() -> None:
    """Remove them."""
    op.drop_column("bibliographic_import", "whole")
    op.drop_column("bibliographic_import", "feed_mark")
    op.drop_column("bibliographic_import", "basis")
    op.alter_column("bibliographic_source", "after_harvest", server_default=sa.text("false"))
