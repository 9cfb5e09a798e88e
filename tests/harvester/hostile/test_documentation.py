"""The table of docs/hostile-repositories.md has every scenario, with the outcome that the tests require."""

import functools
import re
from pathlib import Path

import pytest

from tests.harvester.hostile.compare import row
from tests.harvester.hostile.scenario import Scenario
from tests.harvester.hostile.scenarios import SCENARIOS

_PAGE = Path(__file__).parents[3] / "docs" / "hostile-repositories.md"
_CELLS = re.compile(r"(?<!\\)\|")


@functools.cache
def _rows() -> dict[str, list[str]]:
    lines = [line for line in _PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in _CELLS.split(line)[1:-1]] for line in lines]
    return {found[0].strip("`"): found for found in cells}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_table_has_the_scenario(scenario: Scenario) -> None:
    found = _rows()[scenario.name]
    assert all(found[2:4]), "sickle and oaipmh-scythe have to be measured"
    assert "| " + " | ".join(found) + " |" == row(scenario, found[2:4])


def test_the_table_has_no_other_rows() -> None:
    assert set(_rows()) == {scenario.name for scenario in SCENARIOS}
