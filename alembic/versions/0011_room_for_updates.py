"""Records have room beside them for their next version."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Leave half of each page free; pages that are full already keep what they have until it changes."""
    op.execute("ALTER TABLE oai_record SET (fillfactor = 50)")
