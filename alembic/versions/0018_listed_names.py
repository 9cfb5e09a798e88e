"""Archive files have the name by which a CDX file lists them."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("arc", sa.Column("listed_name", sa.Text()))


def downgrade() -> None:
    op.drop_column("arc", "listed_name")
