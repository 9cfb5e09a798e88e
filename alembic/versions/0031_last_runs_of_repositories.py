"""The last runs of a repository are read from an index."""

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the index by repository with one by repository and run."""
    op.create_index("ix_oai_history_repository_runs", "oai_history", ["repository_id", "history_id"])
    op.drop_index("ix_oai_history_repository_id", "oai_history")


def downgrade() -> None:
    """Restore it."""
    op.create_index("ix_oai_history_repository_id", "oai_history", ["repository_id"])
    op.drop_index("ix_oai_history_repository_runs", "oai_history")
