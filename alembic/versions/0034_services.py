"""Notices go to chat and push services, too."""

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_CHANNELS = {"notice_rule": "'mail', 'webhook'", "notice": "'mail', 'webhook', 'hook'"}


def upgrade() -> None:
    """Allow the channel."""
    for table, channels in _CHANNELS.items():
        op.drop_constraint(f"ck_{table}_channel", table)
        op.create_check_constraint(op.f(f"ck_{table}_channel"), table, f"channel IN ({channels}, 'service')")


def downgrade() -> None:
    """Forbid it again; its rules are removed."""
    op.execute("DELETE FROM notice WHERE channel = 'service'")
    op.execute("DELETE FROM notice_rule WHERE channel = 'service'")
    for table, channels in _CHANNELS.items():
        op.drop_constraint(f"ck_{table}_channel", table)
        op.create_check_constraint(op.f(f"ck_{table}_channel"), table, f"channel IN ({channels})")
