"""Rows for the dashboard to show, put in as the harvester and the manager would."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from harvester.doctor.findings import Fact, Profile, Report
from harvester.models import History, Repository, RunStatus
from harvester.repositories import add_repository
from manager.models import RecurringJob
from manager.schedules import add_schedule

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_repository(session: Session, name: str = "Library of Telč", folder: str = "telc") -> Repository:
    """A repository that was asked nothing."""
    repository = add_repository(session, base_url=f"https://{folder}.example/oai", base_dir=folder)
    repository.repository_name = name
    session.flush()
    return repository


def a_schedule(session: Session, repository: Repository, **columns: Any) -> RecurringJob:
    """A daily schedule."""
    columns = {"frequency": "daily at 02:30", "metadata_prefix": "marc21", **columns}
    return add_schedule(session, repository_id=repository.repository_id, **columns)


def a_run(session: Session, repository: Repository, **columns: Any) -> History:
    """A run that completed a minute after it began."""
    values = {
        "harvest_start_time": BEGAN,
        "harvest_end_time": BEGAN + timedelta(minutes=1),
        "status": RunStatus.COMPLETED,
        "verdict": "complete",
        "metadata_prefix": "oai_dc",
        **columns,
    }
    run = History(repository_id=repository.repository_id, **values)
    session.add(run)
    session.flush()
    return run


def an_examination() -> Report:
    """A report with a fact of each grade."""
    facts = [
        Fact(subject="version", found="well"),
        Fact(subject="page size", found="small", values={"count": 10}),
        Fact(subject="token again", found="refused"),
        Fact(subject="records", found="none"),
    ]
    return Report(
        base_url="https://telc.example/oai",
        examined=BEGAN,
        requests=20,
        seconds=12.5,
        repository_name="Library of Telč",
        admin_emails=("librarian@telc.example",),
        facts=facts,
        profile=Profile(slice="month", why=("token again.refused",)),
    )
