"""Measures processes and durations, and prints a benchmark's figures as table rows."""

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WITHOUT_IMPORT = {"ZATVA_HARVESTER__IMPORT_AFTER_HARVEST": "false"}
"""Environment of harvests that are timed; the import that follows would be included."""
_KIB = 1024
_WARCIO_ONLY = """
import sys
from warcio.archiveiterator import ArchiveIterator
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        for record in ArchiveIterator(file):
            pass
"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One process, measured by the operating system: wall-clock seconds, peak memory in bytes, exit code."""

    seconds: float
    peak: int
    status: int = 0


def run(environment: Mapping[str, str], *command: str, allowed: Collection[int] = (0,)) -> Measured:
    """Run a command, expecting one of these exit codes; the peak is that of its largest process."""
    begun = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in allowed:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    seconds = time.monotonic() - begun
    return Measured(seconds=seconds, peak=usage.ru_maxrss * _KIB, status=process.returncode)


def zatva(*arguments: str) -> tuple[str, ...]:
    """Return the command line of a `zatva` command."""
    return (sys.executable, "-m", "zatva", *arguments)


@contextlib.contextmanager
def served(module: str, *arguments: str) -> Iterator[list[str]]:
    """Run a module that serves a repository; yields the words that it writes when ready: its URL first."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().split()
        finally:
            process.terminate()


def read_with_warcio(environment: Mapping[str, str], files: Sequence[Path]) -> Measured:
    """Run a process that only iterates over the records of archive files."""
    return run(environment, sys.executable, "-c", _WARCIO_ONLY, *map(str, files))


def memory(pid: int, kind: str) -> int:
    """Return the memory of a running process in bytes: `VmRSS` now, `VmHWM` at its peak (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * _KIB
    return 0


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that the work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def percentile(times: Sequence[float], percent: int) -> float:
    """Return the time that `percent` percent of the times are below."""
    if len(times) < 2:
        return max(times, default=0.0)
    return statistics.quantiles(times, n=100, method="inclusive")[percent - 1]


def mb(size: float) -> str:
    """Format bytes as megabytes."""
    return f"{size / 1e6:,.0f} MB"


def ms(seconds: float) -> str:
    """Format seconds as milliseconds."""
    return f"{seconds * 1000:,.1f} ms"


def say(*cells: str) -> None:
    """Print a row of a Markdown table."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()
