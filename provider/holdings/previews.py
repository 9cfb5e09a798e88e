"""What a change of a collection would do: documents, their access before and after, and harvesters.

Nothing is changed. The access after the change is computed like that of `rules.follow_rules`: the strictest
rule of the collections that a document is assigned to, of their ancestors, and of titles and lists of
addresses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, select, text
from sqlalchemy.orm import Session

from provider.holdings.collections import documents_to_change, find_collection
from provider.holdings.rules import TITLE_RULE, Rule, check_rule
from provider.holdings.selection import Selection
from provider.models import UNLISTED, Access, DocumentCollection

MOST_COUNTED: Final = 100_000
"""Documents that a preview looks at; above it, there are more."""
_EXAMPLES: Final = 10
_CHANGES: Final = f"""
WITH RECURSIVE ancestry (below, above) AS (
    SELECT id, id FROM collection
    UNION
    SELECT ancestry.below, collection.parent_id
    FROM ancestry JOIN collection ON collection.id = ancestry.above WHERE collection.parent_id IS NOT NULL
),
ruled (below, rank, until) AS (
    SELECT below,
        max(array_position(CAST(:strictness AS text[]),
            CASE WHEN id = CAST(:ruled AS int) THEN CAST(:access AS text) ELSE access END)),
        max(CASE WHEN id = CAST(:ruled AS int) THEN CAST(:until AS timestamptz) ELSE embargo_until END)
    FROM ancestry JOIN collection ON collection.id = ancestry.above GROUP BY below
),
chosen AS (SELECT unnest(CAST(:ids AS bigint[])) AS id),
assigned AS (
    SELECT chosen.id, membership.collection_id FROM chosen CROSS JOIN LATERAL (
        SELECT collection_id FROM document_collection
        WHERE document_id = chosen.id AND direct AND collection_id <> ALL(CAST(:removed AS int[])) OFFSET 0
    ) AS membership
    UNION ALL
    SELECT chosen.id, unnest(CAST(:added AS int[])) FROM chosen
),
effective AS (
    SELECT chosen.id, max(ruled.until) AS until,
        (CAST(:strictness AS text[]))[greatest(1, max(ruled.rank),
            max(array_position(CAST(:strictness AS text[]), title.access)))] AS access
    FROM chosen
    {TITLE_RULE}
    LEFT JOIN assigned ON assigned.id = chosen.id
    LEFT JOIN ruled ON ruled.below = assigned.collection_id
    GROUP BY chosen.id
)
SELECT document.access AS before, effective.access AS after, count(*) AS documents,
    min(datestamp) FILTER (WHERE datestamp < :unlisted AND NOT deleted) AS first
FROM effective JOIN document USING (id)
WHERE document.access <> effective.access
    OR (effective.access = 'embargo' AND embargo_until <> effective.until)
GROUP BY 1, 2 ORDER BY 1, 2
"""  # noqa: S608 constant text
_SHOWN: Final = text(
    "SELECT url, archived FROM document WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY url, archived"
)
_HARVESTERS: Final = text(
    "SELECT count(DISTINCT client_key) FROM provider_list"
    " WHERE verb IN ('ListRecords', 'ListIdentifiers') AND passed > 0 AND last_request >= :first"
)


@dataclass(frozen=True, kw_only=True)
class ChangePreview:
    """What a change would do."""

    documents: int
    """Documents that are added or removed; for a rule, those in the collection."""
    more: bool
    """Whether there are more than were counted."""
    access: Mapping[tuple[Access, Access], int]
    """How many documents change from one access to another; the same one twice: the end of an embargo."""
    harvesters: int
    """Harvesters that may have documents whose access changes."""
    examples: Sequence[tuple[str, datetime]]
    """URLs and times of capture of some documents."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON-compatible value, with the URLs of the examples."""
        changes = [
            {"before": before, "after": after, "documents": count}
            for (before, after), count in self.access.items()
        ]
        return {**vars(self), "access": changes, "examples": [url for url, _archived in self.examples]}


def preview_assignment(
    session: Session, set_spec: str, selection: Selection, *, takes_out: bool
) -> ChangePreview:
    """Preview adding documents to a collection, or removing them. Raises UsageError as the change does."""
    number = find_collection(session, set_spec).id
    chosen = documents_to_change(session, number, selection, takes_out=takes_out)
    changes = {"removed": [number]} if takes_out else {"added": [number]}
    return _preview(session, chosen, changes)


def preview_rule(session: Session, set_spec: str, rule: Rule) -> ChangePreview:
    """Preview another access rule of a collection. Raises UsageError as the change does."""
    check_rule(rule)
    number = find_collection(session, set_spec).id
    members = select(DocumentCollection.document_id).where(DocumentCollection.collection_id == number)
    changes = {"ruled": number, "access": rule.access, "until": rule.embargo_until}
    return _preview(session, members, changes)


def count_harvesters(session: Session, first: datetime | None) -> int:
    """Count harvesters that read lists after that time, when the first of some documents was published."""
    return session.execute(_HARVESTERS, {"first": first}).scalar_one() if first is not None else 0


def _preview(session: Session, chosen: Select[int], changes: Mapping[str, Any]) -> ChangePreview:
    found = session.scalars(chosen.limit(MOST_COUNTED + 1)).all()
    ids = found[:MOST_COUNTED]
    unchanged: dict[str, Any] = {"added": [], "removed": [], "ruled": None, "access": None, "until": None}
    values = {**unchanged, **changes, "ids": ids, "unlisted": UNLISTED, "strictness": list(Access)}
    rows = session.execute(text(_CHANGES), values).all()
    shown = session.execute(_SHOWN, {"ids": ids[:_EXAMPLES]}).all()
    first = min((row.first for row in rows if row.first is not None), default=None)
    return ChangePreview(
        documents=len(ids),
        more=len(found) > MOST_COUNTED,
        access={(Access(row.before), Access(row.after)): row.documents for row in rows},
        harvesters=count_harvesters(session, first),
        examples=[(row.url, row.archived) for row in shown],
    )
