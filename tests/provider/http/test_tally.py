"""Counts of clients and lists in memory."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from oai.vocabulary import ErrorCode, Verb
from provider.clients.stats import OTHERS, ClientKey, RequestOutcome, StatsBatch, Tally, shortened
from provider.protocol.exchange import ListPosition

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def client(agent: str = "harvester") -> ClientKey:
    return ClientKey(address="192.0.2.1", user_agent=agent, sender="")


def page(cursor: int, *, ended: bool = False, set_spec: str | None = None) -> RequestOutcome:
    progress = ListPosition(
        metadata_prefix="oai_dc",
        set_spec=set_spec,
        from_=None,
        until=MOMENT,
        cursor=cursor,
        count=10,
        size=30,
        ended=ended,
    )
    return RequestOutcome(verb=Verb.LIST_RECORDS, codes=(), progress=progress)


def error(*codes: ErrorCode) -> RequestOutcome:
    return RequestOutcome(verb=Verb.LIST_RECORDS, codes=codes, progress=None)


def count(tally: Tally, whose: ClientKey, outcomes: Sequence[RequestOutcome | None], **changes: Any) -> None:
    for number, outcome in enumerate(outcomes):
        facts = {"sent": 100, "refused": False, "outcome": outcome, **changes}
        tally.count(whose, MOMENT + timedelta(seconds=number), **facts)


def test_pages_of_a_list_are_counted_as_one_list() -> None:
    tally = Tally(clients=10, lists=10)
    count(tally, client(), [page(0), page(10), page(10), page(20, ended=True)])
    batch = tally.take()
    (counted,) = batch.lists.values()
    assert (counted.requests, counted.passed, counted.size) == (4, 30, 30)
    assert counted.finished == counted.last == MOMENT + timedelta(seconds=3)
    assert [(each.requests, each.sent) for each in batch.clients.values()] == [(4, 400)]


def test_lists_of_different_sets_or_clients_are_counted_separately() -> None:
    tally = Tally(clients=10, lists=10)
    count(tally, client("one"), [page(0), page(0, set_spec="a"), page(10)])
    count(tally, client("two"), [page(0)])
    assert len({list_.key for list_ in tally.take().lists}) == 3


def test_lists_are_under_way_until_their_last_page_or_a_timeout() -> None:
    now = 0.0
    tally = Tally(clients=10, lists=10, clock=lambda: now)
    count(tally, client(), [page(0), page(0, set_spec="a")])
    assert tally.lists_under_way() == 2
    count(tally, client(), [page(10, ended=True)])
    assert tally.lists_under_way() == 1
    now = 700.0
    assert tally.lists_under_way() == 0


def test_every_error_code_is_counted() -> None:
    tally = Tally(clients=10, lists=10)
    faults = error(ErrorCode.BAD_ARGUMENT, ErrorCode.BAD_ARGUMENT, ErrorCode.CANNOT_DISSEMINATE_FORMAT)
    count(tally, client(), [faults, None])
    (counted,) = tally.take().clients.values()
    assert counted.codes == {"badArgument": 2, "cannotDisseminateFormat": 1}


def test_clients_beyond_the_limit_are_counted_together() -> None:
    tally = Tally(clients=3, lists=100)
    for number in range(50):
        count(tally, client(str(number)), [page(0)])
    batch = tally.take()
    assert len(batch.clients) == 4
    assert (
        next(counted.requests for each, counted in batch.clients.items() if each.user_agent == OTHERS) == 47
    )
    assert len(batch.lists) == 3
    for number in range(50):
        count(tally, client(str(number)), [page(0)])
    assert len(tally.take().clients) == 4


def test_lists_beyond_the_limit_are_not_counted() -> None:
    tally = Tally(clients=3, lists=5)
    count(tally, client(), [page(0, set_spec=str(number)) for number in range(50)])
    batch = tally.take()
    assert len(batch.lists) == 5
    assert [counted.requests for counted in batch.clients.values()] == [50]


def test_counts_that_were_put_back_are_added_to_newer_ones() -> None:
    together, tally = Tally(clients=10, lists=10), Tally(clients=10, lists=10)
    first, then = [page(0), error(ErrorCode.BAD_VERB)], [page(10, ended=True), error(ErrorCode.BAD_VERB)]
    count(tally, client(), first)
    taken = tally.take()
    count(tally, client(), then)
    count(tally, client("new"), then)
    tally.put_back(taken)
    for whose, outcomes in ((client(), first), (client(), then), (client("new"), then)):
        count(together, whose, outcomes)
    assert tally.take() == together.take()
    assert tally.take() == StatsBatch()


def test_a_day_later_other_clients_are_counted_separately() -> None:
    now = 0.0
    tally = Tally(clients=1, lists=1, clock=lambda: now)
    count(tally, client("one"), [None])
    now = 90_000.0
    count(tally, client("two"), [None])
    assert [each.user_agent for each in tally.take().clients] == ["one", "two"]


def test_client_headers_are_stored_truncated_and_printable() -> None:
    assert shortened("a\x00b\ud800c\n" + "x" * 1000) == "abc" + "x" * 194
