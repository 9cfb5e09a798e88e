"""After random sequences of faults, a harvest's report about itself is true."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harvester.vocabulary import Level, Verdict
from oai.database import Database
from oai.settings import Settings
from tests.harvester.fake_repository import Item
from tests.harvester.hostile.faults import (
    Edit,
    at_page,
    each_of,
    edited,
    first_times,
    from_page,
    holding,
    in_record,
    instead,
    once,
    status,
    to_verb,
    whole,
)
from tests.harvester.hostile.running import run, truth_of
from tests.harvester.hostile.scenario import ITEMS
from tests.harvester.hostile.server import Ask, Fault, Hostile, Reply

_Placed = Callable[[Fault], Fault]


def _cut_at(share: float) -> Fault:
    return lambda ask: ask.good[: int(len(ask.good) * share)]


def _reset(ask: Ask) -> Reply:
    return Reply(body=ask.good[:1000], length=len(ask.good), reset=True)


def _no_token(ask: Ask) -> bytes:
    """Leave the token out, except on the first page, because a list of one page needs no token."""
    begin = ask.good.find(b"<resumptionToken")
    if begin < 0 or ask.offset == 0:
        return ask.good
    return ask.good[:begin] + ask.good[ask.good.index(b"</resumptionToken>") + 18 :]


def _in_title(text: bytes) -> Edit:
    return instead("<dc:title>", b"<dc:title>" + text)


_BROKEN = st.sampled_from(
    [
        whole(b""),
        whole(b"<!DOCTYPE html><html>no</html>"),
        whole(b'<?xml version="1.0"?><rss/>'),
        edited(lambda good: good.replace(b"</request>", b"?a&b</request>")),
        edited(lambda good: good.replace(b"</metadata></record><record>", b"</metadata><record>", 1)),
        _no_token,
        edited(lambda good: good.replace(b"<OAI-PMH", b"\n<!-- -- --><OAI-PMH")),
        status(500),
        status(404),
        _reset,
    ]
) | st.floats(0.05, 0.98).map(_cut_at)
_ANSWERS = _BROKEN | st.just(status(503, [("Retry-After", "0")]))
_EDITS = st.sampled_from(
    [_in_title(text) for text in (b"\x0b", b" & ", b"&nbsp;", b"<br>", b"\xff", b"<!--", b"</record>")]
    + [instead("<identifier>", "<id>"), instead("<metadata>", "<meta>"), instead("</record>", "")]
)
_PLACES: st.SearchStrategy[_Placed] = st.sampled_from(
    [lambda fault, page=page: at_page(page, fault) for page in (0, 10, 20)]
    + [lambda fault, page=page: at_page(page, first_times(1, fault)) for page in (0, 10, 20)]
    + [lambda fault, item=item: holding(item, fault) for item in (ITEMS[0], ITEMS[12], ITEMS[24])]
    + [lambda fault: from_page(10, fault), lambda fault: from_page(20, fault), once]
)
_FAULTS = st.builds(lambda place, fault: place(fault), _PLACES, _ANSWERS) | st.builds(
    in_record, st.sampled_from(ITEMS), _EDITS
)


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> settings:
    """The same examples each time; a hundred times as many with --long."""
    return settings(
        max_examples=1000 if pytestconfig.getoption("--long") else 8,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def test_a_lenient_harvest_that_reports_complete_has_stored_all_records_correctly(
    shared_database: Database, shared_settings: Settings, tmp_path: Path, thorough: settings
) -> None:
    truth = {item.identifier: truth_of(item) for item in ITEMS}
    verdicts: list[Verdict] = []

    @thorough
    @given(faults=st.lists(_FAULTS, max_size=4))
    def check(faults: list[Fault]) -> None:
        hostile = Hostile(items=list(ITEMS), fault=each_of(*faults))
        folder = tmp_path / f"{len(verdicts)}"
        left = asyncio.run(run(hostile, shared_database, shared_settings, folder, level=Level.LOOSE))
        verdicts.append(left.outcome.verdict)
        assert left.metadata == {name: truth[name] for name in left.metadata}
        assert set(left.metadata) == left.active
        if left.outcome.verdict is Verdict.COMPLETE:
            assert left.active == set(truth)

    check()
    assert {Verdict.COMPLETE, Verdict.PARTIAL} <= set(verdicts)


_ASIDE = st.tuples(
    st.builds(to_verb, st.sampled_from(["Identify", "ListSets"]), _BROKEN),
    st.builds(once, st.sampled_from([whole(b""), status(500), _reset]) | st.floats(0.05, 0.98).map(_cut_at)),
)
"""Faults outside the records: in answers that no harvest depends on, and a temporary one."""


def test_a_lenient_harvest_stores_every_record_that_is_not_broken_itself(
    shared_database: Database, shared_settings: Settings, tmp_path: Path, thorough: settings
) -> None:
    runs: list[int] = []

    @thorough
    @given(broken=st.dictionaries(st.sampled_from(ITEMS), _EDITS, min_size=1, max_size=3), aside=_ASIDE)
    def check(broken: dict[Item, Edit], aside: tuple[Fault, Fault]) -> None:
        faults = [in_record(item, edit) for item, edit in broken.items()]
        hostile = Hostile(items=list(ITEMS), fault=each_of(*aside, *faults))
        folder = tmp_path / f"{len(runs)}"
        left = asyncio.run(run(hostile, shared_database, shared_settings, folder, level=Level.LOOSE))
        runs.append(len(left.active))
        assert left.active >= {item.identifier for item in ITEMS if item not in broken}, left.outcome

    check()
    assert max(runs) > min(runs)
