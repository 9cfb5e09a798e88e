"""URLs are looked up only by their keys.

An archive with documents keeps the index on the beginnings of its URLs, which a provider of an
earlier version reads, until `zatva provider reindex-keys`.
"""

import sqlalchemy as sa
from alembic import op

revision = "0062"
down_revision = "0061"
branch_labels = None
depends_on = None

_EMPTY = "SELECT NOT EXISTS (SELECT FROM document)"


def upgrade() -> None:
    """Remove the index if there are no documents, and refuse documents without a key."""
    if not op.get_bind().scalar(sa.text(_EMPTY)):
        return
    op.execute("ALTER TABLE document ADD CONSTRAINT ck_document_url_key CHECK (url_key IS NOT NULL)")
    op.execute("DROP INDEX IF EXISTS ix_document_url")
    op.execute("DELETE FROM first_load WHERE index_name = 'ix_document_url'")


def downgrade() -> None:
    """Build the index again."""
    op.execute("ALTER TABLE document DROP CONSTRAINT IF EXISTS ck_document_url_key")
    op.execute('CREATE INDEX IF NOT EXISTS ix_document_url ON document ("left"(url, 512), archived)')
