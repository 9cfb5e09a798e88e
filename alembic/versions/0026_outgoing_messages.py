"""Mail addresses of organisations are confirmed, their mails counted; webhooks have keys of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0024"
branch_labels = None
depends_on = None

_ORGANISATION = ["web_organisation.organisation_id"]


def upgrade() -> None:
    """Add tables and columns; addresses in organisations' rules count as confirmed."""
    op.create_table(
        "notice_address",
        sa.Column("address_id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("organisation_id", sa.Integer(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("asked", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("links", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("confirmed", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("address_id", name="pk_notice_address"),
        sa.ForeignKeyConstraint(
            ["organisation_id"],
            _ORGANISATION,
            name="fk_notice_address_organisation_id_web_organisation",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("organisation_id", "address", name="uq_notice_address_organisation_id_address"),
    )
    op.create_table(
        "notice_mail_count",
        sa.Column("organisation_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("mails", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("organisation_id", name="pk_notice_mail_count"),
        sa.ForeignKeyConstraint(
            ["organisation_id"],
            _ORGANISATION,
            name="fk_notice_mail_count_organisation_id_web_organisation",
            ondelete="CASCADE",
        ),
    )
    op.add_column("notice_rule", sa.Column("signing_key", sa.Text(), nullable=True))
    op.add_column("notice_rule", sa.Column("next_key", sa.Text(), nullable=True))
    op.add_column("notice_rule", sa.Column("next_key_from", sa.DateTime(timezone=True), nullable=True))
    op.execute(r"""
        INSERT INTO notice_address (organisation_id, address, confirmed)
        SELECT DISTINCT owner.organisation_id, lower(given.address), now()
        FROM notice_rule AS rule
        JOIN web_repository_owner AS owner ON owner.repository_id = rule.repository_id
        CROSS JOIN LATERAL regexp_split_to_table(btrim(rule.target), '\s*,\s*') AS given (address)
        WHERE rule.channel = 'mail' AND given.address <> ''
    """)


def downgrade() -> None:
    """Drop what was added; webhooks are signed with the common key again."""
    for name in ("next_key_from", "next_key", "signing_key"):
        op.drop_column("notice_rule", name)
    op.drop_table("notice_mail_count")
    op.drop_table("notice_address")
