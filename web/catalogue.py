"""One repository as pages show it: its facts, and the formats and sets that it offers."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Repository

SETS_SHOWN: Final = 500


@dataclass(frozen=True, kw_only=True)
class Details:
    """A repository with what it offers; of its sets the first ones."""

    repository: Repository
    formats: list[MetadataFormat]
    set_count: int
    sets: list[OaiSet]

    @property
    def name(self) -> str:
        """What people call it: its name, or its address where it has none."""
        return self.repository.repository_name or self.repository.base_url


def details(session: Session, repository_id: int) -> Details | None:
    """The repository of that number, or None where there is none."""
    repository = session.get(Repository, repository_id)
    if repository is None:
        return None
    formats = (
        select(MetadataFormat)
        .join(PrefixMapping, PrefixMapping.prefix_id == MetadataFormat.prefix_id)
        .where(PrefixMapping.repository_id == repository_id)
        .order_by(MetadataFormat.metadata_prefix)
    )
    sets = select(OaiSet).where(OaiSet.repository_id == repository_id)
    count = select(func.count()).select_from(OaiSet).where(OaiSet.repository_id == repository_id)
    return Details(
        repository=repository,
        formats=list(session.scalars(formats)),
        set_count=session.scalars(count).one(),
        sets=list(session.scalars(sets.order_by(OaiSet.set_spec).limit(SETS_SHOWN))),
    )
