"""Report cards of repositories, for their own administrators."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of links."""
    op.create_table(
        "web_report_card",
        sa.Column("repository_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.Column("checked", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name="fk_web_report_card_repository_id_oai_repository",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", name="pk_web_report_card"),
        sa.UniqueConstraint("token_hash", name="uq_web_report_card_token_hash"),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("web_report_card")
