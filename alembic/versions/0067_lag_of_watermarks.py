"""How far a repository's clock was behind at the last complete harvest, to notice that it fell behind."""

import sqlalchemy as sa
from alembic import op

revision = "0067"
down_revision = "0066"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; without a value, nothing is compared."""
    op.add_column("oai_harvest", sa.Column("watermark_lag", sa.Float()))


def downgrade() -> None:
    """Remove the column."""
    op.drop_column("oai_harvest", "watermark_lag")
