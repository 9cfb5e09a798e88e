"""Stores are audited on a schedule, and an audit's row says what it found."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_TABLE = "oai_store_audit"
_EARLIEST, _LATEST = "1970-01-01 00:00:00+00", "9000-01-01 00:00:00+00"
_INDEXES = {
    "ix_oai_store_audit_open": (["repository_id"], "due IS NOT NULL AND state IN ('queued', 'running')"),
    "ix_oai_store_audit_last": (["repository_id", "audit_id"], "ended IS NOT NULL"),
    "ix_oai_store_audit_unannounced": (["audit_id"], "announced IS NULL AND ended IS NOT NULL"),
}


def upgrade() -> None:
    """Add the columns and the schedules; audits of earlier versions have a state, and are not announced.

    An earlier version that still runs writes rows of the state `running` with an end; the manager corrects
    them.
    """
    _add_columns()
    op.execute(
        """
        UPDATE oai_store_audit SET announced = now(),
        state = CASE WHEN ended IS NULL THEN 'running' ELSE 'done' END,
        failure_code = CASE WHEN ended IS NOT NULL AND missing + altered + stray > 0
            THEN 'store_damaged' END,
        failure_facts = CASE WHEN ended IS NOT NULL AND missing + altered + stray > 0
            THEN jsonb_build_object('missing', missing, 'altered', altered, 'stray', stray) END
        """
    )
    op.create_check_constraint(
        op.f("ck_oai_store_audit_state"), _TABLE, "state IN ('queued', 'running', 'done', 'failed')"
    )
    for name, (columns, condition) in _INDEXES.items():
        op.create_index(
            name, _TABLE, columns, unique=name.endswith("_open"), postgresql_where=sa.text(condition)
        )
    _create_schedules()


def _add_columns() -> None:
    for column in (
        sa.Column("state", sa.Text(), server_default="running", nullable=False),
        sa.Column("due", sa.DateTime(timezone=True)),
        sa.Column("host", sa.Text()),
        sa.Column("findings", JSONB(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("failure_code", sa.Text()),
        sa.Column("failure_facts", JSONB()),
        sa.Column("announced", sa.DateTime(timezone=True)),
    ):
        op.add_column(_TABLE, column)


def _create_schedules() -> None:
    table = "oai_store_audit_schedule"
    plausible = f"{{}} BETWEEN '{_EARLIEST}' AND '{_LATEST}'"
    op.create_table(
        table,
        sa.Column("schedule_id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("repository_id", sa.Integer()),
        sa.Column("frequency", sa.Text(), nullable=False),
        sa.Column("time_zone", sa.Text(), server_default="UTC", nullable=False),
        sa.Column("added", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("next_due", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("schedule_id", name=op.f(f"pk_{table}")),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["oai_repository.repository_id"],
            name=op.f(f"fk_{table}_repository_id"),
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("repository_id", name=op.f(f"uq_{table}_repository_id")),
        *(
            sa.CheckConstraint(plausible.format(name), name=op.f(f"ck_{table}_{name}"))
            for name in ("added", "next_due")
        ),
    )


def downgrade() -> None:
    """Remove the schedules and the columns; queued audits have no result and are removed."""
    op.drop_table("oai_store_audit_schedule")
    op.execute("DELETE FROM oai_store_audit WHERE state = 'queued'")
    for name in _INDEXES:
        op.drop_index(name, _TABLE)
    op.drop_constraint(op.f("ck_oai_store_audit_state"), _TABLE)
    for name in ("announced", "failure_facts", "failure_code", "findings", "host", "due", "state"):
        op.drop_column(_TABLE, name)
