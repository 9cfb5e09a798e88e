"""Samples (`--max`) have as many different records as requested, however often their list is requested."""

from collections import Counter

import pytest

from harvester.harvest.checkpointer import RunState
from harvester.vocabulary import Level, Method
from tests.harvester.fake_repository import Fault
from tests.harvester.harvest.test_isolation import dated, dies
from tests.harvester.harvest.test_isolation import library as library  # noqa: PLC0414 a fixture
from tests.harvester.library import Library

EXPIRED = b"<error code='badResumptionToken'>expired</error>"


def expires_once(position: str) -> Fault:
    """Return a fault that refuses the first token with this position."""
    left = [1]

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if asked.get("resumptionToken", "").startswith(position) and left:
            left.pop()
            return good.partition(b"<ListR")[0].partition(b"<ListI")[0] + EXPIRED + b"</OAI-PMH>"
        return good

    return fault


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("again", [True, False], ids=["harvested before", "new"])
async def test_a_sample_is_whole_after_a_token_that_expired(
    library: Library, method: Method, *, ordered: bool, again: bool
) -> None:
    if not ordered:
        library.fake.items.reverse()
    if again:
        await library.run()
    library.fake.asked.clear()
    library.fake.fault = expires_once("20")
    outcome = await library.run(full=True, max_records=25, method=method)
    distinct = outcome.counts["records"] - outcome.counts["repeated"]
    assert (outcome.evidence.end, distinct) == ("sample", 25)
    assert outcome.evidence.restarts + outcome.evidence.taken_up == 1
    if not again:
        assert len(library.numbers()) == 25


async def test_a_resumed_sample_is_whole(library: Library) -> None:
    library.fake.items.reverse()
    library.fake.fault = dies(library.fake, "resumptionToken", "20")
    assert (await library.run(max_records=25, validation=Level.STRICT)).verdict == "failed"
    library.fake.asked.clear()
    library.fake.fault = expires_once("20")
    outcome = await library.run(max_records=25, validation=Level.STRICT)
    assert (outcome.evidence.end, len(library.numbers())) == ("sample", 25)


async def test_records_that_a_list_repeats_do_not_fill_a_sample(library: Library) -> None:
    library.fake.items = [*dated(12), *dated(12)[8:], *library.fake.items[12:]]
    await library.run(max_records=25)
    assert library.numbers() == set(range(25))


def test_records_on_which_a_rule_could_not_decide_count_for_a_resumed_sample() -> None:
    state = RunState(counts=Counter(records=20, invalid=5, undecided=2, repeated=3))
    assert state.sampled == 19
