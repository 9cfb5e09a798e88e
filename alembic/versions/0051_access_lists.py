"""Lists of addresses as access rules, and ranges of URL keys that only they name."""

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0049"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and let ranges belong to no title."""
    op.create_table(
        "access_list",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("access", sa.Text(), nullable=False),
        sa.Column("addresses", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("imported", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("access IN ('reading room', 'withheld')", name=op.f("ck_access_list_access")),
        sa.PrimaryKeyConstraint("source", "source_key", name=op.f("pk_access_list")),
    )
    op.alter_column("title_segment", "title_id", nullable=True)


def downgrade() -> None:
    """Remove the table, and ranges that only lists name; documents keep the rules that these gave them."""
    op.execute("DELETE FROM title_segment WHERE title_id IS NULL")
    op.alter_column("title_segment", "title_id", nullable=False)
    op.drop_table("access_list")
