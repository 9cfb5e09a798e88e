"""Take-downs of all arguments of a URL cover captures whose only argument is a session id.

Keys have no session ids: that of `/page?sid=…` is `…/page`, which is outside of the range of `…/page?`.
"""

from alembic import op

revision = "0065"
down_revision = "0064"
branch_labels = None
depends_on = None

# As when a take-down is entered (`provider.holdings.takedowns`). Those in force are applied again, by the
# manager or by `zatva provider access refresh`. Those of directories have the key without the question mark.
_HOLD_REGISTER = "SELECT pg_advisory_xact_lock(x'7A61747464'::bigint)"
_COMPLETE = """
WITH bare AS (
    SELECT takedown_id, left(low, -1) AS key FROM takedown_range AS one
    WHERE active AND strpos(low, '?') = length(low) AND high = low || chr(1114111) AND NOT EXISTS (
        SELECT FROM takedown_range AS other
        WHERE other.takedown_id = one.takedown_id AND other.low = left(one.low, -1) AND other.high = other.low
    )
),
added AS (INSERT INTO takedown_range (takedown_id, low, high) SELECT takedown_id, key, key FROM bare)
UPDATE takedown SET unsettled = clock_timestamp() WHERE takedown_id IN (SELECT takedown_id FROM bare)
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
    """Complete the ranges, while no transaction adds documents, which could miss them."""
    op.execute(_HOLD_REGISTER)
    op.execute(_COMPLETE)
    op.execute(_FIND_OUTERMOST)


def downgrade() -> None:
    """Leave the ranges: they cover no more than was asked for."""
