"""Archive files behind URLs: the tag of an object, and the packed length of a record."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no table is rewritten."""
    op.add_column("arc", sa.Column("tag", sa.Text()))
    op.add_column("document", sa.Column("packed_length", sa.Integer()))


def downgrade() -> None:
    """Remove the columns."""
    op.drop_column("document", "packed_length")
    op.drop_column("arc", "tag")
