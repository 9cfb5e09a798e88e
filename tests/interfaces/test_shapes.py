"""The JSON keys that commands print with `--json`, and the metric names, for programs and alarms."""

import asyncio
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.commands import Process, results, zatva
from tests.end_to_end.processes import running
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.interfaces.comparing import compare
from tests.ports import free_port
from tests.provider.archives import Page, write_pages

RULES = (
    "<filters match=\"any\"><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'"
    '</selectionNamespaces><filter xpath="//dc:title" regexp="."/></filters>'
)
COMMANDS = """
database current
database check
keys rotate
provider index {archive}
provider status
provider statistics
keys list
provider collection add serials:nov07 --name Serials
provider collection assign serials:nov07 --url-prefix http://example.org
provider collection access serials:nov07 withheld
provider collection list
provider collection move serials journals
provider collection remove journals:nov07 --url-prefix http://example.org
provider collection drop journals --force
provider access refresh
provider hide --url-prefix http://example.org
provider unhide --url-prefix http://example.org
provider redate --all
provider find http://example.org/1
provider export http://example.org/1 --out {out}.warc.gz
provider exports prepare http://example.org/1
provider exports list
provider exports show 1
provider exports remove 1
provider reindex-keys
provider verify
provider harvesters
probe {url}
harvest {url} --out {out} --keep-raw
repository add {other}
repository list
repository show 1
repository edit 1 --name Library
repository policy 1
repository remove 2
store verify 1
store audit schedule set 1 --frequency daily
store audit schedule list
store audit schedule remove 1
store audit run 1
store audit list
store audit show 1
import run --repository 1
import status
import list
import source 1
import set list
import search
import show 1
schedule add 1 --frequency daily --format oai_dc
schedule list
schedule show 1
schedule edit 1 --frequency weekly
schedule pause 1
schedule resume 1
schedule run 1
job list
job pause 1
job resume 1
job history
job show 1
job errors 1
job changes
job remove 1
schedule remove 1
manager status
worker drain --all
rule add All {rules}
rule list
rule show 1
rule versions 1
rule examples
rule check {rules}
rule try {rules} --repository 1
rule replay 1 --filter {rules}
rule remove 1
notify add --mail a@example.org --on error
notify list
notify sent
notify confirm 1
notify add --webhook https://hooks.example.org/zatva
notify replace-key 2
notify remove 1
organisation add library --name Library
organisation list
user add Eva
user list
user role Eva curator
user disable Eva
user enable Eva
user link Eva
token add Eva program --scope read
token list
token revoke 1
organisation remove library
provider aggregate add 1
provider aggregate list
provider aggregate update
provider aggregate status
provider aggregate remove 1
"""


@pytest.fixture
async def fake() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(12), sets=["a"])) as served:
        yield served


async def test_the_json_keys_that_commands_print_equal_the_frozen_ones(
    fake: FakeRepository, environment: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "rules.xml").write_text(RULES)
    (tmp_path / "archive").mkdir()
    write_pages(tmp_path / "archive" / "a.warc.gz", [Page(url=f"http://example.org/{n}") for n in range(3)])
    places = {name: str(tmp_path / name) for name in ("archive", "out")}
    urls = {"url": fake.url, "other": fake.url.replace("127.0.0.1", "localhost")}
    words = {**places, **urls, "rules": str(tmp_path / "rules.xml")}
    lines = COMMANDS.strip().splitlines()
    commands = [[word.format(**words) for word in (*line.split(), "--json")] for line in lines]
    (tmp_path / "commands").write_text(json.dumps(commands))
    answers = await asyncio.to_thread(_in_one_process, environment, tmp_path / "commands")
    found = {}
    for line, (code, printed, errors) in zip(lines, answers, strict=True):
        assert code == 0, (line, printed, errors)
        found[re.split(r" (?:[{0-9]|--|[A-Z])", line)[0]] = shape(list(map(json.loads, printed.splitlines())))
    compare("json_keys", found, request)


def _in_one_process(environment: Mapping[str, str], commands: Path) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each command; starting a process for each takes as long as its work."""
    process = Process(environment, commands, module="tests.interfaces.printing", stdout=PIPE, stderr=PIPE)
    printed, errors = process.communicate()
    assert process.returncode == 0, errors
    return [json.loads(line) for line in printed.splitlines()]


def test_the_names_of_metrics_equal_the_frozen_ones(
    environment: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ports = {"manager": free_port(), "provider": free_port()}
    own = {
        "ZATVA_MANAGER__HEALTH_PORT": str(ports["manager"]),
        "ZATVA_PROVIDER__METRICS_PORT": str(ports["provider"]),
    }
    _printed(environment, ["user", "add", "Alena", "--role", "administrator"])
    (made,) = results(environment, "token", "add", "Alena", "tests", "--scope", "read")
    words = ("serve", "--port", "0", "--web-port", "0")
    with running({**environment, **own}, tmp_path / "log", *words, ready="dashboard at") as (_, dashboard):
        addresses = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        found = {
            name: _metrics(at, made["token"]) for name, at in {**addresses, "dashboard": dashboard}.items()
        }
    compare("metrics", found, request)


def _metrics(base_url: str, token: str) -> dict[str, str]:
    """Return the types of the metrics by name."""
    headers = {"Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(f"{base_url}/metrics", headers=headers)  # noqa: S310 our own address
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 as above
        families = text_string_to_metric_families(answer.read().decode())
        return {family.name: family.type for family in families if family.name.startswith("zatva_")}


def _printed(environment: Mapping[str, str], command: list[str]) -> Any:
    done = zatva(environment, *command, "--json")
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return shape([json.loads(line) for line in done.stdout.splitlines()])


def shape(value: Any) -> Any:
    """Return types in place of values; for a list, the merged shape of its members."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [merged([shape(one) for one in value])] if value else []
    return (
        "nothing"
        if value is None
        else {bool: "truth", int: "number", float: "number", str: "text"}[type(value)]
    )


def merged(shapes: list[Any]) -> Any:
    """Return one shape for all: the keys that any of them has."""
    if all(isinstance(one, dict) for one in shapes):
        keys = {key for one in shapes for key in one}
        return {key: merged([one[key] for one in shapes if key in one]) for key in keys}
    others = [one for one in shapes if one not in ("nothing", [])]
    return others[0] if others else shapes[0]
