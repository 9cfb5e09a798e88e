"""Harvests in slices: the same records, few requests for empty periods, and resumption within a slice."""

from collections import Counter
from datetime import UTC, datetime

from harvester.vocabulary import Method, Slice
from oai.errors import ExitCode
from tests.harvester.fake_repository import Answer, Item
from tests.harvester.harvest.test_isolation import ALL, DEAD, dies
from tests.harvester.harvest.test_isolation import library as library  # noqa: PLC0414 a fixture
from tests.harvester.library import Library


def length(window: tuple[str | None, str | None]) -> str:
    """Return the length of a request's period; a start before the Web counts as the first day of the Web."""
    first, last = (datetime.fromisoformat(bound or "") for bound in window)
    days = (last - max(first, datetime(1990, 1, 1, tzinfo=UTC))).days
    return "year" if days > 31 else "month" if days > 1 else "day"


async def test_slices_return_the_same_records_after_one_request_for_the_year(library: Library) -> None:
    outcome = await library.run(slice=Slice.MONTH, harvest_from="2024-01-01")
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")
    assert library.windows()[:4] == [
        ("2024-01-01T00:00:00Z", "2024-12-31T23:59:59Z"),
        ("2024-01-01T00:00:00Z", "2024-01-31T23:59:59Z"),
        ("2024-01-31T23:59:59Z", "2024-02-29T23:59:59Z"),
        ("2024-02-29T23:59:59Z", "2024-03-31T23:59:59Z"),
    ]
    assert outcome.evidence.lists == len(library.windows()) - 1  # all but the one for the year


async def test_empty_decades_cost_one_request_per_year(library: Library) -> None:
    library.fake.items = [
        Item(identifier=f"oai:fake.example:{number}", datestamp=datestamp)
        for number, datestamp in enumerate(("1987-05-05T00:00:00Z", "1996-07-31T23:59:59Z"))
    ]
    outcome = await library.run(slice=Slice.DAY, harvest_from="1980-01-01", harvest_to="2004-12-31")
    assert (library.numbers(), outcome.verdict) == ({0, 1}, "complete")
    assert Counter(map(length, library.windows())) == {"year": 15, "month": 24, "day": 3 * 31}
    looks = 2 + 3  # years and months that turned out to have records
    assert outcome.evidence.lists == len(library.windows()) - looks


async def test_empty_periods_are_detected_with_the_verb_of_the_harvest(
    library: Library,
) -> None:
    outcome = await library.run(
        slice=Slice.MONTH, harvest_from="2020-01-01", harvest_to="2024-12-31", method=Method.IDENTIFIERS
    )
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")
    assert {one["verb"] for one in library.fake.lists()} == {"ListIdentifiers"}
    assert Counter(map(length, library.windows())) == {"year": 5, "month": 12}
    assert outcome.evidence.lists == 5 + 12 - 1


async def test_a_year_whose_request_fails_is_requested_slice_by_slice(library: Library) -> None:
    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        bounds = asked.get("from", ""), asked.get("until", "")
        return DEAD if bounds == ("2024-01-01T00:00:00Z", "2024-12-31T23:59:59Z") else good

    library.fake.fault = fault
    outcome = await library.run(slice=Slice.MONTH, harvest_from="2024-01-01")
    assert (library.numbers(), outcome.verdict, outcome.exit_code) == (ALL, "complete", ExitCode.DONE)


async def test_failing_probes_for_empty_periods_are_given_up(library: Library) -> None:
    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        return DEAD if asked.get("until", "")[5:7] == "12" and asked["from"][5:7] == "12" else good

    library.fake.fault = fault
    outcome = await library.run(slice=Slice.MONTH, harvest_from="2019-01-01", harvest_to="2023-12-31")
    assert outcome.verdict == "complete"
    dead = [one["until"][:4] for one in library.fake.lists() if fault(one, b"") is DEAD]
    assert dead == ["2020", "2020", "2021", "2021", "2022", "2022"]
    assert [length(one) for one in library.windows() if (one[0] or "") >= "2022-12-31"] == ["month"] * 12


async def test_a_sliced_run_is_resumed_in_the_slice_where_it_was_interrupted(library: Library) -> None:
    library.fake.fault = dies(library.fake, "until", "2024-02")
    first = await library.run(slice=Slice.MONTH, harvest_from="2024-01-01")
    assert first.verdict == "failed"
    library.fake.fault = None
    library.fake.asked.clear()
    outcome = await library.run(slice=Slice.MONTH, harvest_from="2024-01-01")
    assert library.windows()[0] == ("2024-01-31T23:59:59Z", "2024-02-29T23:59:59Z")
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")


async def test_a_run_interrupted_in_empty_years_is_resumed_after_them(library: Library) -> None:
    library.fake.fault = dies(library.fake, "until", "2019")
    assert (await library.run(slice=Slice.MONTH, harvest_from="2016-01-01")).verdict == "failed"
    library.fake.fault = None
    library.fake.asked.clear()
    outcome = await library.run(slice=Slice.MONTH, harvest_from="2016-01-01")
    assert library.windows()[0] == ("2018-12-31T23:59:59Z", "2019-12-31T23:59:59Z")
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")
