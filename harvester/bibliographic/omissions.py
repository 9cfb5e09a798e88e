"""Which harvested records have no bibliographic row, and why."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.bibliographic.models import Omission
from harvester.models import Record


@dataclass(frozen=True, kw_only=True)
class OmissionFacts:
    """A record without a row, or (unreadable) with an old one."""

    repository_id: int
    identifier: str
    metadata_prefix: str
    kind: str
    """filtered, refused or unreadable."""
    reason: str


def list_omissions(
    session: Session,
    *,
    repository_id: int | None = None,
    kinds: tuple[str, ...] = ("refused", "unreadable"),
    limit: int = 100,
) -> list[OmissionFacts]:
    """Records that have no row; those that a filtering set passed over where `kinds` asks for them."""
    wanted = (
        select(Omission, Record.identifier)
        .join(
            Record,
            (Record.repository_id == Omission.repository_id)
            & (Record.metadata_prefix == Omission.metadata_prefix)
            & (Record.identifier_key == Omission.identifier_key),
        )
        .where(Omission.kind.in_(kinds))
        .order_by(Omission.repository_id, Omission.metadata_prefix, Omission.identifier_key)
        .limit(limit)
    )
    if repository_id is not None:
        wanted = wanted.where(Omission.repository_id == repository_id)
    return [_facts(row, identifier) for row, identifier in session.execute(wanted)]


def _facts(row: Omission, identifier: str) -> OmissionFacts:
    return OmissionFacts(
        repository_id=row.repository_id,
        identifier=identifier,
        metadata_prefix=row.metadata_prefix,
        kind=row.kind,
        reason=row.reason,
    )
