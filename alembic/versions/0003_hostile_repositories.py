"""What a harvest that survives every repository has to remember."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "oai_change",
        sa.Column("transaction_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("change_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("harvest_id", sa.Integer(), nullable=False),
        sa.Column("run_started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=True),
        sa.Column("datestamp", sa.Text(), nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("transaction_id", "change_id", name=op.f("pk_oai_change")),
    )
    op.create_index(
        "ix_oai_change_blocks",
        "oai_change",
        ["change_id", "run_started"],
        unique=False,
        postgresql_using="brin",
    )
    op.create_table(
        "oai_leader",
        sa.Column("only", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("process_id", sa.Integer(), nullable=False),
        sa.Column("began", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint('"only"', name=op.f("ck_oai_leader_only")),
        sa.PrimaryKeyConstraint("only", name=op.f("pk_oai_leader")),
    )
    op.create_table(
        "oai_worker",
        sa.Column("worker_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("process_id", sa.Integer(), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_sign", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("good_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.PrimaryKeyConstraint("worker_id", name=op.f("pk_oai_worker")),
    )
    op.create_table(
        "web_audit",
        sa.Column("audit_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("user_name", sa.Text(), nullable=True),
        sa.Column("via", sa.Text(), server_default="session", nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object_kind", sa.Text(), nullable=True),
        sa.Column("object_id", sa.Text(), nullable=True),
        sa.Column("object_name", sa.Text(), nullable=True),
        sa.Column("status", sa.SmallInteger(), server_default=sa.text("200"), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_web_audit")),
    )
    op.create_index(op.f("ix_web_audit_action_audit_id"), "web_audit", ["action", "audit_id"], unique=False)
    op.create_index(op.f("ix_web_audit_at"), "web_audit", ["at"], unique=False)
    op.create_index(
        op.f("ix_web_audit_user_name_audit_id"), "web_audit", ["user_name", "audit_id"], unique=False
    )
    op.create_table(
        "web_organisation",
        sa.Column("organisation_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("short_name", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("organisation_id", name=op.f("pk_web_organisation")),
        sa.UniqueConstraint("short_name", name=op.f("uq_web_organisation_short_name")),
    )
    op.create_table(
        "web_self_test",
        sa.Column("self_test_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=True),
        sa.Column("started", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("checks", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "findings",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
        ),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("self_test_id", name=op.f("pk_web_self_test")),
    )
    op.create_table(
        "web_sign_in_attempt",
        sa.Column("attempt_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_web_sign_in_attempt")),
    )
    op.create_index(op.f("ix_web_sign_in_attempt_at"), "web_sign_in_attempt", ["at"], unique=False)
    op.create_index(op.f("ix_web_sign_in_attempt_key_at"), "web_sign_in_attempt", ["key", "at"], unique=False)
    op.create_table(
        "oai_quarantine",
        sa.Column("quarantine_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=False),
        sa.Column("set_spec", sa.Text(), server_default="", nullable=False),
        sa.Column("fault_key", sa.Uuid(), nullable=False),
        sa.Column("identifier", sa.Text(), nullable=True),
        sa.Column("identifier_key", sa.Uuid(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("byte_offset", sa.BigInteger(), nullable=True),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column("raw_size", sa.BigInteger(), nullable=False),
        sa.Column("first_seen", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_run", sa.DateTime(timezone=True), nullable=False),
        sa.Column("history_id", sa.BigInteger(), nullable=True),
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.Column("resolved", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_quarantine_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("quarantine_id", name=op.f("pk_oai_quarantine")),
        sa.UniqueConstraint(
            "repository_id",
            "metadata_prefix",
            "fault_key",
            name=op.f("uq_oai_quarantine_repository_id_metadata_prefix_fault_key"),
        ),
    )
    op.create_index(op.f("ix_oai_quarantine_history_id"), "oai_quarantine", ["history_id"], unique=False)
    op.create_index(
        "ix_oai_quarantine_identifier_key",
        "oai_quarantine",
        ["repository_id", "metadata_prefix", "identifier_key"],
        unique=False,
    )
    op.create_table(
        "oai_store_audit",
        sa.Column("audit_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("files", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("missing", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("altered", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("stray", sa.BigInteger(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_store_audit_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_oai_store_audit")),
    )
    op.create_index(
        op.f("ix_oai_store_audit_repository_id"), "oai_store_audit", ["repository_id"], unique=False
    )
    op.create_table(
        "web_repository_owner",
        sa.Column("repository_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("organisation_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organisation_id"],
            ["web_organisation.organisation_id"],
            name=op.f("fk_web_repository_owner_organisation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_web_repository_owner_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", name=op.f("pk_web_repository_owner")),
    )
    op.create_index(
        op.f("ix_web_repository_owner_organisation_id"),
        "web_repository_owner",
        ["organisation_id"],
        unique=False,
    )
    op.create_table(
        "notice_rule",
        sa.Column("rule_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=True),
        sa.Column("recurring_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.Text(), server_default="error", nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), server_default="en", nullable=False),
        sa.Column("added", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("summarised", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("channel IN ('mail', 'webhook')", name=op.f("ck_notice_rule_channel")),
        sa.CheckConstraint(
            "kind IN ('error', 'change', 'always', 'daily', 'weekly')", name=op.f("ck_notice_rule_kind")
        ),
        sa.CheckConstraint("language IN ('en', 'cs', 'sk')", name=op.f("ck_notice_rule_language")),
        sa.ForeignKeyConstraint(
            ["recurring_id"],
            ["oai_recurring_job.id"],
            name=op.f("fk_notice_rule_recurring_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_notice_rule_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rule_id", name=op.f("pk_notice_rule")),
    )
    op.create_index(op.f("ix_notice_rule_recurring_id"), "notice_rule", ["recurring_id"], unique=False)
    op.create_index(op.f("ix_notice_rule_repository_id"), "notice_rule", ["repository_id"], unique=False)
    op.create_table(
        "oai_held_deletion",
        sa.Column("harvest_id", sa.Integer(), nullable=False),
        sa.Column("run_started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("record_id", sa.BigInteger(), nullable=False),
        sa.Column("datestamp", sa.Text(), nullable=False),
        sa.Column("set_specs", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["harvest_id"],
            ["oai_harvest.harvest_id"],
            name=op.f("fk_oai_held_deletion_harvest_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("harvest_id", "run_started", "record_id", name=op.f("pk_oai_held_deletion")),
    )
    op.create_table(
        "oai_hold",
        sa.Column("history_id", sa.BigInteger(), nullable=False),
        sa.Column("harvest_id", sa.Integer(), nullable=False),
        sa.Column("run_started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="held", nullable=False),
        sa.Column("would_delete", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("would_update", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("active", sa.BigInteger(), nullable=False),
        sa.Column("allowed", sa.Double(), nullable=False),
        sa.Column(
            "sample", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column("decided", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["harvest_id"],
            ["oai_harvest.harvest_id"],
            name=op.f("fk_oai_hold_harvest_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["history_id"],
            ["oai_history.history_id"],
            name=op.f("fk_oai_hold_history_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("history_id", name=op.f("pk_oai_hold")),
    )
    op.create_index(op.f("ix_oai_hold_harvest_id"), "oai_hold", ["harvest_id"], unique=False)
    op.create_table(
        "oai_list_marks",
        sa.Column("part_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("harvest_id", sa.Integer(), nullable=False),
        sa.Column("marks", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["harvest_id"],
            ["oai_harvest.harvest_id"],
            name=op.f("fk_oai_list_marks_harvest_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("part_id", name=op.f("pk_oai_list_marks")),
    )
    op.create_index(op.f("ix_oai_list_marks_harvest_id"), "oai_list_marks", ["harvest_id"], unique=False)
    op.create_table(
        "oai_sighting",
        sa.Column("harvest_id", sa.Integer(), nullable=False),
        sa.Column("run_started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("record_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["harvest_id"],
            ["oai_harvest.harvest_id"],
            name=op.f("fk_oai_sighting_harvest_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("harvest_id", "run_started", "record_id", name=op.f("pk_oai_sighting")),
    )
    op.create_table(
        "web_api_token",
        sa.Column("token_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["web_user.user_id"], name=op.f("fk_web_api_token_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_web_api_token")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_web_api_token_token_hash")),
    )
    op.create_index(op.f("ix_web_api_token_user_id"), "web_api_token", ["user_id"], unique=False)
    op.create_table(
        "notice",
        sa.Column("notice_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("rule_id", sa.Integer(), nullable=True),
        sa.Column("repository_id", sa.Integer(), nullable=True),
        sa.Column("history_id", sa.BigInteger(), nullable=True),
        sa.Column("occasion", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), server_default="en", nullable=False),
        sa.Column("facts", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("due", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("tries", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.CheckConstraint("channel IN ('mail', 'webhook', 'hook')", name=op.f("ck_notice_channel")),
        sa.CheckConstraint(
            "state IN ('waiting', 'claimed', 'handed over', 'sent', 'given up', 'unsure')",
            name=op.f("ck_notice_state"),
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_notice_repository_id"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["notice_rule.rule_id"], name=op.f("fk_notice_rule_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("notice_id", name=op.f("pk_notice")),
    )
    op.create_index(
        "ix_notice_open",
        "notice",
        ["channel", "due"],
        unique=False,
        postgresql_where=sa.text("ended IS NULL"),
    )
    op.create_index(op.f("ix_notice_repository_id"), "notice", ["repository_id"], unique=False)
    op.create_index(op.f("ix_notice_rule_id"), "notice", ["rule_id"], unique=False)
    op.create_table(
        "notice_streak",
        sa.Column("rule_id", sa.Integer(), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("metadata_prefix", sa.Text(), nullable=False),
        sa.Column("set_spec", sa.Text(), nullable=False),
        sa.Column("gravity", sa.SmallInteger(), nullable=False),
        sa.Column("began", sa.DateTime(timezone=True), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="1", nullable=False),
        sa.Column("told", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_notice_streak_repository_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["notice_rule.rule_id"], name=op.f("fk_notice_streak_rule_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "rule_id", "repository_id", "metadata_prefix", "set_spec", name=op.f("pk_notice_streak")
        ),
    )
    op.create_index("ix_domain_below", "domain", ["parent_id", "set_spec"], unique=False)
    op.add_column(
        "oai_harvest",
        sa.Column(
            "run_state",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
    )
    op.add_column(
        "oai_harvest",
        sa.Column(
            "warnings",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
        ),
    )
    op.add_column("oai_harvest", sa.Column("records_per_second", sa.Double(), nullable=True))
    op.add_column("oai_harvest", sa.Column("estimated_end", sa.DateTime(timezone=True), nullable=True))
    op.add_column("oai_history", sa.Column("harvest_id", sa.Integer(), nullable=True))
    op.add_column("oai_history", sa.Column("run_started", sa.DateTime(timezone=True), nullable=True))
    op.add_column("oai_history", sa.Column("raw_path", sa.Text(), nullable=True))
    op.add_column("oai_history", sa.Column("replay_of", sa.BigInteger(), nullable=True))
    op.add_column(
        "oai_history",
        sa.Column(
            "pace", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False
        ),
    )
    op.add_column("oai_history", sa.Column("announced", sa.DateTime(timezone=True), nullable=True))
    op.create_index("ix_oai_history_status", "oai_history", ["status", "history_id"], unique=False)
    op.create_index(
        "ix_oai_history_unannounced",
        "oai_history",
        ["history_id"],
        unique=False,
        postgresql_where=sa.text("announced IS NULL"),
    )
    op.add_column("oai_job", sa.Column("slice", sa.Text(), nullable=True))
    op.add_column("oai_job", sa.Column("priority", sa.SmallInteger(), server_default="0", nullable=False))
    op.add_column("oai_job", sa.Column("owner", sa.Text(), nullable=True))
    op.add_column(
        "oai_job",
        sa.Column("waiting", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    )
    op.add_column("oai_job", sa.Column("worker_id", sa.Integer(), nullable=True))
    op.add_column("oai_job", sa.Column("pages_before", sa.Integer(), server_default="0", nullable=False))
    op.add_column("oai_job", sa.Column("stuck_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("oai_job", sa.Column("last_history", sa.BigInteger(), nullable=True))
    op.add_column("oai_job", sa.Column("max_records", sa.Integer(), nullable=True))
    op.add_column("oai_record", sa.Column("deletion_reason", sa.Text(), nullable=True))
    op.add_column("oai_recurring_job", sa.Column("slice", sa.Text(), nullable=True))
    op.add_column("oai_recurring_job", sa.Column("overlap", sa.Text(), server_default="skip", nullable=False))
    op.add_column(
        "oai_recurring_job", sa.Column("priority", sa.SmallInteger(), server_default="0", nullable=False)
    )
    op.add_column("oai_recurring_job", sa.Column("owner", sa.Text(), nullable=True))
    op.add_column(
        "oai_recurring_job", sa.Column("failures", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("oai_recurring_job", sa.Column("usual_seconds", sa.Double(), nullable=True))
    op.add_column(
        "oai_repository", sa.Column("deletion_policy", sa.Text(), server_default="remove", nullable=False)
    )
    op.add_column("oai_repository", sa.Column("brake_deletions", sa.Double(), nullable=True))
    op.add_column("oai_repository", sa.Column("brake_updates", sa.Double(), nullable=True))
    op.add_column("oai_repository", sa.Column("not_before", sa.DateTime(timezone=True), nullable=True))
    op.add_column("oai_repository", sa.Column("examined", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "oai_repository",
        sa.Column("examination", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    )
    op.add_column(
        "oai_repository",
        sa.Column("profile", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
    )
    op.add_column("web_session", sa.Column("address", sa.Text(), nullable=True))
    op.add_column("web_session", sa.Column("browser", sa.Text(), nullable=True))
    op.add_column("web_session", sa.Column("way", sa.Text(), server_default="link", nullable=False))
    op.add_column("web_sign_in_link", sa.Column("kind", sa.Text(), server_default="sign-in", nullable=False))
    op.add_column("web_user", sa.Column("organisation_id", sa.Integer(), nullable=True))
    op.add_column("web_user", sa.Column("password_hash", sa.Text(), nullable=True))
    op.add_column("web_user", sa.Column("language", sa.Text(), nullable=True))
    op.add_column("web_user", sa.Column("disabled", sa.DateTime(timezone=True), nullable=True))
    op.add_column("web_user", sa.Column("last_sign_in", sa.DateTime(timezone=True), nullable=True))
    op.create_index(op.f("ix_web_user_organisation_id"), "web_user", ["organisation_id"], unique=False)
    op.create_foreign_key(
        op.f("fk_web_user_organisation_id"),
        "web_user",
        "web_organisation",
        ["organisation_id"],
        ["organisation_id"],
        ondelete="RESTRICT",
    )
    op.drop_constraint(op.f("ck_oai_recurring_job_state"), "oai_recurring_job", type_="check")
    op.drop_constraint(op.f("ck_oai_job_status"), "oai_job", type_="check")
    op.create_check_constraint(
        op.f("ck_oai_recurring_job_state"), "oai_recurring_job", "state BETWEEN 0 AND 5"
    )
    op.create_check_constraint(
        op.f("ck_oai_recurring_job_overlap"), "oai_recurring_job", "overlap IN ('skip', 'queue')"
    )
    op.create_check_constraint(
        op.f("ck_oai_recurring_job_priority"), "oai_recurring_job", "priority BETWEEN -1000 AND 1000"
    )
    op.create_check_constraint(
        op.f("ck_oai_recurring_job_last_due"),
        "oai_recurring_job",
        "last_due BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00'",
    )
    op.create_check_constraint(op.f("ck_oai_job_status"), "oai_job", "status BETWEEN 0 AND 8")
    op.create_check_constraint(op.f("ck_oai_job_priority"), "oai_job", "priority BETWEEN -1000 AND 1000")
    op.create_check_constraint(
        op.f("ck_oai_job_started"),
        "oai_job",
        "started BETWEEN '1970-01-01 00:00:00+00' AND '9000-01-01 00:00:00+00'",
    )
    op.create_check_constraint(
        op.f("ck_oai_repository_deletion_policy"),
        "oai_repository",
        "deletion_policy IN ('remove', 'mark', 'move')",
    )
    # Nobody is to be told now of what ended long ago.
    op.execute("UPDATE oai_history SET announced = now()")
    op.drop_constraint(op.f("ck_web_user_role"), "web_user", type_="check")
    op.create_check_constraint(
        op.f("ck_web_user_role"), "web_user", "role IN ('viewer', 'partner', 'curator', 'administrator')"
    )
    op.create_check_constraint(
        op.f("ck_web_user_partner_organisation"),
        "web_user",
        "role <> 'partner' OR organisation_id IS NOT NULL",
    )
