"""`zatva serve` on any port: the dashboard shows and tests the provider that is served beside it."""

import json
import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from oai.vocabulary import OAI_NAMESPACE
from tests.end_to_end.processes import eventually, running


def ask(url: str, token: str, *, method: str = "GET") -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    asked = urllib.request.Request(  # noqa: S310 our own address
        url, headers=headers, method=method, data=b"{}" if method == "POST" else None
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 as above
        return json.load(answer)


def identified(base_url: str) -> str | None:
    """Return the baseURL in the Identify response at this address."""
    with urllib.request.urlopen(f"{base_url}?verb=Identify", timeout=60) as answer:  # noqa: S310 as above
        return etree.fromstring(answer.read()).findtext(f".//{{{OAI_NAMESPACE}}}baseURL")


def served(
    environment: Mapping[str, str], log: Path, token: str, *options: str
) -> tuple[str, str | None, Any]:
    """Return the listening address, the baseURL of Identify, and the finished self-test of the dashboard."""
    words = ("serve", *options, "--port", "0", "--web-port", "0")
    with running(dict(environment), log, *words, ready="dashboard at") as (_, dashboard):
        (at,) = re.findall(r"provider at (\S+)", log.read_text())
        begun = ask(f"{dashboard}/api/v1/archive/checks", token, method="POST")
        place = f"{dashboard}/api/v1/archive/checks/{begun['self_test_id']}"
        test = eventually(lambda: next((one for one in [ask(place, token)] if one["ended"]), None), "its end")
        test["archive"] = ask(f"{dashboard}/api/v1/archive", token)["base_url"]
        return at, identified(at), test


@pytest.mark.slow
def test_the_dashboard_shows_and_tests_the_provider_on_any_port(
    shared_environment: dict[str, str], shared_token: str, tmp_path: Path
) -> None:
    at, identity, test = served(shared_environment, tmp_path / "log", shared_token)
    assert identity == test["archive"] == test["base_url"] == at
    assert test["failure"] is None
    assert [one["result"] for one in test["findings"]].count("passed") > len(test["findings"]) / 2


def test_a_provider_on_all_addresses_is_shown_and_tested_at_a_reachable_one(
    shared_environment: dict[str, str], shared_token: str, tmp_path: Path
) -> None:
    at, identity, test = served(shared_environment, tmp_path / "log", shared_token, "--host", "0.0.0.0")
    assert at.startswith("http://0.0.0.0:")
    assert identity == test["archive"] == test["base_url"] == at.replace("0.0.0.0", "127.0.0.1")


def test_the_base_url_of_the_settings_has_precedence(
    shared_environment: dict[str, str], shared_token: str, tmp_path: Path
) -> None:
    world = "http://127.0.0.1:9/world/oai"
    own = {**shared_environment, "ZATVA_PROVIDER__BASE_URL": world}
    at, identity, test = served(own, tmp_path / "log", shared_token)
    assert at != world
    assert identity == test["archive"] == test["base_url"] == world
    assert "127.0.0.1:9" in json.dumps(test)


def test_several_processes_on_a_free_port_report_the_same_address(
    shared_environment: dict[str, str], tmp_path: Path
) -> None:
    words = ("provider", "serve", "--port", "0", "--processes", "2")
    with running(shared_environment, tmp_path / "log", *words, ready="provider at") as (_, at):
        assert {identified(at) for _ in range(8)} == {at}
