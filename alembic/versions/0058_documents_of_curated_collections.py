"""The documents of curated collections as sets of `/oai`: ranges of URL keys, and URLs of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the table; no row is rewritten."""
    op.add_column(
        "collection", sa.Column("from_titles", sa.Boolean(), server_default="false", nullable=False)
    )
    op.add_column("title_set", sa.Column("seeds", sa.ARRAY(sa.Text()), server_default="{}", nullable=False))
    op.create_table(
        "collection_segment",
        sa.Column("low", sa.Text(collation="C"), nullable=False),
        sa.Column("high", sa.Text(collation="C"), nullable=False),
        sa.Column("collections", sa.ARRAY(sa.Integer()), nullable=False),
        sa.PrimaryKeyConstraint("low", name=op.f("pk_collection_segment")),
    )


def downgrade() -> None:
    """Remove them; documents stay in the collections, which then belong to the staff."""
    op.drop_table("collection_segment")
    op.drop_column("title_set", "seeds")
    op.drop_column("collection", "from_titles")
