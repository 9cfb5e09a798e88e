"""Counts of the aggregate's sets whose harvested setSpec is empty or the empty part before a colon.

Such a set was taken for the source's own set, so that all records of the source were counted in it, too.
"""

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
    """Count the records of these sets again, and name the sets."""
    op.execute(_REMOVE)
    op.execute(_COUNT)
    op.execute("UPDATE aggregate_set SET name = set_spec WHERE name = ''")


def downgrade() -> None:
    """Leave the counts, which are right."""
