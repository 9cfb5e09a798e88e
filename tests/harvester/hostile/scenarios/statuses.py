"""HTTP statuses at the start, in the middle and at the end; all forms of Retry-After."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from oai.errors import ExitCode
from tests.harvester.hostile.faults import at_page, first_times, from_page, holding, status, to_verb
from tests.harvester.hostile.scenario import (
    ITEMS,
    POISON,
    WHOLE,
    Scenario,
    limited,
    one_lost,
    remote_failed,
    scenario,
    try_later,
)
from tests.harvester.hostile.server import Ask, Reply

_PLACES = (("start", 0), ("middle", 10), ("end", 20))
_LASTING = (401, 403, 404, 410, 500, 502)
_PASSING = (429, 500, 502, 503)


def _date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


def _waiting(name: str, about: str, value: str) -> Scenario:
    return scenario(name, f"503 once, Retry-After {about}",
        lambda: at_page(10, first_times(1, status(503, [("Retry-After", value)]))), WHOLE)  # fmt: skip


def _too_long(name: str, about: str, value: str) -> Scenario:
    return scenario(name, f"503 for good, Retry-After {about}",
        lambda: from_page(10, status(503, [("Retry-After", value)])), try_later(10))  # fmt: skip


def _dated(ask: Ask) -> Reply | bytes | None:
    return status(503, [("Retry-After", _date(1))])(ask)


_CODED = Reply(
    status=404,
    body=b'<?xml version="1.0"?><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">'
    b"<responseDate>2024-06-01T12:00:00Z</responseDate><request>http://x/</request>"
    b'<error code="noRecordsMatch">nothing</error></OAI-PMH>',
)

SCENARIOS: tuple[Scenario, ...] = (
    *(
        scenario(f"status-{code}-lasting-at-{place}", f"HTTP {code} for good from the list's {place} on",
            lambda code=code, offset=offset: from_page(offset, status(code)),  # type: ignore[misc]
            remote_failed(offset))
        for code in _LASTING
        for place, offset in _PLACES
    ),
    *(
        scenario(f"status-{code}-passing-at-{place}", f"HTTP {code} once at the list's {place}",
            lambda code=code, offset=offset: at_page(offset, first_times(1, status(code))),  # type: ignore[misc]
            WHOLE)
        for code in _PASSING
        for place, offset in _PLACES
    ),
    *(
        scenario(f"status-{code}-lasting", f"HTTP {code} for good from the list's middle on",
            lambda code=code: from_page(10, status(code)), try_later(10))  # type: ignore[misc]
        for code in (429, 503)
    ),
    one_lost("status-500-for-record", "HTTP 500 wherever one record would be",
        lambda: holding(POISON, status(500)), remote_failed(10)),
    scenario("status-500-for-page", "HTTP 500 for the list's second page, however it is asked for",
        lambda: at_page(10, status(500)), WHOLE, remote_failed(10), notable=True),
    scenario("status-500-for-identify", "HTTP 500 for Identify, lists are good",
        lambda: to_verb("Identify", status(500)), WHOLE, remote_failed(0), notable=True),
    scenario("status-404-with-answer", "errors of the protocol come with HTTP 404",
        lambda: lambda ask: _CODED if ask.arguments.get("from") else None, WHOLE),
    _waiting("retry-after-0", "0 seconds", "0"),
    _waiting("retry-after-seconds", "1 second", "1"),
    _waiting("retry-after-blanks", "with blanks around", "  0  "),
    _waiting("retry-after-negative", "a negative number", "-5"),
    _waiting("retry-after-past", "a date in the past", "Fri, 01 Jan 2021 00:00:00 GMT"),
    _waiting("retry-after-impossible", "an impossible date", "Fri, 31 Feb 2099 00:00:00 GMT"),
    _waiting("retry-after-garbage", "in words", "soon, please"),
    _waiting("retry-after-fraction", "a fraction", "0.5"),
    scenario("retry-after-date", "503 once, Retry-After a date a second ahead",
        lambda: at_page(10, first_times(1, _dated)), WHOLE),
    scenario("retry-after-six-times", "503 six times for one page, each with a Retry-After",
        lambda: at_page(10, first_times(6, status(503, [("Retry-After", "0.05")]))), WHOLE),
    scenario("retry-after-for-ever", "503 for good from the second page on, always with the same Retry-After",
        lambda: from_page(10, status(503, [("Retry-After", "0.05")])), limited(10, ExitCode.TRY_LATER),
        settings={"max_wait_total": 10.0}, lost=frozenset(item.identifier for item in ITEMS[10:]),
        most_requests=15),
    scenario("retry-after-0-for-ever", "503 for good from the second page on, with Retry-After 0",
        lambda: from_page(10, status(503, [("Retry-After", "0")])), try_later(10), most_requests=5),
    _too_long("retry-after-hour", "a day", "86400"),
    _too_long("retry-after-huge", "a number of 40 digits", "9" * 40),
    _too_long("retry-after-far", "a date in the year 9999", "Fri, 31 Dec 9999 23:59:59 GMT"),
)  # fmt: skip
