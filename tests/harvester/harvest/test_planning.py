"""What a harvest will request, and why."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from harvester.harvest.plan import RunPlan, SavedState, Target, plan
from harvester.harvest.request import HarvestRequest
from harvester.harvest.watermark import CompleteHarvest
from harvester.harvest.windows import Window
from harvester.vocabulary import Method, Slice
from oai.vocabulary import Verb

NOW = datetime(2024, 6, 1, tzinfo=UTC)
TARGET = Target(
    base_url="http://x/oai",
    granularity="YYYY-MM-DDThh:mm:ssZ",
    earliest_datestamp="2024-01-01T00:00:00Z",
    deleted_record="persistent",
)
DONE = SavedState(complete=CompleteHarvest(watermark="2024-05-01T12:00:00Z"))
LOST = SavedState(complete=CompleteHarvest(restarts=True))
LOST_SINCE_2020 = SavedState(complete=CompleteHarvest(complete_from="2020-01-01", restarts=True))
SINCE_2020 = SavedState(
    complete=CompleteHarvest(watermark="2024-05-01T12:00:00Z", complete_from="2020-01-01T00:00:00Z")
)


def planned(saved_state: SavedState = DONE, target: Target = TARGET, **parameters: Any) -> RunPlan:
    request = HarvestRequest(repository_id=1, **parameters)
    return plan(request, target, saved_state, now=NOW, overlap=60)


@pytest.mark.parametrize(
    ("parameters", "saved_state", "from_", "why"),
    [
        ({}, SavedState(), None, "no complete harvest of this format and set"),
        (
            {},
            DONE,
            "2024-05-01T11:59:00Z",
            "the start of the last complete harvest, 2024-05-01T12:00:00Z, less 60 seconds",
        ),
        ({"full": True}, DONE, None, "all records were requested"),
        ({"harvest_from": "2024-02-01"}, DONE, "2024-02-01T00:00:00Z", "as requested"),
        ({}, SINCE_2020, None, "earlier harvests requested only records since 2020-01-01T00:00:00Z"),
        ({"harvest_from": "2020-01-01"}, SINCE_2020, "2020-01-01T00:00:00Z", "as requested"),
        *(
            ({"harvest_floor": floor}, saved_state, begun, why)
            for floor, saved_state, begun, why in (
                ("2020-01-01", SavedState(), "2020-01-01T00:00:00Z", "earliest datestamp of its schedule"),
                ("2020-01-01", SINCE_2020, "2024-05-01T11:59:00Z", "the start of the last complete harvest"),
                ("2021-06-30", SINCE_2020, "2024-05-01T11:59:00Z", "the start of the last complete harvest"),
                ("2019-12-31", SINCE_2020, "2019-12-31T00:00:00Z", "earliest datestamp of its schedule"),
                ("2019-12-31", DONE, "2024-05-01T11:59:00Z", "the start of the last complete harvest"),
                ("2020-01-01", LOST, None, "no complete harvest of this format and set to continue from"),
                ("2021-01-01", LOST_SINCE_2020, "2020-01-01T00:00:00Z", "earliest datestamp of its schedule"),
                ("2019-01-01", LOST_SINCE_2020, "2019-01-01T00:00:00Z", "earliest datestamp of its schedule"),
            )
        ),
    ],
)
def test_a_plan_says_why_it_starts_at_its_date(
    parameters: dict[str, Any], saved_state: SavedState, from_: str | None, why: str
) -> None:
    found = planned(saved_state, **parameters)
    assert found.from_ == from_
    assert why in found.why
    assert [window.from_ for window in found.lists()] == [from_]


def test_an_interrupted_run_is_resumed_only_by_a_run_of_the_same_kind() -> None:
    kind = HarvestRequest(repository_id=1).kind()
    cut_off = SavedState(
        complete=DONE.complete,
        token="t&1",
        parameters={"kind": kind, "from": "2023-01-01T00:00:00Z"},
        state={"windows": [Window(from_="2023-06-01T00:00:00Z", one_by_one=True).as_json()]},
    )
    again = planned(cut_off)
    assert (again.resumes, again.from_, again.lists()[0].one_by_one) == (True, "2023-01-01T00:00:00Z", True)
    assert again.first_request() == "http://x/oai?verb=ListRecords&resumptionToken=t%261"
    other = planned(cut_off, full=True)
    assert (other.resumes, other.resumption_token, other.from_) == (False, "", None)


def test_a_run_without_progress_is_started_again() -> None:
    kind = HarvestRequest(repository_id=1).kind()
    found = planned(SavedState(parameters={"kind": kind, "from": "1999-01-01"}))
    assert (found.resumes, found.from_) == (False, None)


def test_slices_are_listed_one_by_one() -> None:
    found = planned(SavedState(), slice=Slice.MONTH)
    assert len(found.lists()) == len(found.as_json()["lists"]) == 6
    assert "until 2024-01-31T23:59:59Z" in found.in_words()
    assert str(found.first_request()).endswith("verb=ListRecords&metadataPrefix=oai_dc")
    assert any("each year is requested as a whole first" in remark for remark in found.remarks)


def test_a_plan_in_words_does_not_list_all_of_many_slices() -> None:
    words = planned(SavedState(), slice=Slice.DAY).in_words()
    assert "lists: at most 153" in words
    assert "more …" in words
    assert len(words.splitlines()) < 30


def test_the_identifiers_method_plans_list_identifiers_and_get_record() -> None:
    found = planned(method=Method.IDENTIFIERS)
    assert found.verb is Verb.LIST_IDENTIFIERS
    assert "GetRecord" in " ".join(found.remarks)


def test_a_plan_says_that_an_incremental_harvest_cannot_detect_removed_records() -> None:
    forgetful = Target(base_url="http://x/oai", granularity="YYYY-MM-DD", deleted_record="no")
    assert any("disappeared" in remark for remark in planned(target=forgetful).remarks)
    assert not planned(target=forgetful, full=True).remarks


@pytest.mark.parametrize(("overlap", "from_"), [(60, "2024-04-30"), (3 * 86_400, "2024-04-28")])
def test_a_harvest_of_changes_in_days_begins_at_least_a_day_before_the_last_one(
    overlap: float, from_: str
) -> None:
    days = replace(TARGET, granularity="YYYY-MM-DD")
    found = plan(HarvestRequest(repository_id=1), days, DONE, now=NOW, overlap=overlap)
    assert found.from_ == from_
    assert f"less {max(overlap, 86_400):,} seconds" in found.why


def test_a_day_as_requested_is_not_moved() -> None:
    days = replace(TARGET, granularity="YYYY-MM-DD")
    assert planned(target=days, harvest_from="2024-05-01T18:00:00Z").from_ == "2024-05-01"


def test_an_invalid_granularity_is_treated_as_days() -> None:
    odd = Target(base_url="http://x/oai", granularity="seconds", deleted_record="persistent")
    found = planned(target=odd)
    assert found.from_ == "2024-04-30"
    assert any("granularity" in remark for remark in found.remarks)
