"""Replaced versions of harvested records."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "oai_record_version",
        sa.Column("version_id", sa.BigInteger(), sa.Identity(), primary_key=True),
        sa.Column("record_id", sa.BigInteger(), nullable=False),
        sa.Column("replaced", sa.TIMESTAMP(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("harvest_id", sa.Integer(), nullable=False),
        sa.Column("run_started", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("datestamp", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["record_id"],
            ["oai_record.record_id"],
            name="fk_oai_record_version_record_id_oai_record",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_oai_record_version_record_id", "oai_record_version", ["record_id", "version_id"])
    op.create_index("ix_oai_record_version_replaced", "oai_record_version", ["replaced"])


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("oai_record_version")
