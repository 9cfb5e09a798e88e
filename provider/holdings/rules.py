"""Access rules: which rule applies to a document, and its text for readers.

A document's effective rule is the strictest of all collections that it is in, including their ancestors, of
the title to which it belongs and of lists of addresses (`provider.titles.access`); a document in none is
open. A collection can therefore only close documents below it and never open them, the order of assignments
does not matter, and an oversight in one collection opens nothing that a contract in another one closes. The
effective rule is stored in the document's row, so that a list stays one range scan; every change of rules
or memberships updates the rows (`follow_rules`) in the transaction that gives them a new datestamp.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from sqlalchemy import func, select, text
from sqlalchemy.exc import NoResultFound
from sqlalchemy.orm import Session

from oai.datestamps import format_datestamp, utc_now
from oai.errors import UsageError, ZatvaError
from oai.failures import FailureCode
from oai.proxies import Address
from oai.sections import ProviderSettings
from provider.models import UNLISTED, Access, Collection

_TREE_LOCK: Final = 0x7A_61_74_72_65
"""Held shared when documents are assigned; held exclusively when the tree or its rules change."""

TITLE_RULE: Final = """
LEFT JOIN LATERAL (
    SELECT segment.access FROM document CROSS JOIN LATERAL (
        SELECT access, high FROM title_segment WHERE low <= document.url_key ORDER BY low DESC LIMIT 1
    ) AS segment
    WHERE document.id = chosen.id AND document.url_key < segment.high
) AS title ON true
"""
"""Joins `chosen` with the rules of titles and lists of addresses, as `title.access`."""
# OFFSET forces one index look-up per document; as a join, it could scan all memberships.
_FOLLOW: Final = f"""
WITH ruled AS (
    SELECT chosen.id, max(collection.embargo_until) AS embargo_until,
        greatest(1, max(array_position(CAST(:strictness AS text[]), collection.access)),
            max(array_position(CAST(:strictness AS text[]), title.access))) AS rank
    FROM chosen
    {TITLE_RULE}
    LEFT JOIN LATERAL (
        SELECT collection_id FROM document_collection WHERE document_id = chosen.id OFFSET 0
    ) AS membership ON true
    LEFT JOIN collection ON collection.id = membership.collection_id
    GROUP BY chosen.id
),
effective AS (
    SELECT id, (CAST(:strictness AS text[]))[rank] AS access,
        CASE WHEN (CAST(:strictness AS text[]))[rank] = 'embargo' THEN embargo_until END AS embargo_until
    FROM ruled
),
changed AS (
    UPDATE document SET access = effective.access, embargo_until = effective.embargo_until
    FROM effective
    WHERE document.id = effective.id AND document.id = ANY(ARRAY(SELECT id FROM chosen))
        AND (document.access, document.embargo_until)
            IS DISTINCT FROM (effective.access, effective.embargo_until)
    RETURNING document.id
)
INSERT INTO altered SELECT id FROM changed
"""  # noqa: S608 constant text


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Who may see a document or collection."""

    access: Access = Access.OPEN
    embargo_until: datetime | None = None
    """End of the embargo; None with every other rule."""

    @property
    def strictness(self) -> tuple[int, float]:
        """Sort key: access level, then the end of the embargo."""
        until = self.embargo_until.timestamp() if self.embargo_until else 0.0
        return list(Access).index(self.access), until

    def datestamp(self, published: datetime) -> datetime:
        """Return the datestamp of a new document: withheld ones are never listed."""
        return UNLISTED if self.access == Access.WITHHELD else published


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """Collections and rule for new documents."""

    collections: tuple[int, ...]
    """The id of the collection, then those of its ancestors up to the root."""
    rule: Rule


class CollectionGoneError(ZatvaError):
    """The collection for new documents has been removed."""

    failure_code: ClassVar = FailureCode.ARCHIVE_COLLECTION_GONE


def check_rule(rule: Rule) -> None:
    """Raise UsageError for an embargo without an end or with a past one, and for another rule with an end."""
    if (rule.access == Access.EMBARGO) != (rule.embargo_until is not None):
        raise UsageError("only an embargo has an end, and it needs one: give --until with the rule 'embargo'")
    if rule.embargo_until is not None and rule.embargo_until <= utc_now():
        shown = format_datestamp(rule.embargo_until)
        raise UsageError("an embargo until %(moment)s has already ended; use the rule 'open'", moment=shown)


def rule_of(collection: Collection) -> Rule:
    """Return the collection's own rule."""
    return Rule(access=Access(collection.access), embargo_until=collection.embargo_until)


def strictest(rules: Sequence[Rule]) -> Rule:
    """Return the rule that applies under all of these; open if there are none."""
    return max(rules, key=lambda rule: rule.strictness, default=Rule())


def enrolment(session: Session, collection_id: int) -> Enrolment:
    """Return collections and rule for new documents of a collection, valid until this transaction ends.

    Call this within the publishing transaction: a change of the tree or of a rule waits for it, and also
    applies to what was published before it. Raises CollectionGoneError.
    """
    hold_tree(session)
    found = []
    above: int | None = collection_id
    while above is not None:
        try:
            found.append(session.get_one(Collection, above, populate_existing=True))
        except NoResultFound:
            raise CollectionGoneError("its collection was removed meanwhile") from None
        above = found[-1].parent_id
    return Enrolment(
        collections=tuple(row.id for row in found), rule=strictest([rule_of(row) for row in found])
    )


def follow_rules(session: Session) -> None:
    """Set the documents in `chosen` to the strictest rule of their collections; adds changes to `altered`."""
    session.execute(text(_FOLLOW), {"strictness": list(Access)})


def hold_tree(session: Session) -> None:
    """Prevent changes of the tree and its rules until this transaction ends (shared advisory lock)."""
    session.execute(select(func.pg_advisory_xact_lock_shared(_TREE_LOCK)))


def change_tree(session: Session) -> None:
    """Wait for transactions that hold the tree, and block new ones until this transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(_TREE_LOCK)))


def rights_of(settings: ProviderSettings, access: str, embargo_until: datetime | None = None) -> str:
    """Return the statement of a document's effective rule for its readers, from the settings.

    `{until}` in the statement is replaced by the day (UTC) on which an embargo ends.
    """
    words = {
        Access.OPEN: settings.rights_open,
        Access.READING_ROOM: settings.rights_reading_room,
        Access.EMBARGO: settings.rights_embargo,
        Access.WITHHELD: settings.rights_withheld,
    }[Access(access)]
    until = format_datestamp(embargo_until)[:10] if embargo_until else "further notice"
    return words.replace("{until}", until)


def in_reading_room(settings: ProviderSettings, reader: Address | None) -> bool:
    """Return whether a reader's address is in the reading room; False for an unknown address."""
    networks = map(ipaddress.ip_network, settings.reading_room)
    return reader is not None and any(reader in network for network in networks)
