"""Counts of the aggregate's sets whose harvested setSpec is empty or begins with a colon; former base URLs.

Such a set was taken for the source's own set, so that all records of the source were counted in it, too.
"""

import sqlalchemy as sa
from alembic import op

revision = "0073"
down_revision = "0072"
branch_labels = None
depends_on = None

_REMOVE = """
DELETE FROM aggregate_count USING aggregate_set
WHERE id = set_id AND harvested_spec = '' AND strpos(set_spec, ':') > 0
"""
_COUNT = """
INSERT INTO aggregate_count (set_id, format_id, records)
SELECT set_id, format_id, count(*)
FROM aggregate_set JOIN aggregate_membership ON set_id = id
WHERE harvested_spec = '' AND strpos(set_spec, ':') > 0
GROUP BY set_id, format_id
"""


def upgrade() -> None:
    """Count the records of these sets again, name the sets, and create the table."""
    op.execute(_REMOVE)
    op.execute(_COUNT)
    op.execute("UPDATE aggregate_set SET name = set_spec WHERE name = ''")
    op.create_table(
        "aggregate_former_address",
        sa.Column("repository_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["aggregate_source.repository_id"],
            name=op.f("fk_aggregate_former_address_repository_id"),
        ),
        sa.PrimaryKeyConstraint("repository_id", "until", name=op.f("pk_aggregate_former_address")),
    )


def downgrade() -> None:
    """Remove the table; the counts are right."""
    op.drop_table("aggregate_former_address")
