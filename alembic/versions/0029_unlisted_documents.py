"""Sets keep the number of their documents that were never listed, and whether harvesters may know them."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_TREES = ("collection", "domain", "mimetype")
_UNLISTED = "TIMESTAMPTZ '9999-12-31 23:59:59+00'"
_OF_COLLECTIONS = f"""
UPDATE collection SET unlisted = counted.documents
FROM (
    SELECT collection_id, count(*) AS documents FROM document_collection
    WHERE datestamp = {_UNLISTED} GROUP BY collection_id
) AS counted
WHERE collection.id = counted.collection_id
"""  # noqa: S608 constant names
_OF_TREE = f"""
WITH RECURSIVE counted (id, documents) AS (
    SELECT {{column}}, count(*) FROM document
    WHERE datestamp = {_UNLISTED} AND {{column}} IS NOT NULL GROUP BY {{column}}
    UNION ALL
    SELECT {{tree}}.parent_id, counted.documents
    FROM counted JOIN {{tree}} USING (id) WHERE {{tree}}.parent_id IS NOT NULL
),
summed AS (SELECT id, sum(documents) AS documents FROM counted GROUP BY id)
UPDATE {{tree}} SET unlisted = summed.documents FROM summed WHERE {{tree}}.id = summed.id
"""  # noqa: S608 constant names


def upgrade() -> None:
    """Add the columns with the numbers of what is unlisted today, and the index of ListSets."""
    for tree in _TREES:
        count = sa.Column("unlisted", sa.BigInteger(), server_default="0", nullable=False)
        op.add_column(tree, count, if_not_exists=True)
        # A column that is generated would rewrite the table; a provider of the version before, whose snapshot
        # is older, would then see no set at all.
        listed = sa.Column("listed", sa.Boolean(), server_default=sa.true(), nullable=False)
        op.add_column(tree, listed, if_not_exists=True)
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM document)")):
        # The columns are committed first: their locks must not last as long as the count.
        with op.get_context().autocommit_block():
            _count()
    for tree in _TREES:
        op.execute(f"UPDATE {tree} SET listed = documents > unlisted WHERE listed <> (documents > unlisted)")  # noqa: S608 constant names
    op.create_index("ix_domain_listed", "domain", ["set_spec"], postgresql_where=sa.text("listed"))


def _count() -> None:
    op.execute(_OF_COLLECTIONS)
    op.execute(_OF_TREE.format(tree="domain", column="host_id"))
    op.execute(_OF_TREE.format(tree="mimetype", column="mime_id"))


def downgrade() -> None:
    """Drop the columns and the index; sets without a listed document are listed again."""
    op.drop_index("ix_domain_listed", "domain")
    for tree in _TREES:
        op.drop_column(tree, "listed")
        op.drop_column(tree, "unlisted")
