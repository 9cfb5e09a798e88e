"""Job pages: samples of a running harvest's speed, and an index of the jobs that are not merely planned."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    op.add_column(
        "oai_harvest",
        sa.Column("pace", postgresql.JSONB(), server_default=sa.text("'[]'"), nullable=False),
    )
    op.create_index(
        "ix_oai_job_current",
        "oai_job",
        ["harvest_start_time", "job_id"],
        postgresql_where=sa.text("status <> 0 OR attempt <> 0"),
    )


def downgrade() -> None:
    """Remove them."""
    op.drop_index("ix_oai_job_current", "oai_job")
    op.drop_column("oai_harvest", "pace")
