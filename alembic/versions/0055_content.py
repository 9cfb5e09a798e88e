"""The rule by which URL keys treat `www.`; types of documents recognised from their content."""

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0049"
branch_labels = None
depends_on = None

_TYPES = ("recognised_mime_id", "declared_mime_id")


def upgrade() -> None:
    """Add the columns; until now, keys follow the rule of the Wayback Machine."""
    op.add_column("url_key_fill", sa.Column("www_rule", sa.Text(), server_default="numbered", nullable=False))
    op.create_check_constraint(
        op.f("ck_url_key_fill_www_rule"), "url_key_fill", "www_rule IN ('numbered', 'plain', 'kept')"
    )
    for name in _TYPES:
        op.add_column("document", sa.Column(name, sa.Integer(), nullable=True))


def downgrade() -> None:
    """Remove them. Keys by another rule stay as they are, and look-ups no longer find them."""
    for name in _TYPES:
        op.drop_column("document", name)
    op.drop_column("url_key_fill", "www_rule")
