"""The rule by which URL keys treat `www.`: until now, that of the Wayback Machine."""

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0049"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the rule to the single row about URL keys."""
    op.add_column("url_key_fill", sa.Column("www_rule", sa.Text(), server_default="numbered", nullable=False))
    op.create_check_constraint(
        op.f("ck_url_key_fill_www_rule"), "url_key_fill", "www_rule IN ('numbered', 'plain', 'kept')"
    )


def downgrade() -> None:
    """Remove it. Keys by another rule stay as they are, and look-ups no longer find them."""
    op.drop_column("url_key_fill", "www_rule")
