"""Documents get a new datestamp when a collection that they are assigned to gets another name."""

import sqlalchemy as sa
from alembic import op

revision = "0068"
down_revision = "0066"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the time of the change; collections that were renamed before are not known."""
    op.add_column("collection", sa.Column("renamed", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Remove it."""
    op.drop_column("collection", "renamed")
