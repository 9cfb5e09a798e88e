"""Take-downs of directories cover their front pages, and ranges have numbers instead of keys in their index.

The keys of `/blog/` and `/blog/?page=2` are `…/blog` and `…/blog?page=2`, which are outside of the range of
`…/blog/`.
"""

import sqlalchemy as sa
from alembic import op

revision = "0064"
down_revision = "0063"
branch_labels = None
depends_on = None

# As when a take-down is entered (`provider.holdings.takedowns`). Those in force are applied again, by the
# manager or by `zatva provider access refresh`.
_COMPLETE = """
WITH directory AS (
    SELECT takedown_id, left(low, -1) AS key FROM takedown_range
    WHERE active AND low LIKE '%/' AND strpos(low, '?') = 0 AND high = low || chr(1114111)
        AND substr(low, strpos(low, ')') + 1) <> '/'
),
added AS (
    INSERT INTO takedown_range (takedown_id, low, high)
    SELECT takedown_id, key, key FROM directory
    UNION ALL SELECT takedown_id, key || '?', key || '?' || chr(1114111) FROM directory
)
UPDATE takedown SET unsettled = clock_timestamp() WHERE takedown_id IN (SELECT takedown_id FROM directory)
"""
_FIND_OUTERMOST = """
WITH ordered AS (
    SELECT range_id, active AND coalesce(max(high) FILTER (WHERE active) OVER (
        ORDER BY low, high DESC, range_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) < high, active) AS outermost
    FROM takedown_range WHERE active OR outermost
)
UPDATE takedown_range AS kept SET outermost = ordered.outermost
FROM ordered
WHERE kept.range_id = ordered.range_id AND kept.outermost <> ordered.outermost
"""


def upgrade() -> None:
    """Number the ranges, and complete those of directories; loaders see all ranges or the former ones."""
    op.drop_constraint("pk_takedown_range", "takedown_range")
    op.add_column("takedown_range", sa.Column("range_id", sa.BigInteger(), sa.Identity(), nullable=False))
    op.create_primary_key("pk_takedown_range", "takedown_range", ["takedown_id", "range_id"])
    op.execute(_COMPLETE)
    op.execute(_FIND_OUTERMOST)


def downgrade() -> None:
    """Remove the numbers; the ranges stay."""
    op.execute(
        "DELETE FROM takedown_range AS one USING takedown_range AS other"
        " WHERE (one.takedown_id, one.low, one.high) = (other.takedown_id, other.low, other.high)"
        " AND one.range_id > other.range_id"
    )
    op.drop_column("takedown_range", "range_id")
    op.create_primary_key("pk_takedown_range", "takedown_range", ["takedown_id", "low", "high"])
