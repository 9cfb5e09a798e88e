"""The first tables, and those of the task queue."""

import sqlalchemy as sa
from alembic import op
from procrastinate.schema import SchemaManager
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "arc",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("modified", sa.DateTime(timezone=True), nullable=False),
        sa.Column("documents", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("indexed", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_arc")),
        sa.UniqueConstraint("path", name=op.f("uq_arc_path")),
    )
    op.create_index(op.f("ix_arc_name"), "arc", ["name"], unique=False)
    op.create_table(
        "collection",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("set_spec", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("access", sa.Text(), server_default="open", nullable=False),
        sa.Column("embargo_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("documents", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "access IN ('open', 'reading room', 'embargo', 'withheld')", name=op.f("ck_collection_access")
        ),
        sa.ForeignKeyConstraint(["parent_id"], ["collection.id"], name=op.f("fk_collection_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_collection")),
        sa.UniqueConstraint("set_spec", name=op.f("uq_collection_set_spec")),
    )
    op.create_table(
        "domain",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("set_spec", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("level", sa.SmallInteger(), nullable=False),
        sa.Column("documents", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["parent_id"], ["domain.id"], name=op.f("fk_domain_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_domain")),
        sa.UniqueConstraint("set_spec", name=op.f("uq_domain_set_spec")),
    )
    op.create_table(
        "mimetype",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("set_spec", sa.Text(collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("documents", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["parent_id"], ["mimetype.id"], name=op.f("fk_mimetype_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mimetype")),
        sa.UniqueConstraint("set_spec", name=op.f("uq_mimetype_set_spec")),
    )
    op.create_table(
        "oai_metadata_format",
        sa.Column("prefix_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=False),
        sa.Column("metadata_schema", sa.Text(), server_default="", nullable=False),
        sa.Column("metadata_namespace", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("prefix_id", name=op.f("pk_oai_metadata_format")),
        sa.UniqueConstraint(
            "metadata_prefix",
            "metadata_schema",
            "metadata_namespace",
            name=op.f("uq_oai_metadata_format_metadata_prefix_metadata_schema_metadata_namespace"),
        ),
    )
    op.create_table(
        "oai_repository",
        sa.Column("repository_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_name", sa.Text(), nullable=True),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("base_dir", sa.Text(), nullable=False),
        sa.Column("protocol_version", sa.Text(), nullable=True),
        sa.Column("admin_email", sa.Text(), nullable=True),
        sa.Column("registry_prefix", sa.Text(), nullable=True),
        sa.Column("date_added", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("granularity", sa.Text(), nullable=True),
        sa.Column("deleted_record", sa.Text(), nullable=True),
        sa.Column("earliest_datestamp", sa.Text(), nullable=True),
        sa.Column("identified", sa.DateTime(timezone=True), nullable=True),
        sa.Column("plain_prefix", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("repository_id", name=op.f("pk_oai_repository")),
        sa.UniqueConstraint("base_url", "base_dir", name=op.f("uq_oai_repository_base_url_base_dir")),
    )
    op.create_table(
        "signing_key",
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("purpose", name=op.f("pk_signing_key")),
    )
    op.create_table(
        "web_user",
        sa.Column("user_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), server_default="viewer", nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("role IN ('viewer', 'administrator')", name=op.f("ck_web_user_role")),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_web_user")),
        sa.UniqueConstraint("name", name=op.f("uq_web_user_name")),
    )
    op.create_table(
        "arc_problem",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("arc_id", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["arc_id"], ["arc.id"], name=op.f("fk_arc_problem_arc_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_arc_problem")),
    )
    op.create_index(op.f("ix_arc_problem_arc_id"), "arc_problem", ["arc_id"], unique=False)
    op.create_table(
        "document",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("key", sa.Uuid(), nullable=False),
        sa.Column("arc_id", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("url", sa.Text(collation="C"), nullable=False),
        sa.Column("archived", sa.DateTime(timezone=True), nullable=False),
        sa.Column("datestamp", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tld_id", sa.Integer(), nullable=True),
        sa.Column("domain_id", sa.Integer(), nullable=True),
        sa.Column("host_id", sa.Integer(), nullable=True),
        sa.Column("mime_major_id", sa.Integer(), nullable=False),
        sa.Column("mime_id", sa.Integer(), nullable=False),
        sa.Column("http_status", sa.SmallInteger(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("record_type", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("deleted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(["arc_id"], ["arc.id"], name=op.f("fk_document_arc_id")),
        sa.ForeignKeyConstraint(["host_id"], ["domain.id"], name=op.f("fk_document_host_id")),
        sa.ForeignKeyConstraint(["mime_id"], ["mimetype.id"], name=op.f("fk_document_mime_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_document")),
        sa.UniqueConstraint("key", name=op.f("uq_document_key")),
    )
    op.create_index(op.f("ix_document_arc_id"), "document", ["arc_id"], unique=False)
    op.create_index("ix_document_datestamp", "document", ["datestamp", "id"], unique=False)
    op.create_index(
        "ix_document_deleted", "document", ["id"], unique=False, postgresql_where=sa.text("deleted")
    )
    op.create_index("ix_document_domain", "document", ["domain_id", "datestamp", "id"], unique=False)
    op.create_index("ix_document_host", "document", ["host_id", "datestamp", "id"], unique=False)
    op.create_index("ix_document_mime", "document", ["mime_id", "datestamp", "id"], unique=False)
    op.create_index("ix_document_mime_major", "document", ["mime_major_id", "datestamp", "id"], unique=False)
    op.create_index("ix_document_tld", "document", ["tld_id", "datestamp", "id"], unique=False)
    op.create_index(
        "ix_document_url", "document", [sa.literal_column("left(url, 512)"), "archived"], unique=False
    )
    op.create_table(
        "oai_directory",
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("path_key", sa.Uuid(), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_directory_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", "path_key", name=op.f("pk_oai_directory")),
    )
    op.create_table(
        "oai_harvest",
        sa.Column("harvest_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=False),
        sa.Column("set_spec", sa.Text(), server_default="", nullable=False),
        sa.Column("watermark", sa.Text(), nullable=True),
        sa.Column("resumption_token", sa.Text(), nullable=True),
        sa.Column("run_parameters", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("run_response_date", sa.Text(), nullable=True),
        sa.Column("run_started", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "counts", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.Column("complete_list_size", sa.BigInteger(), nullable=True),
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.Column("process_id", sa.Integer(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("updated", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_harvest_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("harvest_id", name=op.f("pk_oai_harvest")),
        sa.UniqueConstraint(
            "repository_id",
            "metadata_prefix",
            "set_spec",
            name=op.f("uq_oai_harvest_repository_id_metadata_prefix_set_spec"),
        ),
    )
    op.create_index(op.f("ix_oai_harvest_job_id"), "oai_harvest", ["job_id"], unique=False)
    op.create_table(
        "oai_history",
        sa.Column("history_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("record_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("harvest_start_time", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "harvest_end_time", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.Column("recurring_id", sa.Integer(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), server_default="failed", nullable=False),
        sa.Column("failure_reason", sa.Text(), nullable=True),
        sa.Column("set_spec", sa.Text(), nullable=True),
        sa.Column("metadata_prefix", sa.Text(), nullable=True),
        sa.Column("new_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("updated_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("unchanged_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("deleted_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("filtered_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("invalid_count", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("requests", sa.Integer(), server_default="0", nullable=False),
        sa.Column("bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column(
            "warnings",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
        ),
        sa.Column(
            "evidence",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("harvest_method", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("process_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_history_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("history_id", name=op.f("pk_oai_history")),
    )
    op.create_index(
        op.f("ix_oai_history_harvest_end_time"), "oai_history", ["harvest_end_time"], unique=False
    )
    op.create_index(op.f("ix_oai_history_job_id"), "oai_history", ["job_id"], unique=False)
    op.create_index(op.f("ix_oai_history_repository_id"), "oai_history", ["repository_id"], unique=False)
    op.create_table(
        "oai_prefix_mapping",
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("prefix_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["prefix_id"],
            ["oai_metadata_format.prefix_id"],
            name=op.f("fk_oai_prefix_mapping_prefix_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_prefix_mapping_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", "prefix_id", name=op.f("pk_oai_prefix_mapping")),
    )
    op.create_table(
        "oai_record",
        sa.Column("record_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("identifier_key", sa.Uuid(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=True),
        sa.Column(
            "harvest_time", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("datestamp", sa.Text(), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="active", nullable=False),
        sa.Column("update_flag", sa.Text(), server_default="new", nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint("status IN ('active', 'deleted')", name=op.f("ck_oai_record_status")),
        sa.CheckConstraint(
            "update_flag IN ('new', 'updated', 'unchanged', 'deleted')",
            name=op.f("ck_oai_record_update_flag"),
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_record_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("record_id", name=op.f("pk_oai_record")),
        sa.UniqueConstraint(
            "repository_id",
            "metadata_prefix",
            "identifier_key",
            name=op.f("uq_oai_record_repository_id_metadata_prefix_identifier_key"),
        ),
    )
    op.create_index(
        "uq_oai_record_filename",
        "oai_record",
        ["repository_id", sa.literal_column("md5(lower(filename))")],
        unique=True,
        postgresql_where=sa.text("filename IS NOT NULL"),
    )
    op.create_table(
        "oai_recurring_job",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("start_date", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("end_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("harvest_from", sa.Text(), nullable=True),
        sa.Column("harvest_to", sa.Text(), nullable=True),
        sa.Column("frequency", sa.Text(), nullable=True),
        sa.Column("time_zone", sa.Text(), server_default="UTC", nullable=False),
        sa.Column("set_spec", sa.Text(), nullable=True),
        sa.Column("metadata_prefix", sa.Text(), server_default="oai_dc", nullable=False),
        sa.Column("state", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=True),
        sa.Column("last_due", sa.DateTime(timezone=True), nullable=True),
        sa.Column("method", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("date_added", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("incremental", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("filter_file_path", sa.Text(), nullable=True),
        sa.Column("validation", sa.SmallInteger(), server_default="2", nullable=False),
        sa.Column("normalize_file_path", sa.Text(), nullable=True),
        sa.Column("parse_id", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("files_per_dir", sa.Integer(), nullable=True),
        sa.CheckConstraint(
            "date_added BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00'",
            name=op.f("ck_oai_recurring_job_date_added"),
        ),
        sa.CheckConstraint(
            "end_date BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00'",
            name=op.f("ck_oai_recurring_job_end_date"),
        ),
        sa.CheckConstraint(
            "start_date BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00'",
            name=op.f("ck_oai_recurring_job_start_date"),
        ),
        sa.CheckConstraint("method IN (0, 1)", name=op.f("ck_oai_recurring_job_method")),
        sa.CheckConstraint("state BETWEEN 0 AND 4", name=op.f("ck_oai_recurring_job_state")),
        sa.CheckConstraint("validation IN (0, 1, 2)", name=op.f("ck_oai_recurring_job_validation")),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_recurring_job_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_oai_recurring_job")),
    )
    op.create_index(
        op.f("ix_oai_recurring_job_repository_id"), "oai_recurring_job", ["repository_id"], unique=False
    )
    op.create_table(
        "oai_set",
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("set_spec", sa.Text(), nullable=False),
        sa.Column("set_name", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_set_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", "set_spec", name=op.f("pk_oai_set")),
    )
    op.create_table(
        "web_session",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("csrf_token", sa.Text(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["web_user.user_id"], name=op.f("fk_web_session_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_web_session")),
    )
    op.create_index(op.f("ix_web_session_user_id"), "web_session", ["user_id"], unique=False)
    op.create_table(
        "web_sign_in_link",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["web_user.user_id"], name=op.f("fk_web_sign_in_link_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_web_sign_in_link")),
    )
    op.create_index(op.f("ix_web_sign_in_link_user_id"), "web_sign_in_link", ["user_id"], unique=False)
    op.create_table(
        "document_collection",
        sa.Column("document_id", sa.BigInteger(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("datestamp", sa.DateTime(timezone=True), nullable=False),
        sa.Column("direct", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collection.id"], name=op.f("fk_document_collection_collection_id")
        ),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["document.id"],
            name=op.f("fk_document_collection_document_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("document_id", "collection_id", name=op.f("pk_document_collection")),
    )
    op.create_index(
        "ix_document_collection_page",
        "document_collection",
        ["collection_id", "datestamp", "document_id"],
        unique=False,
    )
    op.create_table(
        "oai_job",
        sa.Column("job_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("recurring_id", sa.Integer(), nullable=True),
        sa.Column("set_spec", sa.Text(), nullable=True),
        sa.Column(
            "harvest_start_time", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("status", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("harvest_method", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("process_id", sa.Integer(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("started", sa.DateTime(timezone=True), nullable=True),
        sa.Column("harvest_from", sa.Text(), nullable=True),
        sa.Column("harvest_to", sa.Text(), nullable=True),
        sa.Column("metadata_prefix", sa.Text(), server_default="oai_dc", nullable=False),
        sa.Column("incremental", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("filter_file_path", sa.Text(), nullable=True),
        sa.Column("validation", sa.SmallInteger(), server_default="2", nullable=False),
        sa.Column("normalize_file_path", sa.Text(), nullable=True),
        sa.Column("parse_id", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("files_per_dir", sa.Integer(), nullable=True),
        sa.Column("attempt", sa.SmallInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "harvest_start_time BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00'",
            name=op.f("ck_oai_job_harvest_start_time"),
        ),
        sa.CheckConstraint("harvest_method IN (0, 1)", name=op.f("ck_oai_job_harvest_method")),
        sa.CheckConstraint("status BETWEEN 0 AND 3", name=op.f("ck_oai_job_status")),
        sa.CheckConstraint("validation IN (0, 1, 2)", name=op.f("ck_oai_job_validation")),
        sa.ForeignKeyConstraint(
            ["recurring_id"],
            ["oai_recurring_job.id"],
            name=op.f("fk_oai_job_recurring_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_job_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_oai_job")),
    )
    op.create_index("ix_oai_job_due", "oai_job", ["status", "harvest_start_time"], unique=False)
    op.create_index(op.f("ix_oai_job_recurring_id"), "oai_job", ["recurring_id"], unique=False)
    op.create_index(op.f("ix_oai_job_repository_id"), "oai_job", ["repository_id"], unique=False)
    op.create_table(
        "oai_set_mapping",
        sa.Column("record_id", sa.BigInteger(), nullable=False),
        sa.Column("set_spec", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["record_id"],
            ["oai_record.record_id"],
            name=op.f("fk_oai_set_mapping_record_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("record_id", "set_spec", name=op.f("pk_oai_set_mapping")),
    )
    # The queue's tables are its own package's; this is how it makes them.
    op.get_bind().exec_driver_sql(SchemaManager.get_schema().replace("%", "%%"))
