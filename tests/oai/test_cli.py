"""Commands: shared options, lazy handlers, and exit codes."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oai.cli import add_command, run
from oai.command_parser import CommandParser
from oai.errors import ExitCode
from tests.oai.cli_handlers import parser_of


@pytest.fixture(autouse=True)
def _as_if_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings of this machine, and the test runner's own signals and logging afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZATVA_DATA", str(tmp_path))
    handler, logged = signal.getsignal(signal.SIGTERM), logging.root.handlers[:]
    # It may be ignored by the program that started the tests.
    closed = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Shells start background processes with interrupts ignored.
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGHUP, closed)
    signal.signal(signal.SIGINT, interrupted)
    logging.root.handlers[:] = logged


def _in_a_process(
    handler: str, *words: str, redirected: str = "", code: int = ExitCode.DONE, **environment: str
) -> bytes:
    program = (
        "import sys; from oai.cli import run; from tests.oai.cli_handlers import parser_of; "
        f"sys.exit(run(parser_of({handler!r}), ['some', 'thing', *sys.argv[1:]]))"
    )
    command = ["/bin/sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-c", program, *words]
    paths = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=os.environ | paths | environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (code, b"")
    return done.stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_reopened_so_that_files_get_other_descriptors(
    tmp_path: Path, closed: str
) -> None:
    others = "".join(f" {stream}/dev/null" for stream in (">", "2>") if f"{stream}&-" not in closed.split())
    _in_a_process("opens_a_file", redirected=f"{closed}{others}")
    assert (tmp_path / "opened").read_text() == "3 0"


def test_an_export_is_refused_if_standard_output_is_closed() -> None:
    _in_a_process("exports", redirected=">&- 2>/dev/null", code=ExitCode.USAGE)
    assert _in_a_process("exports") == b"a record"


def test_a_character_that_the_terminals_encoding_lacks_is_replaced() -> None:
    assert _in_a_process("names", PYTHONIOENCODING="iso8859-2", LC_ALL="C") == b"Zatva ? \xe8\n"
    assert _in_a_process("names", PYTHONIOENCODING="utf8") == "Zatva … č\n".encode()
    found = json.loads(_in_a_process("names", "--json", PYTHONIOENCODING="iso8859-2").decode("ascii"))
    assert found == {"name": "Zatva … č"}


@pytest.mark.parametrize("value", [":/etc/passwd", "/etc", "notes.txt", "Europe"])
def test_a_tz_that_names_a_file_or_folder_without_a_time_zone_counts_as_utc(
    tmp_path: Path, value: str
) -> None:
    (tmp_path / "notes.txt").touch()
    out = _in_a_process("writes_a_time", redirected="2>&1", TZ=value).decode()
    warning = f"zatva: the variable TZ is {value.strip(':')!r}, which is not a time zone; UTC is used"
    assert out == f"{warning}\n26 Nov 2026 09:05 UTC\n"


@pytest.mark.parametrize("value", ["", ":", "Europe/Prague", "No/Zone", ":/usr/share/zoneinfo/UTC"])
def test_another_tz_is_used_without_a_warning(value: str) -> None:
    assert _in_a_process("writes_a_time", TZ=value) == b"26 Nov 2026 09:05 UTC\n"


def test_a_result_is_text_or_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(parser_of("done"), ["some", "thing"]) == ExitCode.DONE
    assert capsys.readouterr().out == "done\n"
    assert run(parser_of("done"), ["some", "thing", "--json", "--data", "there"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out) == {"data": str(tmp_path / "there")}


def test_an_error_is_printed_without_traceback_and_determines_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(parser_of("refused"), ["some", "thing"]) == ExitCode.STRICT_CHECK
    assert capsys.readouterr().err == "zatva: the third record has no identifier\n"


def test_the_traceback_is_printed_with_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    run(parser_of("refused"), ["some", "thing", "-v"])
    assert "Traceback" in capsys.readouterr().err


def test_sigterm_is_handled_as_an_interruption() -> None:
    assert run(parser_of("terminated"), ["some", "thing"]) == ExitCode.INTERRUPTED


def test_sighup_interrupts_a_command_once_and_lets_it_clean_up(tmp_path: Path) -> None:
    assert run(parser_of("loses_its_terminal"), ["some", "thing"]) == ExitCode.INTERRUPTED
    assert list(tmp_path.iterdir()) == []


def test_sighup_ends_a_server_like_sigterm() -> None:
    assert run(parser_of("serves"), ["some", "thing"]) == ExitCode.DONE


def test_a_command_started_with_nohup_continues_without_its_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert run(parser_of("loses_its_terminal"), ["some", "thing"]) == ExitCode.DONE


def test_an_error_during_an_interruption_gives_the_code_of_the_interruption() -> None:
    assert run(parser_of("interrupted_badly"), ["some", "thing"]) == ExitCode.INTERRUPTED


def test_an_unexpected_exception_is_raised() -> None:
    with pytest.raises(RuntimeError, match="a fault"):
        run(parser_of("faulty"), ["some", "thing"])


def test_invalid_settings_give_the_exit_code_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZATVA_PROVIDER__TOKEN_HOURS", "never")
    assert run(parser_of("done"), ["some", "thing"]) == ExitCode.NOT_READY


_INTERRUPTED_IMPORT = """
import signal, weakref

class Thing:
    pass

thing = Thing()
reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.{}))
del thing  # exceptions of the callback are ignored, as in those of the import system

def done(_invocation):
    return 0
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_during_the_import_of_a_command_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    module = f"interrupted_by_{name.lower()}"
    (tmp_path / f"{module}.py").write_text(_INTERRUPTED_IMPORT.format(name))
    monkeypatch.syspath_prepend(tmp_path)
    parser = CommandParser(prog="zatva")
    add_command(parser.add_subparsers(required=True), "thing", help="do it", handler=f"{module}:done")
    assert run(parser, ["thing"]) == ExitCode.INTERRUPTED


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_output_to_a_full_disk_gives_the_exit_code_fault() -> None:
    command = [sys.executable, "-m", "zatva", "settings"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == ExitCode.FAULT
    assert "No space left on device" in ended.stderr
    assert "Exception ignored" not in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    ("handler", "code"),
    [("notes", ExitCode.TRY_LATER), ("refused", ExitCode.STRICT_CHECK), ("terminated", ExitCode.INTERRUPTED)],
)
def test_a_full_disk_of_standard_error_does_not_change_the_exit_code(handler: str, code: ExitCode) -> None:
    _in_a_process(handler, redirected="2>/dev/full", code=code, PYTHONUNBUFFERED="")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    ("words", "redirected", "code"),
    [
        ("--version", ">/dev/full", ExitCode.FAULT),
        ("--help", ">/dev/full", ExitCode.FAULT),
        ("nonsense", "2>/dev/full", ExitCode.USAGE),
        ("", "2>/dev/full", ExitCode.USAGE),
        ("nonsense", ">/dev/full", ExitCode.USAGE),
    ],
)
def test_help_and_usage_errors_on_a_full_disk_have_the_usual_exit_codes(
    words: str, redirected: str, code: ExitCode
) -> None:
    command = f'exec "{sys.executable}" -m zatva {words} {redirected}'
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": ""}
    done = subprocess.run(["/bin/sh", "-c", command], env=environment, capture_output=True, check=False)
    assert done.returncode == code
