"""Documents have a canonical URL key.

The new column is empty and rewrites nothing. An archive with documents gets its keys and their index from
`zatva provider reindex-keys` while it is served.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_STATE = """
INSERT INTO url_key_fill (id, finished)
SELECT 1, CASE WHEN NOT EXISTS (SELECT FROM document) THEN now() END
RETURNING finished IS NOT NULL
"""


def upgrade() -> None:
    op.add_column("document", sa.Column("url_key", sa.Text(collation="C")))
    op.create_table(
        "url_key_fill",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("after_id", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_url_key_fill")),
        sa.CheckConstraint("id = 1", name=op.f("ck_url_key_fill_single")),
    )
    if op.get_bind().scalar(sa.text(_STATE)):
        op.create_index("ix_document_url_key", "document", ["url_key", "archived", "id"])


def downgrade() -> None:
    op.drop_table("url_key_fill")
    op.drop_column("document", "url_key")
