"""The name of the test for which coverage.py counts lines, as it passes from process to process."""

import os
import sys
from typing import Final

CONTEXT: Final = "ZATVA_TEST_CONTEXT"
"""Environment variable with the name of the test that runs, in percent-encoding."""


def continue_context() -> None:
    """Count lines for the test in the environment; a process that is forked from another inherits no test."""
    if "coverage" in sys.modules:
        from coverage import Coverage  # noqa: PLC0415 not installed with the extra `dev`

        current = Coverage.current()
        if current is not None:
            current.switch_context(os.environ.get(CONTEXT, ""))
