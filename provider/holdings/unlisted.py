"""Documents that were never listed, because a rule withholds them: for the public they do not exist.

Each set keeps their number beside that of its documents (`unlisted`), so that whether a set may be shown, and
its size, are read from its row. Loaders add to it (`provider.indexing.merge`); every later change of
documents or memberships goes through `publication.publish_chosen`, which compares the numbers before and
after.
"""

from collections import Counter
from functools import cache
from typing import Final

from sqlalchemy import ColumnElement, func, or_, select, text
from sqlalchemy.orm import Session, aliased

from provider.models import UNLISTED, Access, Collection, Domain, Mimetype
from provider.titles.models import TitleDocuments

# Loaders update the counts one at a time, as their last step: most share top-level domains, and would wait
# for those rows anyway. Locking the rows in a fixed order instead took as long as counting.
_LOCK: Final = 0x7A_61_74_63_6E

_NUMBERS: Final = """
WITH RECURSIVE unlisted AS MATERIALIZED (
    SELECT id, host_id, mime_id, title_id FROM document
    WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND datestamp = :unlisted
),
host (id, documents) AS (
    SELECT host_id, count(*) FROM unlisted WHERE host_id IS NOT NULL GROUP BY host_id
    UNION ALL
    SELECT domain.parent_id, host.documents
    FROM host JOIN domain USING (id) WHERE domain.parent_id IS NOT NULL
),
type (id, documents) AS (
    SELECT mime_id, count(*) FROM unlisted GROUP BY mime_id
    UNION ALL
    SELECT mimetype.parent_id, type.documents
    FROM type JOIN mimetype USING (id) WHERE mimetype.parent_id IS NOT NULL
)
SELECT 'collection' AS tree, membership.collection_id AS id, count(*) AS documents
FROM unlisted CROSS JOIN LATERAL (
    SELECT collection_id FROM document_collection WHERE document_id = unlisted.id OFFSET 0
) AS membership
GROUP BY membership.collection_id
UNION ALL SELECT 'mimetype', id, sum(documents) FROM type GROUP BY id
UNION ALL SELECT 'domain', id, sum(documents) FROM host GROUP BY id
UNION ALL
SELECT 'title_documents', title_id, count(*) FROM unlisted WHERE title_id IS NOT NULL GROUP BY title_id
"""
_TREES: Final = ("collection", "mimetype", "domain", "title_documents")


def hold_counts(session: Session) -> None:
    """Wait for others that update the counts of sets, and block them until this transaction ends."""
    session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def unlisted_numbers(session: Session) -> Counter[tuple[str, int]]:
    """Return the number of unlisted documents in `chosen` for each set: (table, id)."""
    rows = session.execute(text(_NUMBERS), {"unlisted": UNLISTED})
    return Counter({(row.tree, row.id): int(row.documents) for row in rows})


def count_changes(session: Session, before: Counter[tuple[str, int]]) -> None:
    """Update the sets' numbers by the difference between `before` and now, as the last step of a change."""
    after = unlisted_numbers(session)
    changes = {one: after[one] - before[one] for one in {*before, *after} if after[one] != before[one]}
    if not changes:
        return
    hold_counts(session)
    for table in _TREES:
        numbers = {number: change for (tree, number), change in changes.items() if tree == table}
        session.execute(
            text(
                f"UPDATE {table} SET unlisted = unlisted + change.documents "  # noqa: S608 constant names
                "FROM unnest(CAST(:ids AS int[]), CAST(:documents AS bigint[])) AS change (id, documents) "
                f"WHERE {table}.id = change.id"
            ),
            {"ids": list(numbers), "documents": list(numbers.values())},
        )


@cache
def is_public(tree: type[Collection | Domain | Mimetype | TitleDocuments]) -> ColumnElement[bool]:
    """Return the condition for sets that the public may know.

    A collection of the staff may be empty: they made it. If it comes from titles, or it or one above it is
    withheld, it is public only if a document in it was ever listed.
    """
    if tree is not Collection:
        return tree.listed.expression
    above = aliased(Collection)
    withholds = select(above.id).where(
        above.access == Access.WITHHELD,
        func.starts_with(func.concat(Collection.set_spec, ":"), func.concat(above.set_spec, ":")),
    )
    return or_(Collection.listed, ~Collection.from_titles & ~withholds.exists())
