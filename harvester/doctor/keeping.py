"""An examination's report in its repository's row. The caller commits."""

from sqlalchemy import update
from sqlalchemy.orm import Session

from harvester.doctor.findings import Report
from harvester.models import Repository


def keep_report(session: Session, repository_id: int, report: Report) -> None:
    """Keep the report and its harvest profile in place of the last ones. The caller commits."""
    session.execute(
        update(Repository)
        .where(Repository.repository_id == repository_id)
        .values(examined=report.examined, examination=report.as_json(), profile=report.profile.as_json())
    )
