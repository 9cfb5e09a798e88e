"""What library catalogues add to titles."""

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "title_enrichment",
        sa.Column("title_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("control_number", sa.Text(), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=True),
        sa.Column("languages", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("alternative_names", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("place", sa.Text(), nullable=True),
        sa.Column("country", sa.Text(), nullable=True),
        sa.Column("first_published", sa.SmallInteger(), nullable=True),
        sa.Column("enriched", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["title_id"],
            ["title.title_id"],
            name=op.f("fk_title_enrichment_title_id_title"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("title_id", name=op.f("pk_title_enrichment")),
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("title_enrichment")
