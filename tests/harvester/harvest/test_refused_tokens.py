"""Lists whose resumption tokens the repository refuses: few requests, and a reason that says so."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from harvester.vocabulary import Level
from oai.failures import FailureCode
from tests.harvester.fake_repository import Fault, Item
from tests.harvester.harvest.test_isolation import dated
from tests.harvester.harvest.test_isolation import library as library  # noqa: PLC0414 a fixture
from tests.harvester.library import Library

_CONTENT = re.compile(rb"<(List|error).*</(List\w+|error)>", re.DOTALL)
_REFUSED = b'<error code="badResumptionToken">no</error>'
AT_ONCE = [replace(item, datestamp="2024-01-01T06:30:00Z") for item in dated(7)]


def refuses_tokens(*, sized: bool = False) -> Fault:
    """Return a fault that ends each page with a token, and refuses every token."""

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if "resumptionToken" in asked:
            return _CONTENT.sub(_REFUSED, good)
        size = b' completeListSize="%d"' % good.count(b"<header") if sized else b""
        token = b"<resumptionToken" + size + b">x</resumptionToken>"
        return good if b"<resumptionToken" in good else re.sub(rb"</List\w+s>", token + rb"\g<0>", good)

    return fault


@pytest.mark.parametrize("level", [Level.LOOSE, Level.STRICT])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("items", [dated(7), AT_ONCE], ids=["on seven days", "at the same time"])
async def test_a_list_of_one_page_with_a_refused_token_needs_few_requests(
    library: Library, items: list[Item], level: Level, *, sized: bool
) -> None:
    library.fake.items = items
    library.fake.fault = refuses_tokens(sized=sized)
    outcome = await library.run(validation=level)
    assert (library.numbers(), outcome.verdict) == (set(range(7)), "partial")
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.evidence.missing) == (FailureCode.TOKENS_REFUSED, 0)
    assert outcome.failure_reason is not None
    assert "refuses its own resumption tokens" in outcome.failure_reason
    assert len(library.fake.asked) <= 24


async def test_records_behind_the_first_page_are_found_by_their_datestamps(library: Library) -> None:
    library.fake.sizes = False
    library.fake.items = dated(25)[::-1]
    library.fake.fault = refuses_tokens()
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict) == (set(range(25)), "partial")
    assert outcome.evidence.tokens_refused == outcome.evidence.unconfirmed > 1
    assert len(library.fake.asked) <= 50


async def test_records_of_the_same_time_behind_the_first_page_are_reported_missing(library: Library) -> None:
    library.fake.items = [replace(item, datestamp="2024-01-01T06:30:00Z") for item in dated(25)]
    library.fake.fault = refuses_tokens()
    outcome = await library.run()
    assert len(library.numbers()) == 10
    # The two shortest windows have the second in common, so that the other 15 are announced twice.
    assert outcome.evidence.missing in {15, 30}
    assert "It is not known whether" not in outcome.in_words()
    assert len(library.fake.asked) <= 24


def refuses_real_tokens(library: Library) -> None:
    def fault(asked: dict[str, str], good: bytes) -> bytes:
        return _CONTENT.sub(_REFUSED, good) if "resumptionToken" in asked else good

    library.fake.fault = fault


@pytest.mark.parametrize("level", [Level.LOOSE, Level.STRICT])
async def test_a_first_page_of_one_time_does_not_hide_the_later_records(
    library: Library, level: Level
) -> None:
    later = dated(60)
    library.fake.items = [replace(item, datestamp=later[0].datestamp) for item in later[:12]] + later[12:]
    refuses_real_tokens(library)
    outcome = await library.run(validation=level)
    # Two of the twelve cannot be listed without a token.
    assert (len(library.numbers()), outcome.verdict) == (58, "partial")
    assert len(library.fake.asked) <= 60


@pytest.mark.parametrize(("hours", "received"), [(5, 60), (2, 52)])
async def test_lists_in_days_are_divided_until_each_day_is_requested_alone(
    library: Library, hours: int, received: int
) -> None:
    library.fake.granularity = "YYYY-MM-DD"
    library.fake.items = [
        replace(item, datestamp=item.datestamp[:10]) for item in dated(60, timedelta(hours=hours))
    ]
    refuses_real_tokens(library)
    outcome = await library.run()
    assert len(library.numbers()) == received
    assert outcome.verdict == ("complete" if received == 60 else "partial")
    assert len(library.fake.asked) <= 120
