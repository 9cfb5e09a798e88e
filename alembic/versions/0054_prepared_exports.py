"""Files that are prepared for download, and the documents in each."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    _create_exports()
    op.create_table(
        "prepared_export_part",
        sa.Column("part_id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("export_id", sa.Integer(), nullable=False),
        sa.Column("content", sa.Boolean(), nullable=False),
        sa.Column("documents", ARRAY(sa.BigInteger()), nullable=False),
        sa.ForeignKeyConstraint(
            ["export_id"],
            ["prepared_export.export_id"],
            name=op.f("fk_prepared_export_part_export_id_prepared_export"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("part_id", name=op.f("pk_prepared_export_part")),
    )
    op.create_index(op.f("ix_prepared_export_part_export_id"), "prepared_export_part", ["export_id"])


def _create_exports() -> None:
    op.create_table(
        "prepared_export",
        sa.Column("export_id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("selection", JSONB(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("reading_room", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), server_default="queued", nullable=False),
        sa.Column("queued", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("started", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("chosen", sa.BigInteger(), nullable=True),
        sa.Column("examined", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("captures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("left_out", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("removed", sa.DateTime(timezone=True), nullable=True),
        sa.Column("removed_by", sa.Text(), nullable=True),
        sa.Column("failure_code", sa.Text(), nullable=True),
        sa.Column("failure_facts", JSONB(), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'ready', 'failed', 'removed')",
            name=op.f("ck_prepared_export_state"),
        ),
        sa.CheckConstraint("form IN ('warc', 'wacz')", name=op.f("ck_prepared_export_form")),
        sa.PrimaryKeyConstraint("export_id", name=op.f("pk_prepared_export")),
    )
    op.create_index(
        "ix_prepared_export_open",
        "prepared_export",
        ["export_id"],
        postgresql_where=sa.text("state IN ('queued', 'running', 'ready')"),
    )


def downgrade() -> None:
    """Remove them."""
    op.drop_table("prepared_export_part")
    op.drop_table("prepared_export")
