"""What the manager and the dashboard remember besides."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    op.add_column("web_user", sa.Column("time_zone", sa.Text(), nullable=True))
    op.add_column(
        "oai_repository", sa.Column("guarded", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.execute(
        "UPDATE oai_repository SET guarded = true"
        " WHERE repository_id IN (SELECT repository_id FROM web_repository_owner)"
    )
    op.add_column("oai_leader", sa.Column("per_host", sa.Integer(), nullable=True))
    op.add_column("oai_leader", sa.Column("overall", sa.Integer(), nullable=True))
    op.create_index("ix_oai_job_list", "oai_job", ["harvest_start_time", "job_id"])
    op.create_index("ix_oai_history_ended", "oai_history", ["harvest_end_time"])
