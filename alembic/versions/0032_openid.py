"""Users may sign in with an account of an OpenID provider."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of accounts."""
    op.create_table(
        "web_identity",
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_used", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["web_user.user_id"], name="fk_web_identity_user_id_web_user", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("issuer", "subject", name="pk_web_identity"),
    )
    op.create_index("ix_web_identity_user_id", "web_identity", ["user_id"])


def downgrade() -> None:
    """Remove it."""
    op.drop_table("web_identity")
