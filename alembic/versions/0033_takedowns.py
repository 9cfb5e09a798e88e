"""The take-down register."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the register; what the staff has hidden so far stays hidden on its own account."""
    hidden = sa.Column("hidden", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    op.add_column("document", hidden, if_not_exists=True)
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM document WHERE deleted)")):
        # The column is committed first: readers must not wait for the update.
        with op.get_context().autocommit_block():
            op.execute("UPDATE document SET hidden = true WHERE deleted AND NOT hidden")
    op.create_table(
        "takedown",
        sa.Column("takedown_id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("targets", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=False),
        sa.Column("reference", sa.Text(), server_default="", nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lifted", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lifted_because", sa.Text(), nullable=True),
        sa.Column("unsettled", sa.DateTime(timezone=True), nullable=True),
        sa.Column("documents", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("takedown_id", name="pk_takedown"),
    )
    op.create_table(
        "takedown_range",
        sa.Column("takedown_id", sa.Integer(), nullable=False),
        sa.Column("low", sa.Text(collation="C"), nullable=False),
        sa.Column("high", sa.Text(collation="C"), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("outermost", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(
            ["takedown_id"],
            ["takedown.takedown_id"],
            name="fk_takedown_range_takedown_id_takedown",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("takedown_id", "low", "high", name="pk_takedown_range"),
    )
    op.create_index(
        "ix_takedown_range_outermost", "takedown_range", ["low"], postgresql_where=sa.text("outermost")
    )


def downgrade() -> None:
    """Remove it; what it covers stays hidden."""
    op.drop_table("takedown_range")
    op.drop_table("takedown")
    op.drop_column("document", "hidden")
