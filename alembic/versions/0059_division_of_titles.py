"""By which rules the URL keys were divided among titles and collections, so that only changes are divided."""

import sqlalchemy as sa
from alembic import op

revision = "0059"
down_revision = "0058"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table. It is empty: the next import that changes something divides all keys."""
    op.create_table(
        "title_division",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("rules", sa.Text(), nullable=True),
        sa.Column("collections", sa.ARRAY(sa.Integer()), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("ck_title_division_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_title_division")),
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("title_division")
