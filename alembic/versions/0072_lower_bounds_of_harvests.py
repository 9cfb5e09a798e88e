"""From which datestamp harvests are complete, so that those with a lower bound request only changes."""

import sqlalchemy as sa
from alembic import op

revision = "0072"
down_revision = "0071"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; so far, only harvests of all records have left a watermark."""
    op.add_column("oai_harvest", sa.Column("complete_from", sa.Text()))
    restarts = sa.Column("restarts", sa.Boolean(), nullable=False, server_default=sa.text("false"))
    op.add_column("oai_harvest", restarts)


def downgrade() -> None:
    """Remove the columns, and watermarks that say less without them."""
    op.execute("UPDATE oai_harvest SET watermark = NULL WHERE complete_from IS NOT NULL")
    op.drop_column("oai_harvest", "restarts")
    op.drop_column("oai_harvest", "complete_from")
