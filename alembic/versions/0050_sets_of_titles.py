"""Sets `title:…` of documents: a column of the document, and the counts of each set."""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

_TITLED = sa.text("title_id IS NOT NULL")
_IN_TITLE = sa.text("COALESCE(title_id, 0) <> 0")


_INVALID = """
SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = pg_index.indexrelid
WHERE relname IN ('ix_document_title', 'ix_document_in_title') AND NOT indisvalid
"""


def upgrade() -> None:
    """Add columns, indexes and table."""
    op.add_column("document", sa.Column("title_id", sa.Integer(), nullable=True), if_not_exists=True)
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM document)")):
        # All documents are read to build the indexes, which are empty. The column is committed first, and
        # no reader or writer waits meanwhile. An index of an upgrade that was interrupted may be invalid, or
        # complete.
        with op.get_context().autocommit_block():
            limit = op.get_bind().scalar(sa.text("SHOW lock_timeout"))
            # It waits for transactions without keeping anybody from the table.
            op.execute("SET lock_timeout = 0")
            for name in op.get_bind().scalars(sa.text(_INVALID)).all():
                op.execute(f"DROP INDEX CONCURRENTLY {name}")
            _create_indexes(concurrently=True)
            op.execute(f"SET lock_timeout = '{limit}'")
    else:
        _create_indexes(concurrently=False)
    # These may give way to readers and be tried again; what is above is then done.
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


def _create_indexes(*, concurrently: bool) -> None:
    for name, columns, condition in (
        ("ix_document_title", ["title_id", "datestamp", "id"], _TITLED),
        ("ix_document_in_title", ["datestamp", "id"], _IN_TITLE),
    ):
        op.create_index(
            name,
            "document",
            columns,
            postgresql_where=condition,
            postgresql_concurrently=concurrently,
            if_not_exists=True,
        )


def downgrade() -> None:
    """Remove them."""
    op.drop_table("title_documents")
    op.drop_column("title_pending", "noted")
    op.drop_column("title_segment", "in_set")
    op.drop_index("ix_document_in_title", table_name="document")
    op.drop_index("ix_document_title", table_name="document")
    op.drop_column("document", "title_id")
