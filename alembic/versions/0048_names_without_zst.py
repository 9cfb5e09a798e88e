"""Names of archive files without `.zst`, as they are without `.gz`."""

from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Shorten the names of files that only CDX files have listed: no others could be indexed."""
    op.execute("UPDATE arc SET name = left(name, -4) WHERE name LIKE '%.zst'")


def downgrade() -> None:
    """Lengthen them again."""
    op.execute(
        "UPDATE arc SET name = name || '.zst' WHERE listed_name LIKE '%.zst' AND name NOT LIKE '%.zst'"
    )
