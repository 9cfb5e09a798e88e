"""Organisations and their repositories. Tables keep the prefix `web_` of the package that created them."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Identity, Text, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from oai.models import Base
from oai.sections import HarvesterSettings


class Organisation(Base):
    """An organisation that owns repositories, schedules and users."""

    __tablename__ = "web_organisation"

    organisation_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    short_name: Mapped[str] = mapped_column(Text, unique=True)
    """Also the value of `oai_recurring_job.owner` and `oai_job.owner`, between which workers alternate."""
    name: Mapped[str] = mapped_column(Text)
    records: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Records that its repositories store; counted again when one of its harvests begins."""
    bytes: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Bytes of their files and raw answers, counted at the same time."""
    max_records: Mapped[int | None] = mapped_column(BigInteger)
    """Records that it may store; 0: no limit, NULL: the setting `harvester.organisation_records`."""
    max_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes that it may store; 0: no limit, NULL: the setting `harvester.organisation_bytes`."""
    created: Mapped[datetime] = mapped_column(server_default=func.now())


class RepositoryOwner(Base):
    """The organisation that a repository belongs to; without a row here, it belongs to the administrators."""

    __tablename__ = "web_repository_owner"

    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    organisation_id: Mapped[int] = mapped_column(
        ForeignKey("web_organisation.organisation_id", ondelete="CASCADE"), index=True
    )


def owner_of(session: Session, repository_id: int) -> Organisation | None:
    """Return the organisation that the repository belongs to; None: the administrators."""
    owner = (
        select(Organisation)
        .join(RepositoryOwner, RepositoryOwner.organisation_id == Organisation.organisation_id)
        .where(RepositoryOwner.repository_id == repository_id)
    )
    return session.scalars(owner).one_or_none()


def limits_of(owner: Organisation, settings: HarvesterSettings) -> tuple[int, int]:
    """Return how many records and how many bytes the organisation may store; 0: no limit."""
    return (
        settings.organisation_records if owner.max_records is None else owner.max_records,
        settings.organisation_bytes if owner.max_bytes is None else owner.max_bytes,
    )


def folder_of(organisation_id: int) -> str:
    """Return the name of the organisation's own folder, below the store and below the folder of rules.

    By number, because an organisation may be renamed, and another may get its old name.
    """
    return f"organisation-{organisation_id}"
