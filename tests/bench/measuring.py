"""Measures processes and times, and prints the figures of a benchmark as rows of a table."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    """Run a command to its end, with one of these exit codes; the peak is that of its largest process."""
    begun = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in allowed:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    seconds = time.monotonic() - begun
    return Measured(seconds=seconds, peak=usage.ru_maxrss * _KIB, status=process.returncode)


def zatva(*arguments: str) -> tuple[str, ...]:
    """The command line of `zatva`."""
    return (sys.executable, "-m", "zatva", *arguments)


def read_with_warcio(environment: Mapping[str, str], files: Sequence[Path]) -> Measured:
    """One process that only iterates over the records of archive files."""
    return run(environment, sys.executable, "-c", _WARCIO_ONLY, *map(str, files))


def memory(pid: int, kind: str) -> int:
    """Bytes of memory of a living process: `VmRSS` now, `VmHWM` at its peak (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * _KIB
    return 0


def timed(work: Callable[[], object]) -> float:
    """Seconds that the work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def percentile(times: Sequence[float], percent: int) -> float:
    """The time that so many of the times are under."""
    if len(times) < 2:
        return max(times, default=0.0)
    return statistics.quantiles(times, n=100, method="inclusive")[percent - 1]


def mb(size: float) -> str:
    """Bytes as megabytes."""
    return f"{size / 1e6:,.0f} MB"


def ms(seconds: float) -> str:
    """Seconds as milliseconds."""
    return f"{seconds * 1000:,.1f} ms"


def say(*cells: str) -> None:
    """Print a row of a Markdown table."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()
