"""The services of deploy/compose.yaml as processes, with Caddy in front of them where it is installed."""

import contextlib
import functools
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests.commands import Process, zatva
from tests.end_to_end.processes import eventually, running
from tests.ports import free_port

_DEPLOY = Path(__file__).parents[2] / "deploy"


def _commands() -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return command and environment of each service that runs all the time."""
    services: dict[str, dict[str, Any]] = yaml.safe_load((_DEPLOY / "compose.yaml").read_text())["services"]
    return {
        name: (one["command"], one["environment"])
        for name, one in services.items()
        if one["image"] == "zatva" and "profiles" not in one
    }


def _here(environment: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """Return the service's environment with its variables replaced, and with the database of the test."""
    filled = {
        name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
        for name, value in environment.items()
        if name != "ZATVA_DATABASE_URL"
    }
    return {**ours, **filled}


@contextlib.contextmanager
def _caddy(
    program: str, folder: Path, providers: list[str], dashboard: str
) -> Iterator[tuple[str, str, str]]:
    """Run the shipped Caddyfile on free ports; give the addresses of both sites, and the second in HTTP."""
    secure, plain = free_port(), free_port()
    options = (
        f"admin off\nskip_install_trust\nhttps_port {secure}\nhttp_port {plain}\nstorage file_system {folder}"
    )
    file = folder / "Caddyfile"
    caddyfile = (_DEPLOY / "Caddyfile").read_text().replace("lb_try_duration 10s", "lb_try_duration 1s")
    file.write_text(f"{{\n{options}\n}}\n{caddyfile}")
    environment = {
        "HOME": str(folder),
        "ZATVA_PROVIDER_HOST": "localhost",
        "ZATVA_PROVIDERS": " ".join(address.removeprefix("http://") for address in providers),
        "ZATVA_DASHBOARD_HOST": "127.0.0.1",
        "ZATVA_DASHBOARDS": dashboard.removeprefix("http://"),
    }
    with (folder / "caddy.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "run", "--adapter", "caddyfile", "--config", file],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
        with process:
            try:
                yield (
                    f"https://localhost:{secure}",
                    f"https://127.0.0.1:{secure}",
                    f"http://127.0.0.1:{plain}",
                )
            finally:
                process.terminate()


def _read(address: str, **headers: str) -> str | None:
    """Return the content at an address, with any certificate; None while there is no valid answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(address, headers=headers)  # noqa: S310 our own address
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:  # noqa: S310 as above
            return str(answer.read().decode())
    except OSError:
        return None


def _refused(address: str) -> tuple[int, str | None]:
    """Return the status and Retry-After at an address that refuses."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address, timeout=10, context=context)  # noqa: S310 our own address
    caught.value.close()
    return caught.value.code, caught.value.headers["Retry-After"]


@pytest.mark.slow
def test_all_services_start_are_served_by_the_proxy_and_stop(
    environment: dict[str, str], tmp_path: Path
) -> None:
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("Caddy is missing: apt-get install caddy")
    servers: dict[str, list[str]] = {"provider": [], "web": []}
    started: list[Process] = []
    with contextlib.ExitStack() as stack:
        providers = stack.enter_context(contextlib.ExitStack())
        for name, (command, given) in _commands().items():
            own, log = _here(given, environment), tmp_path / f"{name}.log"
            if command[0] in servers:
                words = (command[0], "serve", "--port", "0")
                ready = "provider at" if command[0] == "provider" else "dashboard at"
                until = providers if command[0] == "provider" else stack
                _, address = until.enter_context(running(own, log, *words, ready=ready))
                servers[command[0]].append(address.removesuffix("/oai"))
            else:
                started.append(stack.enter_context(Process(own, *command)))
        _check_database(environment["ZATVA_DATABASE_URL"])
        sites = stack.enter_context(_caddy(program, tmp_path, servers["provider"], servers["web"][0]))
        asked = f"{sites[0]}/oai?verb=Identify"
        forged = {"X-Forwarded-For": "198.51.100.1"}
        identity = eventually(lambda: _read(asked, **forged), "the provider through Caddy")
        assert "<baseURL>https://archive.localhost/oai</baseURL>" in identity
        assert "Zatva" in eventually(lambda: _read(f"{sites[1]}/sign-in"), "the dashboard through Caddy")
        # These addresses are local, and tokens are not sent in plain text.
        assert [_refused(f"{site}/readyz")[0] for site in sites[:2]] == [404, 404]
        assert _refused(f"{sites[2]}/api/v1/me")[0] == 403
        for process in started:
            process.terminate()
            assert process.wait(60) == 0
        providers.close()
        assert _refused(asked) == (503, "60")
    harvesters = zatva(environment, "provider", "harvesters").stdout
    assert "198.51.100.1" not in harvesters


def _check_database(url: str) -> None:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        for table in ("oai_leader", "oai_worker"):
            eventually(functools.partial(_has_rows, connection, table), f"a row in {table}")


def _has_rows(connection: psycopg.Connection, table: str) -> bool:
    return connection.execute(f"SELECT FROM {table} LIMIT 1".encode()).fetchone() is not None
