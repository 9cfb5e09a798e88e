"""Whether a set is listed is an ordinary column that a trigger maintains.

As a generated column, as earlier versions added it, it rewrote its table while it was added.
"""

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None

_TREES = ("collection", "domain", "mimetype")
_FUNCTION = """
CREATE OR REPLACE FUNCTION note_whether_listed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.listed := NEW.documents > NEW.unlisted;
    RETURN NEW;
END $$
"""
# Only if it changes: the counts are updated with each archive file, and the call would cost more than they.
_TRIGGER = """
CREATE OR REPLACE TRIGGER note_whether_listed BEFORE INSERT OR UPDATE ON {tree} FOR EACH ROW
WHEN (NEW.listed <> (NEW.documents > NEW.unlisted)) EXECUTE FUNCTION note_whether_listed()
"""


_CORRECT = "UPDATE {tree} SET listed = documents > unlisted WHERE listed <> (documents > unlisted)"


def upgrade() -> None:
    """Make the column an ordinary one, which keeps its values and rewrites nothing, and add the triggers."""
    op.execute(_FUNCTION)
    for tree in _TREES:
        op.execute(f"ALTER TABLE {tree} ALTER COLUMN listed DROP EXPRESSION IF EXISTS")
        op.execute(f"ALTER TABLE {tree} ALTER COLUMN listed SET DEFAULT true")
        op.execute(_TRIGGER.format(tree=tree))
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM document)")):
        # The triggers are committed first: readers must not wait while all sets are read.
        with op.get_context().autocommit_block():
            for tree in _TREES:
                # What was counted after 0029, by whoever still ran.
                op.execute(_CORRECT.format(tree=tree))


def downgrade() -> None:
    """Remove the triggers; an earlier version needs the generated column, which is added again."""
    for tree in _TREES:
        op.execute(f"DROP TRIGGER note_whether_listed ON {tree}")
        op.execute(f"ALTER TABLE {tree} DROP COLUMN listed")
        op.execute(
            f"ALTER TABLE {tree} ADD COLUMN listed boolean NOT NULL"
            " GENERATED ALWAYS AS (documents > unlisted) STORED"
        )
    op.execute("DROP FUNCTION note_whether_listed()")
    op.create_index("ix_domain_listed", "domain", ["set_spec"], postgresql_where="listed")
