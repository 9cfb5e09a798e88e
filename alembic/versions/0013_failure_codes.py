"""Failures are kept as codes with facts beside the English sentences."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_TABLES = ("oai_history", "oai_quarantine")


def upgrade() -> None:
    """Add the columns; earlier rows have no codes."""
    for table in _TABLES:
        op.add_column(table, sa.Column("failure_code", sa.Text(), nullable=True))
        op.add_column(table, sa.Column("failure_facts", JSONB(), nullable=True))
