"""The rule by which URL keys treat `www.`; types and languages of documents; front pages of titles."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None

_TYPES = ("recognised_type", "declared_type")


def upgrade() -> None:
    """Add columns and table; until now, keys follow the rule of the Wayback Machine."""
    op.add_column("url_key_fill", sa.Column("www_rule", sa.Text(), server_default="numbered", nullable=False))
    op.create_check_constraint(
        op.f("ck_url_key_fill_www_rule"), "url_key_fill", "www_rule IN ('numbered', 'plain', 'kept')"
    )
    for name in _TYPES:
        op.add_column("document", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("document", sa.Column("language", sa.Text(), nullable=True))
    _create_front_pages()


def _create_front_pages() -> None:
    op.create_table(
        "title_front_page",
        sa.Column("title_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document_id", sa.BigInteger(), nullable=True),
        sa.Column("holder_id", sa.BigInteger(), nullable=True),
        sa.Column("words", postgresql.TSVECTOR(), nullable=True),
        sa.Column("changes", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("seen", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["title_id"],
            ["title_search.title_id"],
            name=op.f("fk_title_front_page_title_id_title_search"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("title_id", name=op.f("pk_title_front_page")),
    )
    op.create_index("ix_title_front_page_words", "title_front_page", ["words"], postgresql_using="gin")
    op.create_index(
        "ix_title_front_page_waiting",
        "title_front_page",
        ["title_id"],
        postgresql_where=sa.text("changes <> seen"),
    )


def downgrade() -> None:
    """Remove them. Keys by another rule stay as they are, and look-ups no longer find them."""
    op.drop_table("title_front_page")
    for name in ("language", *_TYPES):
        op.drop_column("document", name)
    op.drop_column("url_key_fill", "www_rule")
