"""Runs killed after the last page of a list: the rest is done, and no page is requested again."""

import pytest
from sqlalchemy import select

from harvester.models import Harvest
from tests.harvester.killing import kill_where_it_stalls, stall
from tests.harvester.library import Library

BEFORE_THE_LIST_ENDS = ("oai_harvest", "UPDATE ON oai_harvest", "new.run_state->'windows' = '[]'")
BEFORE_DELETIONS = ("oai_record", "UPDATE ON oai_record", "new.status = 'deleted'")
BEFORE_THE_HISTORY = ("oai_history", "INSERT ON oai_history", "true")


def saved(library: Library) -> dict[str, object]:
    """Return the run's state as saved by the killed process."""
    with library.database.session() as session:
        return dict(session.scalars(select(Harvest.run_state)).one())


@pytest.mark.parametrize(
    ("place", "page_size"),
    [
        (BEFORE_THE_LIST_ENDS, 10),
        (BEFORE_THE_LIST_ENDS, 100),
        (BEFORE_DELETIONS, 10),
        (BEFORE_THE_HISTORY, 10),
    ],
)
async def test_a_run_killed_after_its_last_page_plans_and_sends_no_request_again(
    library: Library, place: tuple[str, str, str], page_size: int
) -> None:
    library.fake.page_size = page_size
    library.forgets()
    await library.run()
    lost = library.fake.items.pop(3).identifier
    table, event, when = place
    stall(library, event, when)
    await kill_where_it_stalls(library, table, arguments=("--full",))
    left = saved(library)
    if left["windows"] == []:
        code, printed, _ = await library.command("harvest", "1", "--full", "--dry-run")
        assert (code, "first request: none: all lists are stored" in printed) == (0, True)
    assert (left.get("last_page"), left["windows"] == []) == (
        ("no token" if page_size == 100 else "empty token", False)
        if place is BEFORE_THE_LIST_ENDS
        else (None, True)
    )
    library.fake.asked.clear()
    outcome = await library.run(full=True)
    assert library.fake.lists() == []
    assert (outcome.verdict, outcome.counts["records"], outcome.counts["unchanged"]) == ("complete", 24, 24)
    assert (outcome.counts["deleted"], outcome.evidence.repeated, outcome.evidence.missing) == (1, 0, 0)
    assert lost not in library.living()
    assert len(library.living()) == 24
