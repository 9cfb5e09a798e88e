"""Harvested records as our provider gives them out again."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "aggregate_source",
        sa.Column("repository_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("identifiers", sa.Text(), nullable=False),
        sa.Column("altered", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("added", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("withdrawn", sa.DateTime(timezone=True), nullable=True),
        sa.Column("walk", sa.Text(), nullable=True),
        sa.Column("walked_prefix", sa.Text(), server_default="", nullable=False),
        sa.Column("walked_key", sa.Uuid(), nullable=True),
        sa.Column("seen_history", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "identifiers IN ('original', 'own')", name=op.f("ck_aggregate_source_identifiers")
        ),
        sa.PrimaryKeyConstraint("repository_id", name=op.f("pk_aggregate_source")),
        sa.UniqueConstraint("name", name=op.f("uq_aggregate_source_name")),
    )
    op.create_table(
        "aggregate_format",
        sa.Column("id", sa.SmallInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("harvested_prefix", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("schema", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregate_format")),
        sa.UniqueConstraint("prefix", name=op.f("uq_aggregate_format_prefix")),
        sa.UniqueConstraint(
            "harvested_prefix", "namespace", name=op.f("uq_aggregate_format_harvested_prefix_namespace")
        ),
    )
    op.create_table(
        "aggregate_set",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("set_spec", sa.Text(collation="C"), nullable=False),
        sa.Column("harvested_spec", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("lineage", sa.ARRAY(sa.Integer()), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["aggregate_source.repository_id"],
            name=op.f("fk_aggregate_set_repository_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregate_set")),
        sa.UniqueConstraint("set_spec", name=op.f("uq_aggregate_set_set_spec")),
    )
    op.create_table(
        "aggregate_count",
        sa.Column("set_id", sa.Integer(), nullable=False),
        sa.Column("format_id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["aggregate_set.id"], name=op.f("fk_aggregate_count_set_id")),
        sa.ForeignKeyConstraint(
            ["format_id"], ["aggregate_format.id"], name=op.f("fk_aggregate_count_format_id")
        ),
        sa.PrimaryKeyConstraint("set_id", "format_id", name=op.f("pk_aggregate_count")),
    )
    op.create_table(
        "aggregate_record",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("format_id", sa.SmallInteger(), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("identifier_key", sa.Uuid(), nullable=False),
        sa.Column("harvested_identifier", sa.Text(), nullable=False),
        sa.Column("harvested_key", sa.Uuid(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.Column("datestamp", sa.DateTime(timezone=True), nullable=False),
        sa.Column("harvested_datestamp", sa.Text(), nullable=False),
        sa.Column("harvest_time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("altered", sa.Boolean(), nullable=False),
        sa.Column("set_ids", sa.ARRAY(sa.Integer()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregate_record")),
        sa.UniqueConstraint(
            "identifier_key",
            "format_id",
            "repository_id",
            name=op.f("uq_aggregate_record_identifier_key_format_id_repository_id"),
        ),
    )
    op.create_index(
        "ix_aggregate_record_page", "aggregate_record", ["format_id", "datestamp", "id"], unique=False
    )
    op.create_index(
        "ix_aggregate_record_source",
        "aggregate_record",
        ["repository_id", "format_id", "datestamp", "id"],
        unique=False,
    )
    op.create_table(
        "aggregate_membership",
        sa.Column("record_id", sa.BigInteger(), nullable=False),
        sa.Column("set_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("format_id", sa.SmallInteger(), nullable=False),
        sa.Column("datestamp", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["record_id"],
            ["aggregate_record.id"],
            name=op.f("fk_aggregate_membership_record_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("record_id", "set_id", name=op.f("pk_aggregate_membership")),
    )
    op.create_index(
        "ix_aggregate_membership_page",
        "aggregate_membership",
        ["set_id", "format_id", "datestamp", "record_id"],
        unique=False,
    )
    op.create_table(
        "aggregate_unreadable",
        sa.Column("record_id", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("noticed", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("looked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["record_id"],
            ["aggregate_record.id"],
            name=op.f("fk_aggregate_unreadable_record_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("record_id", name=op.f("pk_aggregate_unreadable")),
    )
    op.create_table(
        "aggregate_feed",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("transaction_id", sa.BigInteger(), nullable=False),
        sa.Column("change_id", sa.BigInteger(), nullable=False),
        sa.Column("followed", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_aggregate_feed_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregate_feed")),
    )
