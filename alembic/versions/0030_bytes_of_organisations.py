"""Records have the size of their file, and organisations a limit of bytes."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, without rewriting a table; records get their size when their file is next written."""
    op.add_column("oai_record", sa.Column("size", sa.BigInteger(), nullable=True))
    op.add_column("web_organisation", sa.Column("bytes", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("web_organisation", sa.Column("max_bytes", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    for name in ("max_bytes", "bytes"):
        op.drop_column("web_organisation", name)
    op.drop_column("oai_record", "size")
