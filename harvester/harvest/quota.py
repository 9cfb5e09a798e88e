"""What the organisation of a run's repository may store: records and bytes.

A run without room ends before it writes the pages at hand (those that one commit would store), so its
checkpoint stays there and a later run resumes there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from harvester.harvest.raw_capture import raw_folder
from harvester.models import Record
from harvester.vocabulary import RecordStatus
from oai.disk import DiskFullError
from oai.failures import Failure, FailureCode
from oai.owners import Organisation, RepositoryOwner, limits_of, owner_of
from oai.settings import Settings


class Stored(NamedTuple):
    """An amount of stored records."""

    records: int
    bytes: int
    """Of the records' files and of raw answers; of a change, the difference, which can be negative."""


@dataclass(kw_only=True)
class Quota:
    """What an organisation may store, in all of its repositories together."""

    organisation_id: int
    short_name: str
    limit: Stored
    """0: no limit."""
    stored: Stored
    """Of the organisation when this run last committed, that of its other runs included."""
    raw_bytes: Callable[[], int] = lambda: 0
    """Returns the size of the raw answers that this run has kept until now."""
    added: Stored = field(default=Stored(0, 0))
    """By this run, not committed."""

    def check(self, coming: Stored) -> None:
        """Count a page's new records before any is stored. Raises DiskFullError if they do not fit.

        What needs no room (unchanged records, deletions, smaller versions) always fits.
        """
        records = self.stored.records + self.added.records
        size = self.stored.bytes + self.added.bytes + self.raw_bytes()
        if coming.records > 0 and 0 < self.limit.records < records + coming.records:
            raise self._full(FailureCode.QUOTA_RECORDS, self.limit.records, records)
        if coming.bytes > 0 and 0 < self.limit.bytes < size + coming.bytes:
            raise self._full(FailureCode.QUOTA_BYTES, self.limit.bytes, size)
        self.added = Stored(self.added.records + coming.records, self.added.bytes + coming.bytes)

    def _full(self, code: FailureCode, limit: int, stored: int) -> DiskFullError:
        facts = {"organisation": self.short_name, "limit": limit, "stored": stored}
        return DiskFullError(Failure(code=code, facts=facts))

    def save(self, session: Session) -> None:
        """Add what is new to the organisation's numbers, as the last statement before the caller commits.

        The row stays locked until then, so nothing slow may follow. Two runs of one organisation exceed the
        limit by what one of them has not committed at most.
        """
        if any(self.added):
            adding = (
                update(Organisation)
                .where(Organisation.organisation_id == self.organisation_id)
                .values(
                    records=Organisation.records + self.added.records,
                    bytes=Organisation.bytes + self.added.bytes,
                )
                .returning(Organisation.records, Organisation.bytes)
            )
            row = session.execute(adding).one_or_none()
            self.stored = Stored(*row) if row else Stored(0, 0)
            self.added = Stored(0, 0)


def open_quota(session: Session, repository_id: int, settings: Settings) -> Quota | None:
    """Count what the repository's organisation stores; None without organisation or limit.

    The count also corrects the organisation's numbers for deletions and removed repositories. The caller
    commits.
    """
    owner = owner_of(session, repository_id)
    if owner is None or not any(limits_of(owner, settings.harvester)):
        return None
    # Locked before counting: other runs add to the numbers in the transaction that stores their records, so
    # each of these is in the count or is added to it later.
    session.refresh(owner, with_for_update=True)
    owned = session.scalars(
        select(RepositoryOwner.repository_id).where(RepositoryOwner.organisation_id == owner.organisation_id)
    ).all()
    count = select(func.count(), func.count(Record.size), func.sum(Record.size)).where(
        Record.repository_id.in_(owned), Record.status == RecordStatus.ACTIVE
    )
    records, with_size, known = session.execute(count).one()
    owner.records = records
    # Records that were stored before sizes were kept count as the others do on average.
    owner.bytes = (int(known or 0) * records // with_size if with_size else 0) + sum(
        _size_of(raw_folder(settings, number)) for number in owned
    )
    session.flush()
    return Quota(
        organisation_id=owner.organisation_id,
        short_name=owner.short_name,
        limit=Stored(*limits_of(owner, settings.harvester)),
        stored=Stored(owner.records, owner.bytes),
    )


def _size_of(folder: Path) -> int:
    files: Iterable[Path] = folder.iterdir() if folder.is_dir() else ()
    return sum(file.stat().st_size for file in files if file.is_file())
