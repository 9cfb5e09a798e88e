"""Handlers of commands for the tests of the command line, which processes import without the test runner."""

import asyncio
import logging
import signal
import subprocess
import sys
from datetime import UTC, datetime

from oai import logs
from oai.cli import Invocation, add_command, add_group
from oai.command_parser import CommandParser
from oai.console import export_stream
from oai.errors import ExitCode, StrictCheckError


def parser_of(handler: str) -> CommandParser:
    """Return a parser whose command `some thing` has that handler of this module."""
    parser = CommandParser(prog="zatva")
    commands = parser.add_subparsers(required=True)
    add_command(
        add_group(commands, "some", help="some"), "thing", help="do it", handler=f"{__name__}:{handler}"
    )
    return parser


def done(invocation: Invocation) -> int:
    """Print where the data are."""
    invocation.console.result({"data": invocation.settings.data}, "done")
    return ExitCode.DONE


def refused(_: Invocation) -> int:
    """Fail at a strict check."""
    raise StrictCheckError("the third record has no identifier")


def terminated(_: Invocation) -> int:
    """Get SIGTERM."""
    signal.raise_signal(signal.SIGTERM)
    return ExitCode.DONE


def loses_its_terminal(invocation: Invocation) -> int:
    """Get SIGHUP, and again while cleaning up."""
    file = invocation.settings.data / "unfinished"
    file.touch()
    try:
        signal.raise_signal(signal.SIGHUP)
    finally:
        signal.raise_signal(signal.SIGHUP)
        file.unlink()
    return ExitCode.DONE


def serves(_: Invocation) -> int:
    """Serve until SIGHUP; a second one follows."""
    from oai.serving import stop_signal  # noqa: PLC0415 slow to import, and for this handler only

    async def until_stopped() -> None:
        stop = stop_signal()
        signal.raise_signal(signal.SIGHUP)
        await stop.wait()

    asyncio.run(until_stopped())
    signal.raise_signal(signal.SIGHUP)
    return ExitCode.DONE


def interrupted_badly(_: Invocation) -> int:
    """Fail after an interrupt."""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        raise RuntimeError("another command is already in progress")


def faulty(_: Invocation) -> int:
    """Fail unexpectedly."""
    raise RuntimeError("a fault")


def opens_a_file(invocation: Invocation) -> int:
    """Write to the standard streams, and write the number of a new descriptor into a file."""
    with (invocation.settings.data / "opened").open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.write("to no reader\n")
            stream.flush()
        invocation.console.table([{"name": None}], {"name": "name"}, empty="")
        with invocation.console.progress("working") as advance:
            advance(1)
        inherited = subprocess.run(["/bin/sh", "-c", "echo to no reader; echo to no reader >&2"], check=False)
        file.write(f"{min(file.fileno(), 3)} {inherited.returncode}")
    return ExitCode.DONE


def notes(invocation: Invocation) -> int:
    """Write to standard error and into the log."""
    invocation.console.note("begun")
    logs.pass_on("a line of another process\n", logging.getLogger(), {"process": 7})
    return ExitCode.TRY_LATER


def exports(_: Invocation) -> int:
    """Write bytes to standard output."""
    export_stream().write(b"a record")
    return ExitCode.DONE


def names(invocation: Invocation) -> int:
    """Print characters that some encodings lack."""
    invocation.console.result({"name": "Zatva … č"}, "Zatva … č")
    return ExitCode.DONE


def writes_a_time(invocation: Invocation) -> int:
    """Print a time, which depends on the time zone."""
    from oai.languages import minute_in_utc  # noqa: PLC0415 Babel reads TZ when it is imported

    written = minute_in_utc(datetime(2026, 11, 26, 9, 5, tzinfo=UTC), "en")
    invocation.console.result({"time": written}, written)
    return ExitCode.DONE
