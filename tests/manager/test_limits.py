"""What partners may ask of the shared workers."""

from datetime import timedelta

import pytest

from manager.schedules.limits import LimitError, check_run
from oai.database import Database
from tests.web.rows import BEGAN, a_repository, a_run


@pytest.mark.parametrize(
    ("began", "shown"),
    [(BEGAN, "03:20:00Z"), (BEGAN.replace(second=0), "03:19:00Z")],
    ids=["within-a-minute", "at-a-full-minute"],
)
def test_a_run_is_possible_from_the_minute_that_its_refusal_names(
    database: Database, began: object, shown: str
) -> None:
    with database.session() as session:
        a_run(session, a_repository(session), harvest_start_time=began)

        with pytest.raises(LimitError) as refused:
            check_run(session, 1, BEGAN + timedelta(minutes=1), 15)
        check_run(session, 1, BEGAN.replace(minute=20, second=0), 15)

    assert f"The next run is possible at 2026-01-02T{shown}." in str(refused.value)
