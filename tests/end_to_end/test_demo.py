"""The demo runs through by itself, whatever database the environment names, and leaves nothing behind."""

import subprocess
import tempfile
from pathlib import Path

from tests.end_to_end.processes import zatva


def test_the_demo_ends_by_itself_and_says_what_it_did(environment: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        nowhere = "postgresql://nobody@127.0.0.1:1/none"
        elsewhere = {**environment, "ZATVA_DATABASE_URL": nowhere, "TMPDIR": folder}
        (summary,) = zatva(elsewhere, "demo", "--once")
        assert summary["harvested"] == summary["indexed"] > summary["hidden"] > 0
        assert summary["stored"] == summary["indexed"] - summary["hidden"]
        assert summary["status"] == "completed"
        assert list(Path(folder).iterdir()) == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    assert folder not in running
