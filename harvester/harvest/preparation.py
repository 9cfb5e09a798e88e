"""What is decided from a repository's row before its harvest begins; the caller commits."""

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.harvest.page_writer import Layout
from harvester.harvest.plan import Target
from harvester.harvest.request import HarvestRequest
from harvester.models import Repository
from oai.datestamps import format_datestamp
from oai.errors import TryLaterError
from oai.reach import without_credentials


def check_wait(repository: Repository, now: datetime) -> None:
    """Raise TryLaterError if the repository's requested waiting time has not passed."""
    if repository.not_before is not None and repository.not_before > now:
        until = format_datestamp(repository.not_before)
        raise TryLaterError(
            f"{without_credentials(repository.base_url)}: the repository asked to wait until {until}; "
            "run the same command then, or now with --ignore-wait"
        )


def note_wait(session: Session, repository_id: int, until: datetime | None) -> None:
    """Store the time until which the repository asked not to be contacted; None deletes it."""
    waits = update(Repository).where(Repository.repository_id == repository_id).values(not_before=until)
    session.execute(waits, execution_options={"synchronize_session": False})


def target(repository: Repository) -> Target:
    """Return what a plan depends on."""
    return Target(
        base_url=repository.base_url,
        granularity=repository.granularity,
        earliest_datestamp=repository.earliest_datestamp,
        deleted_record=repository.deleted_record,
        by_datestamps=access_of(repository.protocol).query is None,
    )


def choose_layout(session: Session, request: HarvestRequest, repository: Repository) -> Layout:
    """Return the file layout; the first harvested format gets file names without the format."""
    prefix = request.metadata_prefix
    if repository.plain_prefix is None:  # another harvest may set it at this moment
        session.execute(
            update(Repository)
            .where(Repository.repository_id == repository.repository_id, Repository.plain_prefix.is_(None))
            .values(plain_prefix=prefix)
        )
        session.refresh(repository)
    return Layout(
        metadata_prefix=prefix,
        plain=repository.plain_prefix == prefix,
        parse_id=request.parse_id,
        files_per_directory=request.files_per_directory,
    )
