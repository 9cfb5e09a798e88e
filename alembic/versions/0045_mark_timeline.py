"""The timeline of the server that advanced the mark: another one means a failover."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, unknown until the mark is advanced."""
    op.add_column("publication_mark", sa.Column("timeline", sa.Text(), nullable=True))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("publication_mark", "timeline")
