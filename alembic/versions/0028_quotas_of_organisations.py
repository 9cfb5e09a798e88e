"""Organisations have a number of records and limits of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; the next harvest of each organisation counts its records."""
    op.add_column(
        "web_organisation", sa.Column("records", sa.BigInteger(), server_default="0", nullable=False)
    )
    op.add_column("web_organisation", sa.Column("max_records", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    for name in ("max_records", "records"):
        op.drop_column("web_organisation", name)
