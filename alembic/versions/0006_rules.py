"""Rule files with their versions, and which of them each run read."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    op.add_column("oai_history", sa.Column("filter_digest", sa.Text(), nullable=True))
    op.add_column("oai_history", sa.Column("normalize_digest", sa.Text(), nullable=True))
    for column in ("filter_digest", "normalize_digest"):
        op.create_index(
            f"ix_oai_history_{column}",
            "oai_history",
            [column, "history_id"],
            postgresql_where=sa.text(f"{column} IS NOT NULL"),
        )
    _add_rules()
    _add_versions()


def _add_rules() -> None:
    op.create_table(
        "oai_rule",
        sa.Column("rule_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("kind IN ('filter', 'normalise')", name=op.f("ck_oai_rule_kind")),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f("fk_oai_rule_repository_id"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("rule_id", name=op.f("pk_oai_rule")),
        sa.UniqueConstraint("path", name=op.f("uq_oai_rule_path")),
    )
    op.create_index(op.f("ix_oai_rule_repository_id"), "oai_rule", ["repository_id"])


def _add_versions() -> None:
    op.create_table(
        "oai_rule_version",
        sa.Column("version_id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("rule_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("saved", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("saved_by", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["oai_rule.rule_id"], name=op.f("fk_oai_rule_version_rule_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("version_id", name=op.f("pk_oai_rule_version")),
        sa.UniqueConstraint("rule_id", "number", name=op.f("uq_oai_rule_version_rule_id_number")),
    )
    op.create_index(op.f("ix_oai_rule_version_digest"), "oai_rule_version", ["digest"])
