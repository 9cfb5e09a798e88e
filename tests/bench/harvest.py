"""Benchmark of a harvest into files and rows, compared with a plain loop and with other clients."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from oai.database import open_database
from oai.settings import load_settings
from tests.bench import measuring
from tests.bench.measuring import WITHOUT_IMPORT, Measured, mb, run, say, zatva

_OTHERS = {
    "sickle": (
        "import pathlib, sys, sickle\n"
        "folder = pathlib.Path(sys.argv[2]); folder.mkdir()\n"
        "listed = sickle.Sickle(sys.argv[1]).ListRecords(metadataPrefix='oai_dc')\n"
        "for number, record in enumerate(listed):\n"
        "    (folder / f'{number}.xml').write_text(record.raw, encoding='utf-8')\n"
    ),
    "oai-harvest": (
        "import logging, os, sys\n"
        "logging.disable(logging.DEBUG)\n"
        "from oaiharvest.harvest import main\n"
        "os.mkdir(sys.argv[2]); sys.exit(main(['-p', 'oai_dc', '-d', sys.argv[2], sys.argv[1]]) or 0)\n"
    ),
}
"""Programs that write each record to a file with another client, by the client's name."""


def measure(*, records: int, policy: str, others: Path | None) -> None:
    """Print a Markdown table; `others` is the Python of an environment with sickle and oaiharvest."""
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        environment = {**os.environ, **WITHOUT_IMPORT, "ZATVA_DATA": str(root / "data")}
        environment.pop("ZATVA_DATABASE_URL", None)
        with (
            open_database(load_settings(data=root / "data", database_url=None)),
            served(records, policy=policy) as url,
        ):
            what = (
                f"{records:,} records of 1 kB in pages of 500, deletedRecord {policy}, {os.cpu_count()} cores"
            )
            say(what, "records/s", "times the floor's speed", "peak")
            say("---", "---:", "---:", "---:")
            floor = _plain(environment, url, root / "plain")
            _tell("plain loop: download, lxml, a file each", records, floor, floor)
            _measure_ours(environment, url, root, records, floor)
            if others is not None:
                _measure_others(others, url, root, records, floor)


def _plain(environment: Mapping[str, str], url: str, folder: Path) -> Measured:
    return _alone(environment, sys.executable, "-m", "tests.bench.plain_loop", url, str(folder))


def _alone(environment: Mapping[str, str], *command: str) -> Measured:
    """Run a command after flushing earlier writes to disk; otherwise its syncs would wait for them, too."""
    os.sync()
    return run(environment, *command)


def _measure_ours(
    environment: Mapping[str, str], url: str, root: Path, records: int, floor: Measured
) -> None:
    out = str(root / "out")
    first = _alone(environment, *zatva("harvest", url, "--out", out, "--quiet"))
    _tell("`zatva harvest`: synced files and rows", records, first, floor)
    again = _alone(environment, *zatva("harvest", url, "--out", out, "--full", "--quiet"))
    _tell("again, nothing changed", records, again, floor)
    say("the second against the first (at least 2)", "", f"{first.seconds / again.seconds:.2f}", "")
    say("files stored", f"{_files(root / 'out'):,}", "", "")


def _measure_others(python: Path, url: str, root: Path, records: int, floor: Measured) -> None:
    for name, program in _OTHERS.items():
        folder = root / name
        taken = _alone(os.environ, str(python), "-c", program, url, str(folder))
        written = _files(folder)
        if written != records:
            raise SystemExit(f"{name} wrote {written:,} files of {records:,}; see what it printed")
        _tell(f"{name}, a file each", records, taken, floor)


def _files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def _tell(name: str, records: int, taken: Measured, floor: Measured) -> None:
    say(name, f"{records / taken.seconds:,.0f}", f"{floor.seconds / taken.seconds:.2f}", mb(taken.peak))


@contextlib.contextmanager
def served(records: int, prefix: str = "oai_dc", policy: str = "persistent") -> Iterator[str]:
    """Serve `records` records from memory in a separate process; yields the base URL."""
    with measuring.served("tests.bench.memory_repository", str(records), prefix, policy) as (url,):
        yield url
