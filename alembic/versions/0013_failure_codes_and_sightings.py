"""Failures get codes with facts; what a run sees and stages is kept in fewer rows and found by record."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_TABLES = ("oai_history", "oai_quarantine")


def upgrade() -> None:
    """Add the columns; earlier rows have no codes."""
    for table in _TABLES:
        op.add_column(table, sa.Column("failure_code", sa.Text(), nullable=True))
        op.add_column(table, sa.Column("failure_facts", JSONB(), nullable=True))
    _key_deletions_by_record()
    _gather_sightings()


def _key_deletions_by_record() -> None:
    """A page's records are looked up for all runs of a harvest at once: the run comes last in the key."""
    op.drop_constraint("pk_oai_held_deletion", "oai_held_deletion", type_="primary")
    op.create_primary_key(
        "pk_oai_held_deletion", "oai_held_deletion", ["harvest_id", "record_id", "run_started"]
    )


def _gather_sightings() -> None:
    """Records that a run saw, many in a row; what runs that were cut off have seen is kept."""
    op.rename_table("oai_sighting", "oai_sighting_before")
    op.execute("ALTER TABLE oai_sighting_before DROP CONSTRAINT pk_oai_sighting")
    op.execute("ALTER TABLE oai_sighting_before DROP CONSTRAINT fk_oai_sighting_harvest_id")
    op.create_table(
        "oai_sighting",
        sa.Column("sighting_id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("harvest_id", sa.Integer(), nullable=False),
        sa.Column("run_started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("record_ids", ARRAY(sa.BigInteger()), nullable=False),
        sa.PrimaryKeyConstraint("sighting_id", name="pk_oai_sighting"),
        sa.ForeignKeyConstraint(
            ["harvest_id"], ["oai_harvest.harvest_id"], "fk_oai_sighting_harvest_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_oai_sighting_harvest_id", "oai_sighting", ["harvest_id"])
    op.execute(
        """
        INSERT INTO oai_sighting (harvest_id, run_started, record_ids)
        SELECT harvest_id, run_started, array_agg(record_id) FROM oai_sighting_before
        GROUP BY harvest_id, run_started, record_id / 10000
        """
    )
    op.drop_table("oai_sighting_before")
