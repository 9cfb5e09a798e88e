"""Names of repositories that a person gave, and that Identify leaves as they are."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; who gave the names that are there is not known, so they are taken for Identify's."""
    op.add_column(
        "oai_repository",
        sa.Column("name_given", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
