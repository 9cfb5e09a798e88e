"""Room for a run: what its organisation may store, and the free disk space that harvests must leave.

A run without room ends before it writes the pages at hand (those that one commit would store), so its
checkpoint stays there and a later run resumes there.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from harvester.models import Record
from harvester.vocabulary import RecordStatus
from oai.errors import ExitCode, ZatvaError
from oai.failures import Failure, FailureCode
from oai.owners import Organisation, RepositoryOwner, owner_of
from oai.sections import HarvesterSettings
from oai.settings import Settings


class NoRoomError(ZatvaError):
    """There is no room for the next page, of which nothing has been stored."""

    exit_code: ClassVar[ExitCode] = ExitCode.TRY_LATER

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence())
        self.failure = failure


@dataclass(frozen=True, kw_only=True)
class DiskFloor:
    """The free space that harvests leave on the disks of these folders."""

    folders: Sequence[Path]
    bytes: int
    percent: float

    def check(self) -> None:
        """Raise NoRoomError if one of the disks has less free space."""
        for folder in self.folders:
            existing = next(step for step in (folder, *folder.absolute().parents) if step.exists())
            disk = shutil.disk_usage(existing)
            floor = min(self.bytes, int(disk.total * self.percent / 100))
            if disk.free < floor:
                facts = {"folder": str(folder), "free": disk.free, "floor": floor}
                setting = "harvester.floor_bytes or harvester.floor_percent"
                raise NoRoomError(Failure(code=FailureCode.DISK_FLOOR, facts={**facts, "setting": setting}))


@dataclass(kw_only=True)
class Quota:
    """The records that an organisation may store, in all of its repositories together."""

    organisation_id: int
    short_name: str
    limit: int
    stored: int
    """Records of the organisation when this run last committed, those of its other runs included."""
    added: int = 0
    """New records of this run that are not committed."""

    def check(self, new: int) -> None:
        """Count a page's new records before any is stored. Raises NoRoomError if they do not fit."""
        if new and self.stored + self.added + new > self.limit:
            facts = {"organisation": self.short_name, "limit": self.limit, "stored": self.stored + self.added}
            raise NoRoomError(Failure(code=FailureCode.QUOTA_RECORDS, facts=facts))
        self.added += new

    def save(self, session: Session) -> None:
        """Add the new records to the organisation's, as the last statement before the caller commits.

        The row stays locked until then, so nothing slow may follow. Two runs of one organisation exceed the
        limit by what one of them has not committed at most.
        """
        if self.added:
            adding = (
                update(Organisation)
                .where(Organisation.organisation_id == self.organisation_id)
                .values(records=Organisation.records + self.added)
                .returning(Organisation.records)
            )
            self.stored = session.scalars(adding).one_or_none() or 0
            self.added = 0


def open_floor(settings: Settings, folder: Path) -> DiskFloor:
    """Return the floor of the data folder's disk and that of the repository's files."""
    ours = settings.harvester
    return DiskFloor(folders=(settings.data, folder), bytes=ours.floor_bytes, percent=ours.floor_percent)


def open_quota(session: Session, repository_id: int, settings: HarvesterSettings) -> Quota | None:
    """Count what the repository's organisation stores; None without organisation or limit.

    The count also corrects the organisation's number for deletions and removed repositories. The caller
    commits.
    """
    owner = owner_of(session, repository_id)
    limit = None if owner is None else _limit(owner, settings)
    if owner is None or not limit:
        return None
    # Locked before counting: other runs add to the number in the transaction that stores their records, so
    # each of these is in the count or is added to it later.
    session.refresh(owner, with_for_update=True)
    owned = select(RepositoryOwner.repository_id).where(
        RepositoryOwner.organisation_id == owner.organisation_id
    )
    active = select(func.count()).where(Record.repository_id.in_(owned), Record.status == RecordStatus.ACTIVE)
    owner.records = session.scalars(active).one()
    session.flush()
    return Quota(
        organisation_id=owner.organisation_id, short_name=owner.short_name, limit=limit, stored=owner.records
    )


def _limit(owner: Organisation, settings: HarvesterSettings) -> int:
    return settings.organisation_records if owner.max_records is None else owner.max_records
