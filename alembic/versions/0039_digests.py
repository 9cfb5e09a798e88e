"""Weekly digests for the administrators of harvested repositories, if they have agreed."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "notice_digest",
        sa.Column("repository_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("card", sa.Text(), nullable=False),
        sa.Column("asked", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("confirmed", sa.DateTime(timezone=True), nullable=True),
        sa.Column("written", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("language IN ('en', 'cs', 'sk')", name=op.f("ck_notice_digest_language")),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name="fk_notice_digest_repository_id_oai_repository",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", name="pk_notice_digest"),
        sa.UniqueConstraint("token", name="uq_notice_digest_token"),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("notice_digest")
