"""Rows of interrupted harvests name the one that continues them; every record has a count; signs of life."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_COUNTS = ("repeated_count", "tombstone_count", "disappeared_count", "postponed_count")
_SUMMED = ["repository_id", "status", "record_count", "new_count", "updated_count", "deleted_count"]


def upgrade() -> None:
    """Add the columns, which PostgreSQL does without writing the rows; earlier rows count 0."""
    for name in _COUNTS:
        op.add_column("oai_history", sa.Column(name, sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("oai_history", sa.Column("continued_by", sa.BigInteger(), nullable=True))
    op.add_column("oai_harvest", sa.Column("last_sign", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_oai_history_continued_by",
        "oai_history",
        ["continued_by"],
        postgresql_where=sa.text("continued_by IS NOT NULL"),
    )
    _index_ended([*_SUMMED, "continued_by"])


def downgrade() -> None:
    """Drop the columns. Rows that another one continues keep their counts of 0."""
    _index_ended(_SUMMED)
    op.drop_index("ix_oai_history_continued_by", "oai_history")
    op.drop_column("oai_harvest", "last_sign")
    for name in ("continued_by", *reversed(_COUNTS)):
        op.drop_column("oai_history", name)


def _index_ended(columns: list[str]) -> None:
    """Index the end times with what a calendar adds up, so that it reads the index alone."""
    op.drop_index("ix_oai_history_ended", "oai_history")
    op.create_index("ix_oai_history_ended", "oai_history", ["harvest_end_time"], postgresql_include=columns)
