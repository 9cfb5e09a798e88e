"""Second factor, idle sessions, known browsers; every API token expires."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0020"
branch_labels = None
depends_on = None

_DAYS = 365
"""Default greatest age; tokens without an end get it from the upgrade on, so that none ends at once."""


def upgrade() -> None:
    """Add the columns and tables."""
    op.add_column("web_user", sa.Column("totp_secret", sa.Text(), nullable=True))
    op.add_column("web_user", sa.Column("totp_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("web_user", sa.Column("totp_step", sa.BigInteger(), nullable=True))
    _add_to_sessions()
    op.add_column("web_sign_in_attempt", sa.Column("user_name", sa.Text(), server_default="", nullable=False))
    op.create_table(
        "web_recovery_code",
        sa.Column("code_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("used", sa.DateTime(timezone=True), nullable=True),
        *_keys("web_recovery_code", "code_hash"),
    )
    op.create_index("ix_web_recovery_code_user_id", "web_recovery_code", ["user_id"])
    op.create_table(
        "web_known_browser",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        *_keys("web_known_browser", "token_hash"),
    )
    op.create_index("ix_web_known_browser_user_id", "web_known_browser", ["user_id"])
    endless = sa.text(
        "UPDATE web_api_token SET expires = now() + :days * interval '1 day' WHERE expires IS NULL"
    )
    op.execute(endless.bindparams(days=_DAYS))
    op.alter_column(
        "web_api_token",
        "expires",
        nullable=False,
        server_default=sa.text(f"now() + interval '{_DAYS} days'"),
    )


def downgrade() -> None:
    """Drop what was added; tokens keep their end."""
    op.alter_column("web_api_token", "expires", nullable=True, server_default=None)
    op.drop_table("web_known_browser")
    op.drop_table("web_recovery_code")
    op.drop_column("web_sign_in_attempt", "user_name")
    for column in ("awaits_code", "confirmed", "idle_until"):
        op.drop_column("web_session", column)
    for column in ("totp_step", "totp_since", "totp_secret"):
        op.drop_column("web_user", column)


def _add_to_sessions() -> None:
    moment = sa.DateTime(timezone=True)
    for name, default in (("idle_until", "now() + interval '1 hour'"), ("confirmed", "now()")):
        op.add_column("web_session", sa.Column(name, moment, server_default=sa.text(default), nullable=False))
    op.add_column(
        "web_session",
        sa.Column("awaits_code", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )


def _keys(table: str, column: str) -> tuple[sa.Constraint, ...]:
    return (
        sa.PrimaryKeyConstraint(column, name=f"pk_{table}"),
        sa.ForeignKeyConstraint(
            ["user_id"], ["web_user.user_id"], name=f"fk_{table}_user_id_web_user", ondelete="CASCADE"
        ),
    )
