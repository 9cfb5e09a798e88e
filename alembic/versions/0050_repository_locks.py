"""Locks that keep harvests off a repository, set and cleared by SQL."""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0045"
branch_labels = None
depends_on = None

_TIMES = "BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00'"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "oai_repository_lock",
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("holder", sa.Text(), server_default=sa.text("CURRENT_USER"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("locked", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column(
            "expires",
            sa.DateTime(timezone=True),
            server_default=sa.text("now() + interval '6 hours'"),
            nullable=False,
        ),
        sa.CheckConstraint("length(holder) BETWEEN 1 AND 200", name=op.f("ck_oai_repository_lock_holder")),
        sa.CheckConstraint("length(reason) BETWEEN 1 AND 2000", name=op.f("ck_oai_repository_lock_reason")),
        sa.CheckConstraint(f"locked {_TIMES}", name=op.f("ck_oai_repository_lock_locked")),
        sa.CheckConstraint(f"expires {_TIMES}", name=op.f("ck_oai_repository_lock_expires")),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name="fk_oai_repository_lock_repository_id_oai_repository",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", "holder", name="pk_oai_repository_lock"),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("oai_repository_lock")
