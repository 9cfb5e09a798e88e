"""Decisions about held runs."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select, text

from harvester.harvest.approval import HoldKind, HoldState, close, get_hold
from harvester.harvest.models import Hold
from harvester.models import Harvest, History
from harvester.repositories import add_repository
from harvester.store.records import RunKey
from oai.database import Database
from oai.errors import UsageError
from tests.commands import zatva

NOW = datetime(2024, 6, 1, tzinfo=UTC)


def held(database: Database, *states: HoldState) -> list[int]:
    """Add a repository with a run of this state for each; return the runs' numbers."""
    with database.session() as session, session.begin():
        numbers = []
        for place, state in enumerate(states):
            repository = add_repository(session, base_url=f"http://{place}/oai", base_dir=str(place))
            session.flush()
            harvest = Harvest(repository_id=repository.repository_id, metadata_prefix="oai_dc", set_spec="")
            run = History(repository_id=repository.repository_id, status="held", harvest_start_time=NOW)
            session.add_all([harvest, run])
            session.flush()
            session.add(
                Hold(
                    history_id=run.history_id, harvest_id=harvest.harvest_id, run_started=NOW,
                    kind=HoldKind.DELETIONS.value, would_delete=1, would_update=0, active=1, allowed=0,
                    sample=[], state=state.value,
                )
            )  # fmt: skip
            numbers.append(run.history_id)
        return numbers


@pytest.mark.parametrize(
    ("state", "reason"),
    [(HoldState.SUPERSEDED, "a later run has newer results"), (HoldState.RELEASED, "it is already approved")],
)
def test_a_run_that_is_no_longer_held_is_not_decided_and_the_reason_is_reported(
    database: Database, state: HoldState, reason: str
) -> None:
    (number,) = held(database, state)
    with database.session() as session, pytest.raises(UsageError, match=reason):
        get_hold(session, number)


@pytest.mark.copied_database("it changes a setting of the database")
def test_a_held_run_is_shown_without_writing_anything(
    database: Database, environment: dict[str, str]
) -> None:
    (number,) = held(database, HoldState.HELD)
    with database.session() as session:
        name = session.scalar(text("SELECT current_database()"))
        session.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
        session.commit()
    shown = zatva(environment, "job", "release", str(number), "--show")
    assert (shown.returncode, shown.stderr) == (0, "")


def test_a_complete_run_closes_the_requests_of_its_own_harvest_only(database: Database) -> None:
    held(database, HoldState.HELD, HoldState.HELD, HoldState.HELD)
    with database.session() as session, session.begin():
        second = session.scalars(select(Harvest.harvest_id).order_by(Harvest.harvest_id)).all()[1]
        close(session, RunKey(harvest_id=second, run_started=NOW), everything=True)
    with database.session() as session:
        states = session.scalars(select(Hold.state).order_by(Hold.history_id)).all()
    assert states == ["held", "superseded", "held"]


def test_a_complete_run_leaves_earlier_decisions_unchanged(database: Database) -> None:
    (number,) = held(database, HoldState.DONE)
    with database.session() as session, session.begin():
        harvest = session.scalars(select(Harvest.harvest_id)).one()
        close(session, RunKey(harvest_id=harvest, run_started=NOW), everything=True)
    with database.session() as session:
        assert session.get_one(Hold, number).state == "done"


def test_a_complete_run_completes_an_approved_hold(database: Database) -> None:
    (number,) = held(database, HoldState.RELEASED)
    with database.session() as session, session.begin():
        harvest = session.scalars(select(Harvest.harvest_id)).one()
        close(session, RunKey(harvest_id=harvest, run_started=NOW), everything=True)
    with database.session() as session:
        assert session.get_one(Hold, number).state == "done"
