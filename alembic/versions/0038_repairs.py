"""Repairs of broken records that a person has chosen for a repository."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "oai_repository",
        sa.Column("repairs", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_column("oai_repository", "repairs")
