"""The process that works on files ends with its parent and reports errors."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harvester.store.disk_process import DiskProcess, most_open_files
from oai.child import ProcessKilledError
from tests.manager.conftest import until


@pytest.fixture
def process(tmp_path: Path) -> Iterator[DiskProcess]:
    process = DiskProcess(str(tmp_path))
    yield process
    process.close()


def test_the_process_writes_removes_and_finds_files_like_the_disk(
    process: DiskProcess, tmp_path: Path
) -> None:
    process.begin([("a/1.xml", b"<one/>"), ("b/2.xml", b"<two/>")])
    process.begin([("c/3.xml", b"<three/>")], ["a/1.xml"])
    assert process.missing(["a/1.xml", "b/2.xml", "c/3.xml"]) == ["a/1.xml"]
    assert (tmp_path / "c/3.xml").read_bytes() == b"<three/>"


def test_a_file_system_error_is_raised_here_and_the_process_continues(
    process: DiskProcess, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file") as raised:
        process.begin([("file/below.xml", b"<r/>")])
    assert raised.value.filename == f"{tmp_path}/file/below.xml~part" or isinstance(
        raised.value, (FileExistsError, NotADirectoryError)
    )
    process.begin([("other.xml", b"<r/>")])
    assert process.missing(["other.xml"]) == []


def test_a_write_without_enough_space_names_the_file(process: DiskProcess, tmp_path: Path) -> None:
    process.missing([])
    resource.prlimit(process.number, resource.RLIMIT_FSIZE, (10, 10))
    with pytest.raises(OSError, match="File too large") as raised:
        process.begin([("large.xml", b"<r>longer than ten bytes</r>")])
    assert raised.value.filename == f"{tmp_path}/large.xml"


def test_a_killed_process_is_reported_as_killed(process: DiskProcess) -> None:
    process.missing(["none.xml"])
    os.kill(process.number, signal.SIGKILL)
    with pytest.raises(ProcessKilledError, match=r"ended by signal 9; .* out of memory"):
        process.begin([("r.xml", b"<r/>")])


def test_the_process_ignores_signals_that_stop_its_parent(process: DiskProcess) -> None:
    process.missing([])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(process.number, number)
    assert process.missing(["none.xml"]) == ["none.xml"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_process_ignores_signals_that_stop_its_parent_from_its_start(
    process: DiskProcess, number: signal.Signals
) -> None:
    os.kill(process.number, number)
    assert process.missing(["none.xml"]) == ["none.xml"]


def test_the_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom harvester.store.disk_process import DiskProcess\n"
        "process = DiskProcess(sys.argv[1]); process.missing([]); print(process.number, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        number = int(parent.stdout.readline())
        parent.kill()
    asyncio.run(until(lambda: not _lives(number)))


def _lives(number: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{number}/status").read_text(encoding="ascii")
    except OSError:
        return False


@pytest.mark.parametrize(
    ("hard", "room"),
    [(resource.RLIM_INFINITY, 6000), (100_000, 6000), (6050, 6000), (1000, 950), (50, 1)],
)
def test_the_process_opens_as_many_files_as_allowed_up_to_those_of_two_groups(
    monkeypatch: pytest.MonkeyPatch, hard: int, room: int
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    assert most_open_files() == room
    assert limits == [(6050 if hard in {resource.RLIM_INFINITY, 100_000} else hard, hard)]
