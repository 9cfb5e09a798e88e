"""Acknowledged failures, muted repositories and maintenance windows."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

_STATES = "state IN ('waiting', 'claimed', 'handed over', 'sent', 'given up', 'unsure'{more})"


def upgrade() -> None:
    """Create the table, and let notices be muted."""
    op.create_table(
        "mute",
        sa.Column("mute_id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=True),
        sa.Column("history_id", sa.BigInteger(), nullable=True),
        sa.Column("metadata_prefix", sa.Text(), nullable=True),
        sa.Column("set_spec", sa.Text(), nullable=True),
        sa.Column("failure_code", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("made_by", sa.Text(), server_default="", nullable=False),
        sa.Column("starts", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ends", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("kind IN ('acknowledged', 'muted', 'maintenance')", name=op.f("ck_mute_kind")),
        sa.CheckConstraint("(kind = 'acknowledged') = (history_id IS NOT NULL)", name=op.f("ck_mute_run")),
        sa.CheckConstraint("kind = 'acknowledged' OR ends IS NOT NULL", name=op.f("ck_mute_ends")),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name="fk_mute_repository_id_oai_repository",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("mute_id", name="pk_mute"),
    )
    op.create_index("ix_mute_repository_id", "mute", ["repository_id"])
    op.drop_constraint(op.f("ck_notice_state"), "notice")
    op.create_check_constraint(op.f("ck_notice_state"), "notice", _STATES.format(more=", 'muted'"))


def downgrade() -> None:
    """Remove them; muted notices become given up."""
    op.execute("UPDATE notice SET state = 'given up' WHERE state = 'muted'")
    op.drop_constraint(op.f("ck_notice_state"), "notice")
    op.create_check_constraint(op.f("ck_notice_state"), "notice", _STATES.format(more=""))
    op.drop_table("mute")
