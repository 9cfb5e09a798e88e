"""Locks that keep harvests off a repository; what each indexing run has published."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

_TIMES = "BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00'"


def upgrade() -> None:
    """Create the tables."""
    _create_locks()
    _create_loads()


def _create_locks() -> None:
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


def _create_loads() -> None:
    op.create_table(
        "load",
        sa.Column("load_id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("begun", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("collection_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["index_run.id"], name="fk_load_run_id_index_run", ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collection.id"], name="fk_load_collection_id_collection", ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("load_id", name="pk_load"),
        sa.UniqueConstraint("run_id", name="uq_load_run_id"),
    )
    op.create_table(
        "load_part",
        sa.Column("part_id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("load_id", sa.Integer(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("new", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("domains", JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["load_id"], ["load.load_id"], name="fk_load_part_load_id_load", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("part_id", name="pk_load_part"),
    )
    op.create_index("ix_load_part_load_id_until", "load_part", ["load_id", "until"])


def downgrade() -> None:
    """Remove them."""
    op.drop_table("load_part")
    op.drop_table("load")
    op.drop_table("oai_repository_lock")
