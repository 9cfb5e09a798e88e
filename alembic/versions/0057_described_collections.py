"""Descriptions of the sets of titles: a text, a picture, and a place in lists."""

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no row is rewritten."""
    op.add_column("title_set", sa.Column("description", sa.Text(), nullable=True))
    op.add_column("title_set", sa.Column("picture", sa.Text(), nullable=True))
    op.add_column("title_set", sa.Column("position", sa.Integer(), nullable=True))
    op.add_column("title_set", sa.Column("described_by", sa.Text(), nullable=True))


def downgrade() -> None:
    """Remove the columns."""
    for name in ("described_by", "position", "picture", "description"):
        op.drop_column("title_set", name)
