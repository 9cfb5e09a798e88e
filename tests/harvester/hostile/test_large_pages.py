"""A page of a million elements; runs only with long tests."""

from pathlib import Path

import pytest

from harvester.vocabulary import Level
from oai.database import Database
from oai.settings import Settings
from tests.harvester.fake_repository import Item
from tests.harvester.hostile.running import run, truth_of
from tests.harvester.hostile.scenario import all_of, scenario
from tests.harvester.hostile.server import Hostile, no_fault

_RECORDS = 150_000
_LONGEST = 600


async def test_a_page_of_a_million_elements_is_stored_completely(
    shared_database: Database, shared_settings: Settings, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--long"):
        pytest.skip("takes a minute or more; --long runs it")
    items = [Item(identifier=f"oai:a:{number}", title=f"Title {number}") for number in range(_RECORDS)]
    large = scenario(
        "a-million-elements",
        f"{_RECORDS:,} records come in one page",
        lambda: no_fault,
        all_of(_RECORDS),
        items=items,
        server={"page_size": _RECORDS},
        settings={"timeout": 300.0, "slow_seconds": 300.0},
    )
    hostile = large.make()
    assert _elements(hostile) > 1_000_000
    left = await run(
        hostile,
        shared_database,
        shared_settings,
        tmp_path / "out",
        level=Level.LOOSE,
        scenario=large,
        longest=_LONGEST,
    )
    assert (left.outcome.verdict, left.outcome.counts["records"]) == ("complete", _RECORDS)
    assert left.active == {item.identifier for item in items}
    assert left.metadata[items[-1].identifier] == truth_of(items[-1])


def _elements(hostile: Hostile) -> int:
    """Return the number of elements on the page."""
    answer = hostile.reply("/oai?verb=ListRecords&metadataPrefix=oai_dc").body
    hostile.asked.clear()
    return answer.count(b"</")
