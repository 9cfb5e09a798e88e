"""The words of listed titles, for the search on the public pages."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

# As in provider.titles.folding at the time of this migration.
_MARKS = "[\u0300-\u036f]"
_FOLDED = f"lower(regexp_replace(normalize(%s, NFKD), '{_MARKS}', '', 'g'))"
_SORT_NAME = f"ltrim({_FOLDED % 'left(title.name, 200)'}, ' \"„“”‚‘’«»([.…')"  # noqa: RUF001 quotes
_TEXTS = (
    "concat_ws(' ', title.name, array_to_string(title.alternative_names, ' '), title.publisher,"
    " array_to_string(title.keywords, ' '), title.annotation)"
)
_WORDS = f"to_tsvector('simple', {_FOLDED % f'left({_TEXTS}, 100000)'})"

FILL = f"""
INSERT INTO title_search (title_id, key, sort_name, words)
SELECT title_id, key, {_SORT_NAME}, {_WORDS} FROM title WHERE NOT deleted
"""  # noqa: S608 constant text


def upgrade() -> None:
    """Create the table, and fill it with the titles that are listed."""
    op.create_table(
        "title_search",
        sa.Column("title_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key", sa.Uuid(), nullable=False),
        sa.Column("sort_name", sa.Text(collation="C"), nullable=False),
        sa.Column("words", postgresql.TSVECTOR(), nullable=False),
        sa.ForeignKeyConstraint(
            ["title_id"], ["title.title_id"], name=op.f("fk_title_search_title_id_title"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("title_id", name=op.f("pk_title_search")),
    )
    op.execute(FILL)
    op.create_index("ix_title_search_name", "title_search", ["sort_name", "key"])
    op.create_index("ix_title_search_words", "title_search", ["words"], postgresql_using="gin")


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("title_search")
