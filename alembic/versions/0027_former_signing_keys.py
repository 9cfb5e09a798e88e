"""Former signing keys, which are accepted until a stated time."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "signing_key_former",
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("purpose", "key", name="pk_signing_key_former"),
    )


def downgrade() -> None:
    """Remove it; what former keys signed is no longer accepted."""
    op.drop_table("signing_key_former")
