"""The audit log says what changed, and counts refusals."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("web_audit", sa.Column("before", JSONB()))
    op.add_column("web_audit", sa.Column("after", JSONB()))
    op.add_column("web_audit", sa.Column("count", sa.Integer(), server_default=sa.text("1"), nullable=False))


def downgrade() -> None:
    for name in ("count", "after", "before"):
        op.drop_column("web_audit", name)
