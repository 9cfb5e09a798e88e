"""Titles: what is known about archived sites, the URL keys that belong to them, and their sets."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

_TEXT_C = sa.Text(collation="C")
_MOMENT = sa.DateTime(timezone=True)


def _texts(name: str) -> sa.Column[list[str]]:
    return sa.Column(name, sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "title",
        sa.Column("title_id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("key", sa.Uuid(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        _texts("alternative_names"),
        sa.Column("publisher", sa.Text(), nullable=True),
        sa.Column("annotation", sa.Text(), nullable=True),
        _texts("languages"),
        sa.Column("issn", sa.Text(), nullable=True),
        sa.Column("catalogue_number", sa.Text(), nullable=True),
        _texts("classification"),
        sa.Column("subjects", postgresql.JSONB(), server_default=sa.text("'[]'"), nullable=False),
        _texts("keywords"),
        _texts("collections"),
        sa.Column("state", sa.Text(), nullable=True),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("access", sa.Text(), nullable=True),
        sa.Column("licence", sa.Text(), nullable=True),
        sa.Column("contract_from", sa.Date(), nullable=True),
        sa.Column("contract_to", sa.Date(), nullable=True),
        sa.Column("imported", _MOMENT, server_default=sa.text("now()"), nullable=False),
        sa.Column("gone", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("captures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("first_capture", _MOMENT, nullable=True),
        sa.Column("last_capture", _MOMENT, nullable=True),
        sa.Column("captures_by_year", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("datestamp", _MOMENT, nullable=False),
        sa.Column("deleted", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("shown_digest", sa.Text(), nullable=True),
        sa.CheckConstraint("access IN ('open', 'reading room', 'withheld')", name=op.f("ck_title_access")),
        sa.PrimaryKeyConstraint("title_id", name=op.f("pk_title")),
        sa.UniqueConstraint("key", name=op.f("uq_title_key")),
        sa.UniqueConstraint("source", "source_key", name=op.f("uq_title_source_source_key")),
    )
    op.create_index("ix_title_datestamp", "title", ["datestamp", "key"])
    op.create_table(
        "title_seed",
        sa.Column("title_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), server_default="include", nullable=False),
        sa.Column("main", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("harvested_from", sa.Date(), nullable=True),
        sa.Column("harvested_to", sa.Date(), nullable=True),
        sa.CheckConstraint("kind IN ('include', 'carve-out')", name=op.f("ck_title_seed_kind")),
        sa.ForeignKeyConstraint(
            ["title_id"], ["title.title_id"], name=op.f("fk_title_seed_title_id_title"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("title_id", "position", name=op.f("pk_title_seed")),
    )
    op.create_table(
        "title_segment",
        sa.Column("low", _TEXT_C, nullable=False),
        sa.Column("high", _TEXT_C, nullable=False),
        sa.Column("title_id", sa.Integer(), nullable=False),
        sa.Column("is_carve_out", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("access", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["title_id"], ["title.title_id"], name=op.f("fk_title_segment_title_id_title"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("low", name=op.f("pk_title_segment")),
    )
    op.create_index(op.f("ix_title_segment_title_id"), "title_segment", ["title_id"])
    op.create_index(
        "ix_title_segment_closed",
        "title_segment",
        ["low"],
        postgresql_where=sa.text("access IN ('reading room', 'withheld')"),
    )
    op.create_table(
        "title_pending",
        sa.Column("low", _TEXT_C, nullable=False),
        sa.Column("high", _TEXT_C, nullable=False),
        sa.PrimaryKeyConstraint("low", "high", name=op.f("pk_title_pending")),
    )
    op.create_table(
        "title_set",
        sa.Column("set_spec", _TEXT_C, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("set_spec", name=op.f("pk_title_set")),
    )
    op.create_table(
        "title_membership",
        sa.Column("title_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("set_spec", _TEXT_C, nullable=False),
        sa.Column("datestamp", _MOMENT, nullable=False),
        sa.Column("key", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["set_spec"], ["title_set.set_spec"], name=op.f("fk_title_membership_set_spec_title_set")
        ),
        sa.ForeignKeyConstraint(
            ["title_id"],
            ["title.title_id"],
            name=op.f("fk_title_membership_title_id_title"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("title_id", "set_spec", name=op.f("pk_title_membership")),
    )
    op.create_index("ix_title_membership_page", "title_membership", ["set_spec", "datestamp", "key"])
    op.create_table(
        "title_count",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("counted", _MOMENT, nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_title_count_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_title_count")),
    )


def downgrade() -> None:
    """Remove the tables."""
    for table in ("count", "membership", "set", "pending", "segment", "seed"):
        op.drop_table(f"title_{table}")
    op.drop_table("title")
