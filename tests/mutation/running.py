"""Runs trials of mutants, several at a time, in private copies of the checkout."""

import compileall
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.mutation.coverage_map import TESTS
from tests.mutation.mutants import Mutant
from tests.mutation.trial import OURS, Trial, import_others

_PAUSE_SECONDS: Final = 0.05
_START_SECONDS: Final = 60.0
_SLOWER: Final = 4.0
"""A trial may take this many times the measured duration of its tests, and `_START_SECONDS`."""
# Collects the tests, which compiles them, and prints the modules that they import.
_COLLECT: Final = f"""
import contextlib, io, json, pytest, sys
with contextlib.redirect_stdout(io.StringIO()):
    pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *{TESTS!r}])
ours = {sorted(OURS)!r}
print(json.dumps([name for name in sys.modules if name.partition(".")[0] not in [*ours, "__main__"]]))
"""

Result = dict[str, Any]
"""A mutant with `outcome`, `by` (the test), `tests` (number that ran) and `seconds`."""


def mutant_of(result: Result) -> Mutant:
    """Return the mutant of a result."""
    return Mutant(**{name: result[name] for name in Mutant.__annotations__})


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A mutant, the changed text of its module, and the tests to run with their duration in seconds."""

    mutant: Mutant
    text: str
    tests: list[str]
    seconds: float


def run(root: Path, folder: Path, planned: Iterable[Planned], jobs: int) -> Iterator[Result]:
    """Yield the results as the trials end; copies and the database are in `folder`."""
    copies = [folder / f"copy-{number}" for number in range(jobs)]
    _copy_checkout(root, copies[0])
    import_others(_imported_by_tests(copies[0]))
    for copy in copies[1:]:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(copies[0], copy, symlinks=True)
    with _database(folder) as environment:
        yield from _in_turn(root, copies, iter(planned), environment)


def _copy_checkout(root: Path, copy: Path) -> None:
    """Copy the files under version control and new ones, and compile the modules."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=root, check=True, capture_output=True, text=True).stdout
    shutil.rmtree(copy, ignore_errors=True)
    for name in listed.split("\0"):
        if name and (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)
    compileall.compile_dir(copy, quiet=2)


def _imported_by_tests(copy: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    words = [sys.executable, "-c", _COLLECT]
    done = subprocess.run(words, cwd=copy, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


@contextmanager
def _database(folder: Path) -> Iterator[dict[str, str]]:
    """Start the server; yield the environment by which tests find it."""
    words = [sys.executable, "-m", "tests.mutation.database", str(folder / "server")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        answer = json.loads(process.stdout.readline())
        yield {"ZATVA_TEST_DATABASE_URL": answer["url"], "ZATVA_TEST_TEMPLATE": answer["template"]}
        process.communicate()


def _in_turn(
    root: Path, copies: list[Path], planned: Iterator[Planned], environment: Mapping[str, str]
) -> Iterator[Result]:
    running: dict[Path, tuple[Planned, Trial]] = {}
    try:
        while True:
            for copy in [copy for copy in copies if copy not in running]:
                following = next(planned, None)
                if following is not None:
                    running[copy] = following, _begin(copy, following, environment)
            if not running:
                return
            time.sleep(_PAUSE_SECONDS)
            for copy in [copy for copy, (_, trial) in running.items() if trial.ended()]:
                current, trial = running.pop(copy)
                yield _result(current, trial)
                _clean(root, copy, current, trial, environment["ZATVA_TEST_DATABASE_URL"])
    finally:
        for _, trial in running.values():
            trial.kill()
            trial.answer()


def _begin(copy: Path, planned: Planned, environment: Mapping[str, str]) -> Trial:
    """Write the mutant. Without its compiled module no process takes the old one for the new."""
    path = copy / planned.mutant.module
    path.write_text(planned.text, encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()
    seconds = _START_SECONDS + _SLOWER * planned.seconds
    return Trial.begin(copy, planned.mutant.module, planned.tests, seconds=seconds, environment=environment)


def _result(planned: Planned, trial: Trial) -> Result:
    answer = trial.answer()
    return {**vars(planned.mutant), **answer, "seconds": round(time.monotonic() - trial.begun, 1)}


def _clean(root: Path, copy: Path, planned: Planned, trial: Trial, url: str) -> None:
    """Restore the module, and drop the databases of a trial that was ended."""
    shutil.copy2(root / planned.mutant.module, copy / planned.mutant.module)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        like = rf"zatva\_test\_{trial.process_id}\_%"
        left = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [like]).fetchall()
        for (name,) in left:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
