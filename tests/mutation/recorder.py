"""The pytest plugin that records which test runs which line, also in the processes that the test starts.

coverage.py itself is started by `COVERAGE_PROCESS_START`, in this process and in each that it starts.
A started process reads the name of its test from the environment.
"""

import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from tests.mutation.context import CONTEXT, continue_context

FOLDER: Final = "ZATVA_TEST_DURATIONS"
"""Environment variable with the directory for the files of durations."""
_durations: dict[str, float | None] = {}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Name the test, with its fixtures, and measure its duration in seconds."""
    os.environ[CONTEXT] = quote(item.nodeid)
    continue_context()
    begun = time.perf_counter()
    _durations[item.nodeid] = 0
    result = yield
    if _durations[item.nodeid] is not None:
        _durations[item.nodeid] = time.perf_counter() - begun
    os.environ[CONTEXT] = ""
    continue_context()
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Forget the duration of a test that does not pass: it cannot notice a mutant."""
    if not report.passed:
        _durations[report.nodeid] = None


def pytest_sessionfinish() -> None:
    """Write the durations of this process's tests."""
    path = Path(os.environ[FOLDER]) / f"durations-{os.getpid()}.json"
    path.write_text(json.dumps(_durations), encoding="utf-8")
