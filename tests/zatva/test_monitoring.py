"""The alert rules and the Grafana dashboard that are shipped use metrics that exist, and pass promtool."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from aiohttp import web
from prometheus_client import CollectorRegistry

from harvester.vocabulary import NOT_RUN, RunStatus
from manager.health import read_figures, registry_of
from oai.connections import ConnectionLimits, Connections
from oai.database import Database
from oai.executor import DatabaseExecutor
from oai.probes import server_state
from oai.settings import Settings
from provider.app import create_app
from provider.http import metrics as provider_metrics
from web.site import health as web_health

_HERE: Final = Path("docs/monitoring")
_PROMTOOL: Final = shutil.which("promtool")
_METRIC: Final = re.compile(r"\bzatva_[a-z_]+")
_DOCUMENTED: Final = re.compile(r"\bzatva_(?:disk|manager|organisation|provider|store|web)_[a-z_]+")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((_HERE / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_HERE / "grafana.json").read_text(encoding="utf-8"))
    return found


def emitted(registry: CollectorRegistry) -> set[str]:
    """The names of the samples that a registry can emit."""
    names = set()
    for metric in registry.collect():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(metric.type, ("",))
        names |= {metric.name + ending for ending in endings}
    return names


@pytest.fixture
async def there(settings: Settings, database: Database) -> set[str]:
    """The names of all metrics that the processes emit."""
    with database.session() as session:
        figures, server = read_figures(session), server_state(session)
    app = create_app(settings, database, base_url="http://127.0.0.1/oai")
    runner = web.AppRunner(app)
    await runner.setup()
    with DatabaseExecutor(database, threads=1, name="test") as threads:
        registries = (
            app[provider_metrics.METRICS].registry,
            web_health.Metrics(threads, Connections(ConnectionLimits())).registry,
            registry_of(figures, settings.harvester, server=server, leads=True),
        )
        names = {name for registry in registries for name in emitted(registry)}
    await runner.cleanup()
    # Only of a provider with replicas.
    return names | {"zatva_provider_replicas_used", "zatva_provider_replica_behind_seconds"}


def test_every_metric_that_is_used_exists(there: set[str]) -> None:
    expressions = [rule["expr"] for rule in rules()]
    expressions += [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    used = {name for expression in expressions for name in _METRIC.findall(expression)}
    assert len(used) > 20
    assert used - there == set()


def test_the_documentation_names_metrics_that_exist(there: set[str]) -> None:
    pages = (page for folder in ("how-to", "tutorial") for page in _HERE.parent.glob(f"{folder}/*.md"))
    named = {name for page in pages for name in _DOCUMENTED.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 30
    assert {name for name in named if not there & {name, f"{name}_bucket"}} == set()


def test_every_alert_says_what_happened_and_what_to_do() -> None:
    found = rules()
    assert len({rule["alert"] for rule in found}) == len(found) > 15
    for rule in found:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert all(rule["annotations"][part].endswith(".") for part in ("summary", "description"))


def test_the_share_of_failed_harvests_leaves_out_due_times_without_a_harvest() -> None:
    (expression,) = (rule["expr"] for rule in rules() if rule["alert"] == "ZatvaHarvestsFail")
    _, every = expression.split(" / ")
    (left_out,) = re.findall(r'zatva_manager_ended\{status!~"([^"]+)"\}', every)
    assert {status for status in RunStatus if re.fullmatch(left_out, status)} == NOT_RUN


def test_no_two_panels_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.skipif(_PROMTOOL is None, reason="promtool (Debian's prometheus) is missing")
@pytest.mark.parametrize("check", [("check", "alerts.yaml"), ("test", "alerts.test.yaml")])
def test_promtool_accepts_the_rules(check: tuple[str, str]) -> None:
    command = [str(_PROMTOOL), check[0], "rules", check[1]]
    done = subprocess.run(command, cwd=_HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
