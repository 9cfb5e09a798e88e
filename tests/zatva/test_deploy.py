"""The shipped systemd units and the compose file are valid, sandboxed, and run commands that exist."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import zatva

_DEPLOY = Path(__file__).parents[2] / "deploy"
_UNITS = sorted((_DEPLOY / "systemd").glob("*.service"))
_MOST_EXPOSED = 20
"""Tenths, from 0 (closed) to 100."""


def _analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing: apt-get install systemd")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def _service(unit: Path) -> configparser.SectionProxy:
    # A unit may repeat a key; the last one counts here, and those that are read occur once.
    parser = configparser.RawConfigParser(strict=False)
    parser.read(unit, encoding="utf-8")
    return parser["Service"]


def test_there_is_a_unit_for_each_server_and_each_timer() -> None:
    servers = ["zatva-manager", "zatva-provider", "zatva-titles", "zatva-web", "zatva-worker"]
    assert [unit.stem for unit in _UNITS] == servers
    timers = sorted((_DEPLOY / "systemd").glob("*.timer"))
    assert [timer.stem for timer in timers] == ["zatva-titles"]


@pytest.mark.parametrize("unit", _UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_valid_and_sandboxed(unit: Path) -> None:
    timer = unit.with_suffix(".timer")
    verified = _analyze("verify", "--man=no", unit, *([timer] if timer.exists() else []))
    faults = [line for line in verified.stderr.splitlines() if "is not executable" not in line]
    assert faults == []
    rated = _analyze("security", "--offline=true", f"--threshold={_MOST_EXPOSED}", "--no-pager", unit)
    assert rated.returncode == 0, rated.stdout + rated.stderr


@pytest.mark.parametrize("unit", _UNITS, ids=lambda unit: unit.stem)
def test_a_unit_runs_a_command_that_exists(unit: Path) -> None:
    program, *words = _service(unit)["ExecStart"].split()
    assert program == "/opt/zatva/bin/zatva"
    assert zatva(os.environ, *words, "--help").returncode == 0


@pytest.mark.parametrize("name", ["zatva-manager", "zatva-worker"])
def test_a_unit_does_not_start_a_drained_process_again(name: str) -> None:
    # It ends with exit code 0 (`tests/manager/test_draining.py`).
    assert _service(_DEPLOY / "systemd" / f"{name}.service")["Restart"] == "on-failure"


def _services() -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = yaml.safe_load((_DEPLOY / "compose.yaml").read_text())["services"]
    return {name: one for name, one in services.items() if one["image"] == "zatva"}


def test_containers_are_sandboxed_and_no_password_is_shipped() -> None:
    for name, service in _services().items():
        closed = (service["read_only"], service["cap_drop"], service["tmpfs"])
        assert closed == (True, ["ALL"], ["/tmp"]), name  # noqa: S108 the container's own
        assert "${ZATVA_DATABASE_PASSWORD:?" in service["environment"]["ZATVA_DATABASE_URL"], name
        for published in service.get("ports", []):
            assert published.startswith("127.0.0.1:"), name


def test_containers_run_commands_that_exist() -> None:
    commands = {tuple(service["command"]) for service in _services().values()}
    assert len(commands) == 5
    for words in commands:
        done = zatva(os.environ, *words, "--help")
        assert done.returncode == 0, done.stderr
