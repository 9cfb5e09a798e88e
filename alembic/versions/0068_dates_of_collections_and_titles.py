"""Documents get a new datestamp when a collection that they are assigned to gets another name.

MARC records of titles have the date of their first listing.
"""

import sqlalchemy as sa
from alembic import op

revision = "0068"
down_revision = "0067"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both times; collections that were renamed, and titles that were listed, before are not known."""
    op.add_column("collection", sa.Column("renamed", sa.DateTime(timezone=True)))
    op.add_column("title", sa.Column("entered", sa.DateTime(timezone=True)))
    op.execute("UPDATE title SET entered = datestamp WHERE datestamp < '9999-01-01Z'")


def downgrade() -> None:
    """Remove them."""
    op.drop_column("title", "entered")
    op.drop_column("collection", "renamed")
