"""Limits of requests per client."""

from contextlib import ExitStack

import pytest

from provider.http.admission import TryLater
from provider.http.middleware import ClientLimits


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_concurrent_requests_are_limited_for_each_client() -> None:
    limits = ClientLimits(at_once=2, in_a_minute=0)
    with ExitStack() as under_way:
        for client in ("a", "a", "b", "b"):
            under_way.enter_context(limits.request(client))
        with pytest.raises(TryLater), limits.request("a"):
            pytest.fail("a third request of one client was let in")
    with limits.request("a"):
        assert limits.remembered == 1
    assert limits.remembered == 0


def test_a_failed_request_releases_its_place() -> None:
    limits = ClientLimits(at_once=1, in_a_minute=0)
    for _ in range(3):
        with pytest.raises(LookupError), limits.request("a"):
            raise LookupError
    assert limits.remembered == 0


def test_the_allowance_per_minute_is_refilled_over_time() -> None:
    clock = Clock()
    limits = ClientLimits(at_once=0, in_a_minute=3, clock=clock)

    def admitted(client: str = "a") -> bool:
        try:
            with limits.request(client):
                return True
        except TryLater:
            return False

    assert [admitted() for _ in range(5)] == [True, True, True, False, False]
    assert admitted("b")
    clock.now = 19.9
    assert not admitted()
    clock.now = 20.0
    assert [admitted(), admitted()] == [True, False]
    clock.now = 1000.0
    assert [admitted() for _ in range(4)] == [True, True, True, False]


def test_retry_after_is_the_time_until_the_next_allowed_request() -> None:
    clock = Clock()
    limits = ClientLimits(at_once=0, in_a_minute=2, clock=clock)
    for _ in range(2):
        with limits.request("a"):
            clock.now += 1
    with pytest.raises(TryLater) as refused, limits.request("a"):
        pytest.fail("let in")
    seconds = int(refused.value.headers["Retry-After"])
    clock.now += seconds - 1
    with pytest.raises(TryLater), limits.request("a"):
        pytest.fail("let in")
    clock.now += 1
    with limits.request("a"):
        assert limits.remembered == 1


def test_the_number_of_remembered_clients_is_limited() -> None:
    limits = ClientLimits(at_once=1, in_a_minute=1)
    for number in range(21_000):
        with limits.request(str(number)):
            pass
    assert limits.remembered == 20_000


def test_requests_without_limit_or_without_client_are_never_refused() -> None:
    unlimited, strict = ClientLimits(at_once=0, in_a_minute=0), ClientLimits(at_once=1, in_a_minute=1)
    with ExitStack() as under_way:
        for _ in range(50):
            under_way.enter_context(unlimited.request("a"))
            under_way.enter_context(strict.request(None))
    assert unlimited.remembered == strict.remembered == 0
