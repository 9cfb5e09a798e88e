"""The history's index by the time of the end, which there was twice, once."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Remove the second one."""
    op.drop_index("ix_oai_history_harvest_end_time", table_name="oai_history")
