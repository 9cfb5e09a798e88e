"""The history's index by the time of the end once instead of twice, with what a calendar adds up."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ADDED_UP = ("repository_id", "status", "record_count", "new_count", "updated_count", "deleted_count")


def upgrade() -> None:
    """Make one index of two."""
    op.drop_index("ix_oai_history_harvest_end_time", table_name="oai_history")
    op.drop_index("ix_oai_history_ended", table_name="oai_history")
    op.create_index(
        "ix_oai_history_ended", "oai_history", ["harvest_end_time"], postgresql_include=list(_ADDED_UP)
    )
