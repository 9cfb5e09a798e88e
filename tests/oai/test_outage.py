"""What is logged while the database does not answer, by a clock that the test sets."""

from collections.abc import Sequence

import pytest

from oai.outage import Outage

_ADVICE = "; Zatva tries again; if it lasts, run `zatva doctor` and see the server's log"
_REFUSED = f"the database does not answer: connection refused{_ADVICE}"
_STARTING = f"the database does not answer: the database system is starting up{_ADVICE}"


def logged(caplog: pytest.LogCaptureFixture, events: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the messages with their times; each event has the reason of a failure, or none."""
    now, found = [0.0], list[tuple[float, str]]()
    outage = Outage(clock=lambda: now[0])
    for now[0], reason in events:
        caplog.clear()
        if reason:
            outage.failed(reason)
        else:
            outage.answered()
        found += [(now[0], message) for message in caplog.messages]
    return found


def test_an_outage_is_logged_at_once_then_each_minute_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = [(float(second), "connection refused") for second in range(5, 130)]
    successes = [(float(second), "") for second in (1, 130, 131, 139, 140, 141)]
    assert logged(caplog, sorted(failures + successes)) == [
        (5.0, _REFUSED),
        (65.0, f"{_REFUSED} (59 more since the last message)"),
        (125.0, f"{_REFUSED} (59 more since the last message)"),
        (139.0, "the database answers again; it was away for 0:02:05"),
    ]


def test_another_reason_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    events = [(0.0, "connection refused"), (1.0, "the database system is starting up")]
    assert logged(caplog, events) == [(0.0, _REFUSED), (1.0, _STARTING)]


def test_statements_that_succeed_in_between_do_not_end_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    """As at a failover, when reading works and writing does not."""
    events = [(second / 2, "" if second % 2 else "connection refused") for second in range(118)]
    assert logged(caplog, events) == [(0.0, _REFUSED)]


def test_a_rare_task_ends_the_outage_with_its_first_success(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, [(0.0, "connection refused"), (3600.0, ""), (7200.0, "")]) == [
        (0.0, _REFUSED),
        (3600.0, "the database answers again; it was away for 1:00:00"),
    ]


def test_the_next_outage_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    events = [(0.0, "connection refused"), (10.0, ""), (20.0, "connection refused")]
    assert logged(caplog, events)[-1] == (20.0, _REFUSED)
