"""One trial: the tests of a mutant, in a forked process that has already imported all modules but ours."""

import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pytest

OURS: Final = frozenset({"zatva", "web", "manager", "harvester", "provider", "oai", "tests"})
_MARK: Final = "ZATVA_MUTANT"
"""Environment variable by which the processes that a trial leaves behind are found."""
_MEMORY: Final = 4 * 2**30
_FILE: Final = 2**30
_WORDS: Final = (
    "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "console_output_style=classic",
    "--hypothesis-seed=0",
    # Plugins are imported before the fork, when pytest cannot rewrite their assertions.
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip


def import_others(modules: Iterable[str]) -> None:
    """Import what every trial needs except our own modules, and exempt it from garbage collection."""
    for module in modules:
        # Some modules exist only in the process that lists them, or refuse to be imported by name.
        with suppress(ImportError, AttributeError):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()


@dataclass(kw_only=True, eq=False)
class _FirstFailure:
    """The pytest plugin that keeps the first test, or test file, that fails."""

    failed: str | None = None
    ran: int = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "call"
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A running trial in a copy of the checkout. It may take `seconds`."""

    process_id: int
    folder: Path
    mark: str
    begun: float = field(default_factory=time.monotonic)
    seconds: float

    @classmethod
    def begin(
        cls, copy: Path, module: str, tests: list[str], *, seconds: float, environment: Mapping[str, str]
    ) -> Self:
        """Fork the process; `module` is the path of the changed module in the copy.

        The process's files are in a directory beside the copy.
        """
        mark = f"{os.getpid()}-{copy.name}-{time.monotonic_ns()}"
        folder = copy.with_name(f"{copy.name}-files")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o711)
        process_id = os.fork()
        if process_id == 0:
            try:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                _enter(copy, folder, {**environment, _MARK: mark})
                _run(module, tests, folder)
            except BaseException:  # noqa: BLE001 nothing may return into the forking process
                traceback.print_exc()
            finally:
                os._exit(0)
        return cls(process_id=process_id, folder=folder, mark=mark, seconds=seconds)

    def ended(self) -> bool:
        """Return whether the trial has ended; one that takes too long is ended now."""
        if os.waitpid(self.process_id, os.WNOHANG)[0]:
            return True
        if time.monotonic() - self.begun >= self.seconds:
            self.kill()
            return True
        return False

    def kill(self) -> None:
        """End the trial before it has an answer."""
        os.kill(self.process_id, signal.SIGKILL)
        os.waitpid(self.process_id, 0)

    def answer(self) -> dict[str, Any]:
        """End what the trial has left behind, and return its outcome, first failure and number of tests."""
        with suppress(ProcessLookupError):
            os.killpg(self.process_id, signal.SIGKILL)
        for process_id in _marked(self.mark):
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        file = self.folder / "answer"
        if file.exists():
            answer: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if answer["outcome"] not in {"killed", "survived"}:
                sys.stderr.write((self.folder / "output").read_text(encoding="utf-8", errors="replace"))
            return answer
        hung = time.monotonic() - self.begun >= self.seconds
        return {"outcome": "killed", "by": "a hang" if hung else "the end of the process", "tests": None}


def _marked(mark: str) -> Iterable[int]:
    """Return the processes that have the mark in their environment, which Linux shows."""
    sought = f"{_MARK}={mark}\0".encode()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # the process has ended meanwhile
            if sought in file.read_bytes():
                yield int(file.parent.name)


def _enter(copy: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Use the copy's modules, here and in the processes that the tests start."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))
    root = str(Path(__file__).parents[2])
    os.environ.update(environment, TMPDIR=str(folder), PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1")
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "examples")
    os.chdir(copy)
    sys.dont_write_bytecode = True
    sys.path[:] = [str(copy), *(path for path in sys.path if path not in {root, ""})]
    for module in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[module]
    importlib.invalidate_caches()
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)


def _run(module: str, tests: list[str], folder: Path) -> None:
    plugin = _FirstFailure()
    # Without names of tests, pytest would run all.
    code = pytest.main([*_WORDS, *tests], plugins=[plugin]) if tests else pytest.ExitCode.OK
    if code == pytest.ExitCode.USAGE_ERROR and _import_fails(module):
        plugin.failed = "the import of the module"  # by a conftest.py, of which no plugin hears
    outcomes = {pytest.ExitCode.OK: "survived", pytest.ExitCode.TESTS_FAILED: "killed"}
    outcome = "killed" if plugin.failed else outcomes.get(pytest.ExitCode(code), f"exit code {int(code)}")
    answer = {"outcome": outcome, "by": plugin.failed, "tests": plugin.ran}
    unfinished = folder / "answer.new"
    unfinished.write_text(json.dumps(answer), encoding="utf-8")
    unfinished.rename(folder / "answer")


def _import_fails(module: str) -> bool:
    try:
        importlib.import_module(module.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    except Exception:  # noqa: BLE001 a mutant may raise anything
        return True
    return False
