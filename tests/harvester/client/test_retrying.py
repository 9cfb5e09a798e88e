"""Which requests are retried, and how long the client waits before each attempt."""

import socket
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from aiohttp import ClientConnectorDNSError
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st

from harvester.client.retries import Retrying
from harvester.client.transport import HttpReply
from harvester.reading.errors import HttpStatusError, ServerBusyError, TransportError, TransportKind
from oai.errors import failure_of
from oai.failures import Failure, FailureCode
from oai.guarded_http import retry_after

_NOW = 1_700_000_000.0
_WHOLE = b"<OAI-PMH></OAI-PMH>"


def _reply(status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> HttpReply:
    return HttpReply(url="http://x.example/", status=status, headers=headers or {}, body=body)


class Bench:
    """Replays answers to a retrying fetch and records its waits."""

    def __init__(
        self,
        *answers: HttpReply | Exception,
        retries: int = 5,
        chance: float = 0.0,
        max_wait_total: float = 21_600,
        first_delay: float = 0.5,
    ) -> None:
        self.answers = list(answers)
        self.slept: list[float] = []
        self.waits: list[tuple[float, str]] = []
        self.retrying = Retrying(
            retries=retries,
            max_wait_total=max_wait_total,
            first_delay=first_delay,
            clock=lambda: _NOW,
            sleep=self._sleep,
            chance=lambda: chance,
            on_wait=lambda seconds, reason: self.waits.append((seconds, reason)),
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def _attempt(self) -> HttpReply:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def fetch(self, *, loose: bool = False) -> HttpReply:
        return await self.retrying.fetch(self._attempt, loose=loose)


def _http_date(seconds: float) -> str:
    return format_datetime(datetime.fromtimestamp(_NOW + seconds, UTC), usegmt=True)


@pytest.mark.parametrize(("first", "waits"), [(0.5, [0.5, 1, 2]), (0.0, [0, 0, 0]), (40.0, [40, 60, 60])])
async def test_the_first_delay_is_the_configured_one_and_the_next_ones_double(
    first: float, waits: list[float]
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def attempt() -> HttpReply:
        return HttpReply(url="http://x/", status=500, headers={}, body=b"")

    patient = Retrying(retries=3, first_delay=first, sleep=sleep, chance=lambda: 0.0)
    with pytest.raises(HttpStatusError):
        await patient.fetch(attempt)
    assert waited == waits


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("1.5", 1.5),
        (_http_date(90), 90),
        (_http_date(90).replace("GMT", "+0000"), 90),
        (_http_date(90).replace("GMT", ""), 90),
        (_http_date(-500), 0),
        ("9" * 400, 366 * 86_400),
        ("soon", None),
        ("-5", None),
        ("", None),
        (None, None),
        ("Fri, 99 Foo 99999 99:99:99 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_and_as_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, _NOW) == seconds


@given(st.text(max_size=40))
def test_any_value_of_retry_after_is_read_without_an_error(value: str) -> None:
    asked = retry_after(value, _NOW)
    assert asked is None or 0 <= asked <= 366 * 86_400


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 522])
async def test_a_temporary_error_status_is_retried(status: int) -> None:
    bench = Bench(_reply(status), _reply(200))
    assert (await bench.fetch()).status == 200
    assert bench.waits == [(0.5, f"HTTP status {status}")]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 304])
async def test_a_permanent_error_status_is_not_retried(status: int) -> None:
    bench = Bench(_reply(status))
    with pytest.raises(HttpStatusError) as caught:
        await bench.fetch()
    assert caught.value.status == status
    assert bench.slept == []


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (202, {}),
        (403, {"cf-mitigated": "challenge"}),
        (503, {"cf-mitigated": "challenge"}),
        (405, {"x-amzn-waf-action": "captcha"}),
    ],
)
async def test_a_bot_check_is_a_refusal_that_the_administrator_can_lift(
    status: int, headers: Mapping[str, str]
) -> None:
    bench = Bench(_reply(status, headers))
    with pytest.raises(HttpStatusError, match="ask the repository's administrator") as caught:
        await bench.fetch()
    assert failure_of(caught.value).code is FailureCode.HTTP_FORBIDDEN
    assert bench.slept == []


async def test_waits_double_up_to_a_minute_and_are_shortened_at_random_by_up_to_half() -> None:
    bench = Bench(*[_reply(500)] * 10, _reply(200), retries=10)
    await bench.fetch()
    assert bench.slept == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    lucky = Bench(*[_reply(500)] * 2, _reply(200), chance=1.0)
    await lucky.fetch()
    assert lucky.slept == [0.25, 0.5]


async def test_the_client_waits_until_a_date_in_retry_after() -> None:
    bench = Bench(_reply(503, {"Retry-After": _http_date(90)}), _reply(200))
    await bench.fetch()
    assert bench.slept == [90]


async def test_a_busy_server_with_retry_after_zero_is_not_requested_again_at_once() -> None:
    bench = Bench(_reply(503, {"Retry-After": "0"}), _reply(503, {"Retry-After": "0"}), _reply(200))
    await bench.fetch()
    assert bench.slept == [0.5, 1]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("retries", [0, 3])
async def test_a_wait_that_the_server_requests_does_not_use_up_an_attempt(status: int, retries: int) -> None:
    bench = Bench(*[_reply(status, {"Retry-After": "1"})] * 6, _reply(200), retries=retries)
    assert (await bench.fetch()).status == 200
    assert bench.slept == [1.0] * 6
    assert bench.waits == [(1.0, f"HTTP status {status}")] * 6


async def test_attempts_that_failed_for_other_reasons_count_across_waits() -> None:
    busy, broken = _reply(503, {"Retry-After": "7"}), _reply(500)
    bench = Bench(busy, broken, busy, broken, busy, broken, retries=2)
    with pytest.raises(HttpStatusError, match="HTTP status 500 after 3 attempts"):
        await bench.fetch()
    assert bench.slept == [7, 0.5, 7, 1, 7]


@pytest.mark.parametrize("header", [{}, {"Retry-After": "0"}, {"Retry-After": _http_date(-5)}])
async def test_a_busy_server_that_requests_no_wait_uses_up_the_attempts(header: Mapping[str, str]) -> None:
    bench = Bench(*[_reply(503, header)] * 3, retries=2)
    with pytest.raises(ServerBusyError) as caught:
        await bench.fetch()
    assert bench.slept == [0.5, 1]
    assert failure_of(caught.value).code is FailureCode.SERVER_BUSY


async def test_retry_after_of_a_broken_server_is_respected_and_uses_up_an_attempt() -> None:
    bench = Bench(*[_reply(500, {"Retry-After": "7"})] * 2, retries=1)
    with pytest.raises(HttpStatusError):
        await bench.fetch()
    assert bench.slept == [7]


async def test_waits_for_one_request_end_at_their_total_limit() -> None:
    bench = Bench(*[_reply(503, {"Retry-After": "600"})] * 100, max_wait_total=3000)
    with pytest.raises(ServerBusyError, match=r"3,000 seconds .* raise harvester\.max_wait_total") as caught:
        await bench.fetch()
    assert bench.slept == [600.0] * 5
    assert (caught.value.seconds, caught.value.exit_code) == (600, 75)
    assert caught.value.failure == Failure(
        code=FailureCode.WAITING_TIME, facts={"limit": 3000, "setting": "harvester.max_wait_total"}
    )


async def test_very_short_waits_end_at_the_total_limit_too() -> None:
    bench = Bench(*[_reply(503, {"Retry-After": "0.001"})] * 100, max_wait_total=30, first_delay=0)
    with pytest.raises(ServerBusyError, match="max_wait_total"):
        await bench.fetch()
    assert bench.slept == [0.001] * 30


async def test_a_single_wait_may_reach_max_wait_even_if_it_exceeds_the_total() -> None:
    bench = Bench(_reply(503, {"Retry-After": "3000"}), _reply(200), max_wait_total=60)
    await bench.fetch()
    assert bench.slept == [3000]


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_request_is_postponed_if_the_server_requests_a_wait_beyond_the_limit(status: int) -> None:
    bench = Bench(_reply(status, {"Retry-After": "7200"}))
    with pytest.raises(ServerBusyError) as caught:
        await bench.fetch()
    assert caught.value.seconds == 7200
    assert caught.value.exit_code == 75
    assert bench.slept == []


async def test_a_request_is_postponed_if_the_server_stays_busy_and_fails_if_it_stays_broken() -> None:
    with pytest.raises(ServerBusyError):
        await Bench(_reply(503), _reply(503), retries=1).fetch()
    with pytest.raises(HttpStatusError, match="HTTP status 500 after 2 attempts"):
        await Bench(_reply(500), _reply(500), retries=1).fetch()


@pytest.mark.parametrize("kind", [TransportKind.ADDRESS, TransportKind.REDIRECT, TransportKind.TLS])
async def test_a_permanent_connection_error_is_not_retried(kind: TransportKind) -> None:
    bench = Bench(TransportError("http://x.example/", kind, "no"))
    with pytest.raises(TransportError):
        await bench.fetch()
    assert bench.slept == []


async def test_a_truncated_answer_is_retried_and_its_part_is_used_only_in_lenient_reading() -> None:
    broken = TransportError("http://x.example/", TransportKind.DISCONNECTED, "the connection was lost")
    part = HttpReply(url="http://x.example/", status=200, headers={}, body=b"<OAI-PMH><a>", cut=broken)
    assert (await Bench(part, _reply(200, body=_WHOLE)).fetch()).body == _WHOLE
    assert (await Bench(part, part, retries=1).fetch(loose=True)).body == part.body
    with pytest.raises(TransportError, match="the connection was lost"):
        await Bench(part, part, retries=1).fetch()
    no_xml = HttpReply(url="http://x.example/", status=200, headers={}, body=b"<html>", cut=broken)
    with pytest.raises(TransportError):
        await Bench(no_xml, retries=0).fetch(loose=True)


async def test_an_oai_answer_with_an_error_status_is_read_unless_the_status_is_temporary() -> None:
    assert (await Bench(_reply(422, body=_WHOLE)).fetch()).status == 422
    bench = Bench(_reply(500, body=_WHOLE), _reply(200))
    assert (await bench.fetch()).status == 200


async def test_an_error_of_the_protocol_with_status_500_is_read_after_the_retries() -> None:
    error = _reply(500, body=b'<OAI-PMH><error code="noRecordsMatch">none</error></OAI-PMH>')
    bench = Bench(error, error, retries=1)
    assert (await bench.fetch()).body == error.body
    assert len(bench.slept) == 1
    with pytest.raises(HttpStatusError):
        await Bench(_reply(500, body=_WHOLE), retries=0).fetch()
    with pytest.raises(ServerBusyError):
        await Bench(_reply(503, body=error.body), retries=0).fetch()


def _no_host(number: int, url: str = "http://x.example/") -> TransportError:
    error = TransportError(url, TransportKind.DNS, "the host name is not known")
    looked_up = OSError(number, "no luck")
    key = ConnectionKey(
        "x.example", 80, is_ssl=False, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
    )
    error.__cause__ = ClientConnectorDNSError(key, looked_up)
    return error


async def test_an_unknown_host_is_not_retried() -> None:
    bench = Bench(_no_host(socket.EAI_NONAME))
    with pytest.raises(TransportError):
        await bench.fetch()
    assert bench.slept == []


async def test_an_unreachable_name_server_is_retried() -> None:
    bench = Bench(_no_host(socket.EAI_AGAIN), _reply(200))
    assert (await bench.fetch()).status == 200
    assert bench.slept == [0.5]


async def test_a_host_that_has_answered_is_retried_even_if_its_name_is_now_unknown() -> None:
    moved = replace(_reply(200), hops=("http://y.example/",))
    bench = Bench(
        moved, _no_host(socket.EAI_NONAME), _no_host(socket.EAI_NONAME, "http://y.example/"), _reply(200)
    )
    await bench.fetch()
    bench.retrying = replace(bench.retrying, retries=2)
    assert (await bench.fetch()).status == 200
    assert len(bench.slept) == 2


@pytest.mark.parametrize(("status", "end"), [(401, ""), (500, " after 2 attempts")])
async def test_a_failure_after_a_redirect_names_its_target(status: int, end: str) -> None:
    moved = replace(_reply(status), hops=("https://y.example/oai?verb=Identify",))
    bench = Bench(moved, moved, retries=1)
    with pytest.raises(HttpStatusError) as caught:
        await bench.fetch()
    reason = f"http://x.example/: HTTP status {status} after a redirect to https://y.example/oai{end}"
    assert str(caught.value) == reason
