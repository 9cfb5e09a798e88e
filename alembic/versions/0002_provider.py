"""What a provider needs that a national web archive puts on the internet."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "first_load",
        sa.Column("index_name", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("index_name", name=op.f("pk_first_load")),
    )
    op.create_table(
        "index_run",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("queued", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=True),
        sa.Column("again", sa.Boolean(), nullable=False),
        sa.Column("archive_dir", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_index_run")),
    )
    op.create_table(
        "provider_client",
        sa.Column("key", sa.Uuid(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("user_agent", sa.Text(), nullable=False),
        sa.Column("sender", sa.Text(), nullable=False),
        sa.Column("first_request", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_request", sa.DateTime(timezone=True), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("bytes_sent", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_provider_client")),
    )
    op.create_index(
        op.f("ix_provider_client_last_request"), "provider_client", ["last_request"], unique=False
    )
    op.create_table(
        "document_month",
        sa.Column("month", sa.Date(), nullable=False),
        sa.Column("mime_major_id", sa.Integer(), nullable=False),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["mime_major_id"], ["mimetype.id"], name=op.f("fk_document_month_mime_major_id")
        ),
        sa.PrimaryKeyConstraint("month", "mime_major_id", name=op.f("pk_document_month")),
    )
    op.create_table(
        "index_file",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("tries", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("new", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("unchanged", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("moved", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("duplicates", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("problems", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "state IN ('waiting', 'running', 'done', 'failed')", name=op.f("ck_index_file_state")
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["index_run.id"], name=op.f("fk_index_file_run_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_index_file")),
    )
    op.create_index("ix_index_file_run", "index_file", ["run_id", "state"], unique=False)
    op.create_table(
        "provider_client_error",
        sa.Column("client_key", sa.Uuid(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["client_key"],
            ["provider_client.key"],
            name=op.f("fk_provider_client_error_client_key"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("client_key", "code", name=op.f("pk_provider_client_error")),
    )
    op.create_table(
        "provider_list",
        sa.Column("key", sa.Uuid(), nullable=False),
        sa.Column("client_key", sa.Uuid(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=False),
        sa.Column("set_spec", sa.Text(), nullable=False),
        sa.Column("from_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("until_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_request", sa.DateTime(timezone=True), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("passed", sa.BigInteger(), nullable=False),
        sa.Column("complete_size", sa.BigInteger(), nullable=True),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["client_key"],
            ["provider_client.key"],
            name=op.f("fk_provider_list_client_key"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_provider_list")),
    )
    op.create_index(op.f("ix_provider_list_client_key"), "provider_list", ["client_key"], unique=False)
    op.create_index(op.f("ix_provider_list_last_request"), "provider_list", ["last_request"], unique=False)
    op.alter_column("arc", "path", existing_type=sa.TEXT(), nullable=True)
    op.add_column("collection", sa.Column("unsettled", sa.DateTime(timezone=True), nullable=True))
    op.add_column("collection", sa.Column("moved", sa.DateTime(timezone=True), nullable=True))
    op.add_column("document", sa.Column("access", sa.Text(), server_default="open", nullable=False))
    op.add_column("document", sa.Column("embargo_until", sa.DateTime(timezone=True), nullable=True))
    op.alter_column("document", "length", existing_type=sa.BIGINT(), nullable=True)
    op.drop_constraint(op.f("fk_document_mime_id"), "document", type_="foreignkey")
    op.drop_constraint(op.f("fk_document_host_id"), "document", type_="foreignkey")
    op.drop_constraint(op.f("fk_document_arc_id"), "document", type_="foreignkey")
    op.create_index(
        "ix_domain_top", "domain", ["set_spec"], unique=False, postgresql_where=sa.text("parent_id IS NULL")
    )
    # What autogenerate leaves out: checks on tables that were there, and what their rows already mean.
    op.create_check_constraint(
        op.f("ck_document_access"), "document", "access IN ('open', 'reading room', 'embargo', 'withheld')"
    )
    op.execute("UPDATE collection SET embargo_until = NULL WHERE access <> 'embargo'")
    op.execute("UPDATE collection SET access = 'withheld' WHERE access = 'embargo' AND embargo_until IS NULL")
    op.create_check_constraint(
        op.f("ck_collection_embargo"), "collection", "(access = 'embargo') = (embargo_until IS NOT NULL)"
    )
    op.execute(
        "INSERT INTO document_month"
        " SELECT date_trunc('month', archived, 'UTC')::date, mime_major_id, count(*)"
        " FROM document GROUP BY 1, 2"
    )
