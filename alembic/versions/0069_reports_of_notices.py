"""Many notices to one recipient are collected and sent as one report."""

import sqlalchemy as sa
from alembic import op

revision = "0069"
down_revision = "0068"
branch_labels = None
depends_on = None

_STATES = "state IN ('waiting', 'claimed', 'handed over', 'sent', 'given up', 'unsure', 'muted'{more})"


def upgrade() -> None:
    """Add the state and the report; the index by rule also finds what was sent within the last hour."""
    op.add_column("notice", sa.Column("report_id", sa.BigInteger()))
    op.create_foreign_key(
        "fk_notice_report_id_notice", "notice", "notice", ["report_id"], ["notice_id"], ondelete="SET NULL"
    )
    op.create_index(
        "ix_notice_report_id", "notice", ["report_id"], postgresql_where=sa.text("report_id IS NOT NULL")
    )
    op.create_index("ix_notice_rule_id_ended", "notice", ["rule_id", "ended"])
    op.drop_index("ix_notice_rule_id", "notice")
    op.drop_constraint(op.f("ck_notice_state"), "notice")
    op.create_check_constraint(op.f("ck_notice_state"), "notice", _STATES.format(more=", 'collected'"))


def downgrade() -> None:
    """Remove them; notices that no report has reached are sent one by one, the others count as sent."""
    op.execute(
        "UPDATE notice SET state = 'waiting', ended = NULL, due = now(), last_error = NULL"
        " WHERE state = 'collected' AND (ended IS NULL OR report_id IN"
        " (SELECT notice_id FROM notice WHERE occasion = 'report' AND ended IS NULL))"
    )
    op.execute("UPDATE notice SET state = 'sent' WHERE state = 'collected'")
    op.execute("DELETE FROM notice WHERE occasion = 'report'")
    op.drop_constraint(op.f("ck_notice_state"), "notice")
    op.create_check_constraint(op.f("ck_notice_state"), "notice", _STATES.format(more=""))
    op.create_index("ix_notice_rule_id", "notice", ["rule_id"])
    op.drop_index("ix_notice_rule_id_ended", "notice")
    op.drop_column("notice", "report_id")
