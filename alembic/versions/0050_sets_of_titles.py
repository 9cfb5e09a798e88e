"""Sets `title:…` of documents: a column of the document, and the counts of each set."""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

_TITLED = sa.text("title_id IS NOT NULL")
_IN_TITLE = sa.text("COALESCE(title_id, 0) <> 0")


def upgrade() -> None:
    """Add columns, indexes and table. The indexes are empty, but all documents are read to build them."""
    op.add_column("document", sa.Column("title_id", sa.Integer(), nullable=True))
    op.create_index(
        "ix_document_title", "document", ["title_id", "datestamp", "id"], postgresql_where=_TITLED
    )
    op.create_index("ix_document_in_title", "document", ["datestamp", "id"], postgresql_where=_IN_TITLE)
    op.add_column(
        "title_segment", sa.Column("in_set", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column(
        "title_pending",
        sa.Column(
            "noted",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
    )
    op.create_table(
        "title_documents",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("set_spec", sa.Text(collation="C"), nullable=False),
        sa.Column("documents", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("unlisted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column(
            "listed", sa.Boolean(), sa.Computed("documents > unlisted", persisted=True), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["id"], ["title.title_id"], name=op.f("fk_title_documents_id_title"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_title_documents")),
        sa.UniqueConstraint("set_spec", name=op.f("uq_title_documents_set_spec")),
    )
    op.create_index(
        "ix_title_documents_listed", "title_documents", ["set_spec"], postgresql_where=sa.text("listed")
    )


def downgrade() -> None:
    """Remove them."""
    op.drop_table("title_documents")
    op.drop_column("title_pending", "noted")
    op.drop_column("title_segment", "in_set")
    op.drop_index("ix_document_in_title", table_name="document")
    op.drop_index("ix_document_title", table_name="document")
    op.drop_column("document", "title_id")
