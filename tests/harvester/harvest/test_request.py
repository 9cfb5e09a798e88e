"""The parameters of one harvest."""

import pytest

from harvester.harvest.request import HarvestRequest
from harvester.harvest.watermark import CompleteHarvest
from oai.errors import UsageError


@pytest.mark.parametrize(
    ("harvest_from", "harvest_to"),
    [
        (None, None),
        ("2024-05-02", None),
        (None, "2024-05-02"),
        ("2024-05-02", "2024-05-02"),
        ("2024-05-02T23:00:00Z", "2024-05-02"),
    ],
)
def test_a_range_may_be_open_or_a_single_day(harvest_from: str | None, harvest_to: str | None) -> None:
    HarvestRequest(repository_id=1, harvest_from=harvest_from, harvest_to=harvest_to).check()


def test_a_range_that_ends_before_it_begins_is_rejected() -> None:
    request = HarvestRequest(repository_id=1, harvest_from="2024-05-03", harvest_to="2024-05-02")
    with pytest.raises(UsageError, match="from '2024-05-03' is later than until '2024-05-02'"):
        request.check()


@pytest.mark.parametrize(
    "values",
    [{"max_records": 0}, {"files_per_directory": 0}, {"metadata_prefix": ""}, {"metadata_prefix": 61 * "a"}],
)
def test_a_parameter_beyond_its_limit_is_rejected(values: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        HarvestRequest(repository_id=1, **values).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values", [{"max_records": 1}, {"files_per_directory": 1}, {"metadata_prefix": 60 * "a"}]
)
def test_a_parameter_at_its_limit_is_accepted(values: dict[str, object]) -> None:
    HarvestRequest(repository_id=1, **values).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "watermark", "from_", "expected"),
    [
        ({}, None, None, True),
        ({"harvest_from": "2024-05-01"}, None, "2024-05-01T00:00:00Z", True),
        ({"harvest_from": "2024-05-01"}, "2024-05-01T00:00:00Z", "2024-05-01T00:00:00Z", True),
        ({"harvest_from": "2024-05-01"}, "2024-04-30T23:59:59Z", "2024-05-01T00:00:00Z", False),
        ({"harvest_from": "2024-05-01"}, "2024-05-02T00:00:00Z", "2024-05-01T00:00:00Z", True),
        ({"harvest_from": "2024-05-01"}, "2024-05-01T23:59:59Z", "2024-05-01", False),
        ({"harvest_from": "2024-05-01T18:00:00Z"}, "2024-05-02T12:00:00Z", "2024-05-01", True),
        ({"harvest_to": "2024-05-01"}, "2024-05-02T00:00:00Z", None, False),
        ({"max_records": 5}, None, None, False),
        ({"replay": 1}, None, None, False),
    ],
)
def test_a_run_that_starts_at_the_watermark_or_in_days_before_its_day_covers_all_later_changes(
    values: dict[str, object], watermark: str | None, from_: str | None, *, expected: bool
) -> None:
    request = HarvestRequest(repository_id=1, **values)  # type: ignore[arg-type]
    assert request.covers(CompleteHarvest(watermark=watermark), from_) is expected


def test_a_run_from_a_date_does_not_cover_what_is_to_be_requested_again() -> None:
    lost = CompleteHarvest(restarts=True)
    assert not HarvestRequest(repository_id=1, harvest_from="2024-05-01").covers(lost, "2024-05-01")
    assert HarvestRequest(repository_id=1, harvest_floor="2024-05-01").covers(lost, None)
