"""Access rules: which one holds for a document, and what it says.

A document's effective rule is the strictest of all collections that it is in, those above them included; a
document in no collection is open. So a collection can close what lies below it and never open it, it does not
matter in which order documents were assigned, and an oversight in one collection opens nothing that a
contract in another closes. The effective rule stands in the document's own row, so that a list stays one
range scan; whatever changes rules or memberships lets the rows follow (`follow_rules`), in the transaction
that dates them anew.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from oai.datestamps import format_datestamp
from oai.proxies import Address
from oai.sections import ProviderSettings
from provider.models import UNLISTED, Access, Collection

_TREE_LOCK: Final = 0x7A_61_74_72_65
"""Shared by whoever files documents; alone by whoever changes the tree or its rules."""

# OFFSET keeps the look-up one by the document's key; as a join, it could pass through all memberships.
_FOLLOW: Final = """
WITH ruled AS (
    SELECT chosen.id, max(collection.embargo_until) AS embargo_until,
        coalesce(max(array_position(CAST(:strictness AS text[]), collection.access)), 1) AS rank
    FROM chosen
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
"""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Who may see something."""

    access: Access = Access.OPEN
    embargo_until: datetime | None = None
    """End of the embargo; None with every other rule."""

    @property
    def strictness(self) -> tuple[int, float]:
        """Grows with how much is closed, and for how long."""
        until = self.embargo_until.timestamp() if self.embargo_until else 0.0
        return list(Access).index(self.access), until

    def datestamp(self, published: datetime) -> datetime:
        """The datestamp of a new document: withheld ones are never listed at all."""
        return UNLISTED if self.access == Access.WITHHELD else published


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """Where new documents go."""

    collections: tuple[int, ...]
    """The collection's id, then those of all above it up to the root."""
    rule: Rule


def strictest(rules: Sequence[Rule]) -> Rule:
    """The rule that holds for something under all of these; open for none."""
    return max(rules, key=lambda rule: rule.strictness, default=Rule())


def enrolment(session: Session, collection_id: int) -> Enrolment:
    """Collections and rule for new documents of a collection, as they stay until this transaction ends.

    To be asked for within the publishing transaction: a change of the tree or of a rule waits for it, and
    what is published later follows the change.
    """
    hold_tree(session)
    found = []
    above: int | None = collection_id
    while above is not None:
        found.append(session.get_one(Collection, above, populate_existing=True))
        above = found[-1].parent_id
    rules = [Rule(access=Access(row.access), embargo_until=row.embargo_until) for row in found]
    return Enrolment(collections=tuple(row.id for row in found), rule=strictest(rules))


def follow_rules(session: Session) -> None:
    """Give the documents in `chosen` the strictest rule of their collections; notes changes in `altered`."""
    session.execute(text(_FOLLOW), {"strictness": list(Access)})


def hold_tree(session: Session) -> None:
    """See that neither tree nor rules of collections change until this transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock_shared(_TREE_LOCK)))


def change_tree(session: Session) -> None:
    """Wait until nobody files documents any more, and hold them up until this transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(_TREE_LOCK)))


def rights_of(settings: ProviderSettings, access: str, embargo_until: datetime | None = None) -> str:
    """What the effective rule of a document says to its readers, in the settings' words.

    `{until}` in them is the day (UTC) on which an embargo ends.
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
    """Whether a reader's address is one of the reading room; not for one that nobody knows."""
    networks = map(ipaddress.ip_network, settings.reading_room)
    return reader is not None and any(reader in network for network in networks)
