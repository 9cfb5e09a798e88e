"""The settings in effect, and where they come from."""

from pathlib import Path

import pytest

from oai.settings import load_settings
from oai.settings_view import HIDDEN, SettingLine, settings_in_effect

_FILE = """
database_url = "postgresql://zatva:hunter2@db.example/zatva"

[web]
session_hours = 5 # hours
  idle_minutes=7
trusted_proxies = [
  "10.0.0.1",
]

[mail]
host = "mail.example"
"""


def _by_name(file: Path) -> dict[str, SettingLine]:
    return {line.name: line for line in settings_in_effect(load_settings(file))}


def test_settings_are_listed_with_value_and_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "zatva.toml"
    file.write_text(_FILE)
    monkeypatch.delenv("ZATVA_DATABASE_URL", raising=False)
    monkeypatch.setenv("ZATVA_WEB__IDLE_MINUTES", "9")
    monkeypatch.setenv("zatva_provider__threads", "7")

    found = _by_name(file)

    assert (found["web.session_hours"].value, found["web.session_hours"].source) == ("5.0", f"{file}:5")
    assert (found["web.idle_minutes"].value, found["web.idle_minutes"].source) == (
        "9.0",
        "ZATVA_WEB__IDLE_MINUTES",
    )
    assert (found["provider.threads"].value, found["provider.threads"].source) == (
        "7",
        "zatva_provider__threads",
    )
    assert (found["web.trusted_proxies"].value, found["mail.host"].source) == ("10.0.0.1", f"{file}:12")
    assert (found["harvester.retries"].source, bool(found["harvester.retries"].about)) == ("", True)


def test_secrets_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "zatva.toml"
    replicas = '[provider]\nreplica_urls = ["postgresql://zatva:hunter2@copy.example/zatva"]\n'
    file.write_text(f'{_FILE}password = "hunter2"\n{replicas}')
    monkeypatch.delenv("ZATVA_DATABASE_URL", raising=False)

    found = _by_name(file)

    assert (found["database_url"].value, found["mail.password"].value) == (HIDDEN, HIDDEN)
    assert found["provider.replica_urls"].value == HIDDEN
    assert "hunter2" not in str(found)
