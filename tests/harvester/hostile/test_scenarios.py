"""Each scenario is harvested, leniently and strictly, and compared with its ground truth."""

from pathlib import Path

import pytest

from harvester.harvest.result import received, shares_of
from harvester.vocabulary import Level, RunStatus, Verdict
from oai.database import Database
from oai.datestamps import parse_datestamp
from oai.settings import Settings
from tests.harvester.hostile import repeats
from tests.harvester.hostile.running import Left, run, truth_of
from tests.harvester.hostile.scenario import Scenario, Truth
from tests.harvester.hostile.scenarios import KINDS, SCENARIOS


@pytest.mark.parametrize("scenario", repeats.LOOSELY)
async def test_a_lenient_harvest_stores_all_available_records(
    scenario: Scenario, shared_database: Database, shared_settings: Settings, tmp_path: Path
) -> None:
    hostile = scenario.make()
    left = await run(
        hostile, shared_database, shared_settings, tmp_path / "out", level=Level.LOOSE, scenario=scenario
    )
    _agrees(left, scenario.loose)
    _has_the_truth(left, scenario)
    _counts_each_record_once(left)
    wanted = {item.identifier for item in hostile.items if not item.deleted} - scenario.lost
    if scenario.loose.verdict is not Verdict.FAILED:
        assert left.active == wanted
    if scenario.notable:
        assert left.outcome.warnings
    _names_its_reason(left)
    if scenario.watermark is not None:
        assert left.watermark == scenario.watermark
    assert left.requests <= scenario.most_requests


@pytest.mark.parametrize("scenario", repeats.STRICTLY)
async def test_a_strict_harvest_stops_where_required(
    scenario: Scenario, shared_database: Database, shared_settings: Settings, tmp_path: Path
) -> None:
    hostile = scenario.make()
    left = await run(
        hostile, shared_database, shared_settings, tmp_path / "out", level=Level.STRICT, scenario=scenario
    )
    _agrees(left, scenario.strict)
    _has_the_truth(left, scenario)
    _names_its_reason(left)
    _counts_each_record_once(left)
    assert left.requests <= scenario.most_requests


def test_there_are_many_scenarios_and_no_duplicates() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names) >= 60


@pytest.mark.parametrize("table", [repeats.LOOSE, repeats.STRICT])
def test_repeated_scenarios_exist_and_end_like_the_one_that_represents_them(table: str) -> None:
    truths = {one.name: one.loose if table is repeats.LOOSE else one.strict for one in SCENARIOS}
    rows = repeats.rows(table)
    assert len({name for row in rows for name in row}) == sum(map(len, rows))
    for first, *others in rows:
        assert [truths[name] == truths[first] for name in others] == [True] * len(others), first


def test_each_kind_of_scenario_and_each_outcome_has_a_harvest_that_always_runs() -> None:
    names = {one.name for one in SCENARIOS}
    assert names >= repeats.ONLY_LONG_LOOSELY | repeats.ONLY_LONG_STRICTLY
    for kind, scenarios in KINDS.items():
        always = {one.loose for one in scenarios if one.name not in repeats.ONLY_LONG_LOOSELY}
        assert always == {one.loose for one in scenarios if one.name != repeats.LARGEST}, kind
        assert [one for one in scenarios if one.name not in repeats.ONLY_LONG_STRICTLY], kind


def _agrees(left: Left, truth: Truth) -> None:
    outcome = left.outcome
    found = (len(left.active), len(left.deleted), outcome.verdict, outcome.status, outcome.exit_code)
    expected = (truth.records, truth.deleted, truth.verdict, truth.status, truth.exit_code)
    assert found == expected, (outcome.failure_reason, outcome.warnings)
    assert len(left.files) == truth.records
    if outcome.verdict is not Verdict.COMPLETE:
        assert left.watermark is None
    elif left.watermark is not None:
        parse_datestamp(left.watermark)


def _names_its_reason(left: Left) -> None:
    """Check that a verdict other than complete has a warning or a failure with the reason."""
    outcome = left.outcome
    if outcome.status is RunStatus.COMPLETED_WITH_ERRORS:
        assert [note for note in outcome.notes if note.failure is not None]
    elif outcome.verdict is not Verdict.COMPLETE:
        assert outcome.failure is not None


def _counts_each_record_once(left: Left) -> None:
    """Check that received records are the sum of their outcomes, and none counts as new twice."""
    counts = left.outcome.counts
    shares = shares_of(counts)
    assert sum(shares.values()) == received(counts), dict(counts)
    assert min(shares.values()) >= 0, dict(counts)
    assert counts["new"] == len(left.active), dict(counts)
    assert not counts["unchanged"], dict(counts)


def _has_the_truth(left: Left, scenario: Scenario) -> None:
    """Check that the stored records are, byte for byte in canonical XML, those of the repository."""
    truth = {item.identifier: item for item in scenario.make().items}
    assert set(left.metadata) == left.active
    for identifier, metadata in left.metadata.items():
        assert metadata == truth_of(truth[identifier])
