"""What was converted from harvested records into bibliographic rows."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bibliographic_set",
        sa.Column("set_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("match", sa.Text(), server_default="all", nullable=False),
        sa.Column("revision", sa.Integer(), server_default="1", nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("match IN ('any', 'all')", name=op.f("ck_bibliographic_set_match")),
        sa.PrimaryKeyConstraint("set_id", name=op.f("pk_bibliographic_set")),
        sa.UniqueConstraint("name", name=op.f("uq_bibliographic_set_name")),
    )
    op.create_table(
        "bibliographic_import",
        sa.Column("import_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), server_default="running", nullable=False),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("updated", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expected", sa.BigInteger(), nullable=True),
        sa.Column("seen_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("new_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("updated_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("unchanged_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("deleted_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("filtered_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("refused_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("total_count", sa.BigInteger(), nullable=True),
        sa.Column("failure_reason", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("process_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_bibliographic_import_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("import_id", name=op.f("pk_bibliographic_import")),
    )
    op.create_index(
        "ix_bibliographic_import_repository_id",
        "bibliographic_import",
        ["repository_id", sa.literal_column("import_id DESC")],
        unique=False,
    )
    op.create_table(
        "bibliographic_omission",
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=False),
        sa.Column("identifier_key", sa.Uuid(), nullable=False),
        sa.Column("file_digest", sa.LargeBinary(), nullable=True),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.CheckConstraint(
            "kind IN ('filtered', 'refused', 'unreadable')", name=op.f("ck_bibliographic_omission_kind")
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_bibliographic_omission_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "repository_id", "metadata_prefix", "identifier_key", name=op.f("pk_bibliographic_omission")
        ),
    )
    op.create_table(
        "bibliographic_record",
        sa.Column("bibliographic_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=False),
        sa.Column("identifier_key", sa.Uuid(), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("datestamp", sa.Text(), nullable=False),
        sa.Column("file_digest", sa.LargeBinary(), nullable=True),
        sa.Column("content_digest", sa.LargeBinary(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("imported", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("control_number", sa.Text(), server_default="", nullable=False),
        sa.Column("control_source", sa.Text(), server_default="", nullable=False),
        sa.Column("kind", sa.Text(), server_default="other", nullable=False),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("subtitle", sa.Text(), server_default="", nullable=False),
        sa.Column("sort_title", sa.Text(collation="C"), server_default="", nullable=False),
        sa.Column("statement", sa.Text(), server_default="", nullable=False),
        sa.Column("place", sa.Text(), server_default="", nullable=False),
        sa.Column("publisher", sa.Text(), server_default="", nullable=False),
        sa.Column("date_text", sa.Text(), server_default="", nullable=False),
        sa.Column("year_from", sa.SmallInteger(), nullable=True),
        sa.Column("year_to", sa.SmallInteger(), nullable=True),
        sa.Column("sort_year", sa.SmallInteger(), server_default="-32768", nullable=False),
        sa.Column("country", sa.Text(), server_default="", nullable=False),
        sa.Column("edition", sa.Text(), server_default="", nullable=False),
        sa.Column("extent", sa.Text(), server_default="", nullable=False),
        sa.Column("languages", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column(
            "original_languages", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.Column(
            "titles", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column(
            "publications",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
        ),
        sa.Column(
            "series", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column(
            "subjects",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
        ),
        sa.Column(
            "genres", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column(
            "related", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column(
            "links", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column(
            "notes", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column("words", postgresql.TSVECTOR(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_bibliographic_record_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("bibliographic_id", name=op.f("pk_bibliographic_record")),
        sa.UniqueConstraint(
            "repository_id",
            "metadata_prefix",
            "identifier_key",
            name=op.f("uq_bibliographic_record_repository_id_metadata_prefix_identifier_key"),
        ),
    )
    op.create_index("ix_bibliographic_record_kind", "bibliographic_record", ["kind"], unique=False)
    op.create_index(
        "ix_bibliographic_record_languages",
        "bibliographic_record",
        ["languages"],
        unique=False,
        postgresql_using="gin",
    )
    op.create_index(
        "ix_bibliographic_record_sort_title",
        "bibliographic_record",
        ["sort_title", "bibliographic_id"],
        unique=False,
    )
    op.create_index(
        "ix_bibliographic_record_sort_year",
        "bibliographic_record",
        ["sort_year", "bibliographic_id"],
        unique=False,
    )
    op.create_index(
        "ix_bibliographic_record_words",
        "bibliographic_record",
        ["words"],
        unique=False,
        postgresql_using="gin",
    )
    op.create_table(
        "bibliographic_set_condition",
        sa.Column("set_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("first_character", sa.SmallInteger(), nullable=True),
        sa.Column("last_character", sa.SmallInteger(), nullable=True),
        sa.Column("indicators", sa.Text(), server_default="", nullable=False),
        sa.Column("subfield", sa.Text(), server_default="", nullable=False),
        sa.Column("operator", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), server_default="", nullable=False),
        sa.Column("inverted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.CheckConstraint(
            "operator IN ('equals', 'contains', 'matches', 'exists')",
            name=op.f("ck_bibliographic_set_condition_operator"),
        ),
        sa.ForeignKeyConstraint(
            ["set_id"],
            ["bibliographic_set.set_id"],
            name=op.f("fk_bibliographic_set_condition_set_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("set_id", "position", name=op.f("pk_bibliographic_set_condition")),
    )
    op.create_table(
        "bibliographic_source",
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("record_url_template", sa.Text(), nullable=True),
        sa.Column("after_harvest", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=True),
        sa.Column("set_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_bibliographic_source_repository_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["set_id"],
            ["bibliographic_set.set_id"],
            name=op.f("fk_bibliographic_source_set_id"),
            ondelete="RESTRICT",
        ),
        sa.PrimaryKeyConstraint("repository_id", name=op.f("pk_bibliographic_source")),
    )
    op.create_index(op.f("ix_bibliographic_source_set_id"), "bibliographic_source", ["set_id"], unique=False)
    op.create_table(
        "bibliographic_contributor",
        sa.Column("bibliographic_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("dates", sa.Text(), server_default="", nullable=False),
        sa.Column("titles", sa.Text(), server_default="", nullable=False),
        sa.Column("roles", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column(
            "authority_ids", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.Column("work", sa.Text(), server_default="", nullable=False),
        sa.Column("main", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("linked", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(
            ["bibliographic_id"],
            ["bibliographic_record.bibliographic_id"],
            name=op.f("fk_bibliographic_contributor_bibliographic_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("bibliographic_id", "position", name=op.f("pk_bibliographic_contributor")),
    )
    op.create_index(
        "ix_bibliographic_contributor_authority_ids",
        "bibliographic_contributor",
        ["authority_ids"],
        unique=False,
        postgresql_using="gin",
        postgresql_where=sa.text("authority_ids <> '{}'::text[]"),
    )
    op.create_table(
        "bibliographic_identifier",
        sa.Column("bibliographic_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("scheme", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("found", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="valid", nullable=False),
        sa.Column("qualifier", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(
            ["bibliographic_id"],
            ["bibliographic_record.bibliographic_id"],
            name=op.f("fk_bibliographic_identifier_bibliographic_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("bibliographic_id", "position", name=op.f("pk_bibliographic_identifier")),
    )
    op.create_index(
        "ix_bibliographic_identifier_value",
        "bibliographic_identifier",
        ["value"],
        unique=False,
        postgresql_using="hash",
    )
    op.add_column(
        "oai_repository", sa.Column("protocol", sa.Text(), server_default="oai-pmh", nullable=False)
    )
    op.create_check_constraint(
        op.f("ck_oai_repository_protocol"), "oai_repository", "protocol IN ('oai-pmh', 'sru', 'z39.50')"
    )
