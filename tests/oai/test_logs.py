"""Logs on standard error: text from outside cannot forge entries."""

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest
from procrastinate.exceptions import ConnectorException

from oai.logs import RareWarning, SeldomRepeated, configure, pass_on
from oai.sections import LogSettings

_FORGED = "/x\n2026-01-01 00:00:00,000 ERROR   web.faults: forged\r\x1b[2J\x9b1m\x00"


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize(("verbose", "name"), [(False, ""), (True, "web.faults: ")])
def test_text_from_outside_cannot_forge_a_log_entry(
    capsys: pytest.CaptureFixture[str],
    verbose: bool,  # noqa: FBT001 a parameter
    name: str,
) -> None:
    configure(LogSettings(format="console"), verbose=verbose)
    logging.getLogger("web.faults").error("GET %s", _FORGED, exc_info=ValueError(_FORGED))

    first, *others = capsys.readouterr().err.rstrip("\n").split("\n")
    assert first.endswith(f"ERROR   {name}GET /x")
    assert others
    assert all(line.startswith("  ") for line in others)
    assert "\\x0d\\x1b[2J\\x9b1m\\x00" in others[0]
    assert not {"\r", "\x1b", "\x9b", "\x00"} & set("".join(others))


def test_a_json_entry_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogSettings(format="json"))
    logging.getLogger("web.faults").warning("GET %s", _FORGED)

    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == f"GET {_FORGED}"


def test_the_lines_of_a_child_process_become_entries_of_a_json_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(LogSettings(format="json"))
    entry = json.dumps({"level": "info", "message": "page\u2028 1"}, ensure_ascii=False)
    lines = f"{entry}\n10 records\nzatva: HTTP status 404\n"
    pass_on(lines, logging.getLogger("manager"), {"job": 120, "process": 7})

    entries = [json.loads(line) for line in capsys.readouterr().err.rstrip("\n").split("\n")]
    assert [(entry["level"], entry["message"], entry["job"], entry["process"]) for entry in entries] == [
        ("info", "page\u2028 1", 120, 7),
        ("info", "10 records", 120, 7),
        ("error", "HTTP status 404", 120, 7),
    ]


def test_each_line_of_a_child_process_names_its_job_in_a_text_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(LogSettings(format="console"))
    pass_on("held\n  by the guard\n", logging.getLogger("manager"), {"job": 120, "process": 7})
    assert capsys.readouterr().err == "job 120, process 7: held\njob 120, process 7:   by the guard\n"


@pytest.mark.parametrize("verbose", [False, True])
def test_the_queue_writes_a_traceback_only_if_verbose(
    capsys: pytest.CaptureFixture[str],
    verbose: bool,  # noqa: FBT001 a parameter
) -> None:
    configure(LogSettings(format="console"), verbose=verbose)
    error = RuntimeError("connector")
    error.__cause__ = ValueError("no connection\nat all")
    logging.getLogger("procrastinate.worker").error("Job %s: Error", "harvest[1]", exc_info=error)

    text = capsys.readouterr().err
    assert ("RuntimeError: connector" in text) is verbose
    if not verbose:
        (line,) = text.splitlines()
        assert line.endswith("ERROR   Job harvest[1]: Error: no connection")


async def test_an_error_of_the_queue_that_the_event_loop_logs_is_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(LogSettings(format="console"))

    async def fail() -> None:
        raise ConnectorException from ValueError("no connection\nat all")

    loop, task = asyncio.get_running_loop(), asyncio.create_task(fail())
    await asyncio.wait([task])
    message, error = "Task exception was never retrieved", task.exception()
    loop.call_exception_handler({"message": message, "exception": error, "future": task})

    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("ERROR   Task exception was never retrieved: no connection")


def test_a_warning_that_clients_can_cause_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 0.0, 1.0, 59.9, 60.0])
    seldom = RareWarning(logging.getLogger("test.seldom"), clock=lambda: next(times))
    for _ in range(4):
        seldom.warn("too many")
    assert [record.getMessage() for record in caplog.records] == [
        "too many",
        "too many (2 more since the last message)",
    ]


def test_a_message_of_the_queue_that_recurs_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    seldom = SeldomRepeated(clock=lambda: now[0])
    pool, ours = logging.getLogger("psycopg.pool"), logging.getLogger("manager.running")
    caplog.handler.addFilter(seldom)
    try:
        for now[0] in (0.0, 1.0, 2.0, 60.0):
            pool.warning("error connecting in %r: refused", "pool-1")
            ours.warning("job 7: its worker is lost")
        pool.warning("discarding closed connection")
    finally:
        caplog.handler.removeFilter(seldom)
    assert [entry.getMessage() for entry in caplog.records if entry.name == "psycopg.pool"] == [
        "error connecting in 'pool-1': refused",
        "error connecting in 'pool-1': refused (2 more since the last message)",
        "discarding closed connection",
    ]
    assert caplog.messages.count("job 7: its worker is lost") == 4
