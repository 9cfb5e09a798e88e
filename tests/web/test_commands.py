import json
import signal
from collections.abc import Callable
from functools import partial
from subprocess import PIPE
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests import commands
from tests.commands import Done, Process
from tests.web.conftest import Browser

Zatva = Callable[..., Done]


@pytest.fixture
def zatva(environment: dict[str, str]) -> Zatva:
    """Runs the command as a real process."""
    return partial(commands.zatva, environment)


def test_users_are_added_and_listed(zatva: Zatva) -> None:
    assert zatva("user", "list").stdout.startswith("no users")
    added = zatva("user", "add", "Alena", "--role", "administrator", "--json")

    assert json.loads(added.stdout) == {"user_id": 1, "name": "Alena", "role": "administrator"}
    listed = zatva("user", "list")
    assert "Alena administrator" in " ".join(listed.stdout.split())
    again = zatva("user", "add", "Alena")
    assert (again.returncode, again.stdout) == (2, "")
    assert "already" in again.stderr


def test_a_link_is_printed_alone_on_standard_output(zatva: Zatva) -> None:
    zatva("user", "add", "Alena")

    usual = zatva("user", "link", "Alena")
    elsewhere = zatva("user", "link", "Alena", "--base-url", "https://zatva.example/")

    assert usual.stdout.startswith("http://127.0.0.1:8090/sign-in?token=")
    assert elsewhere.stdout.startswith("https://zatva.example/sign-in?token=")
    assert "works once" in usual.stderr
    assert "for any other, set web.base_url or use --base-url" in usual.stderr
    assert "--base-url" not in elsewhere.stderr
    unknown = zatva("user", "link", "Eva")
    assert unknown.returncode == 2
    assert "no user 'Eva'" in unknown.stderr


@pytest.mark.parametrize("command", ["link", "invite"])
@pytest.mark.parametrize("address", ["foo", "https://zatva.example/path", "https://a:secret@zatva.example"])
def test_a_link_to_an_address_that_is_no_origin_is_refused(zatva: Zatva, command: str, address: str) -> None:
    zatva("user", "add", "Alena")

    refused = zatva("user", command, "Alena", "--base-url", address)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--base-url: write scheme, host and port only" in refused.stderr
    assert "secret" not in refused.stderr


def test_users_are_invited_given_roles_and_disabled(zatva: Zatva) -> None:
    assert zatva("organisation", "add", "mzk", "--name", "Moravian Library").returncode == 0
    assert zatva("user", "add", "Alena", "--role", "administrator").returncode == 0
    without = zatva("user", "invite", "Olga", "--role", "partner")
    invited = zatva("user", "invite", "Olga", "--role", "partner", "--organisation", "mzk")

    assert without.returncode == 2
    assert "must belong to an organisation" in without.stderr
    assert invited.stdout.startswith("http://127.0.0.1:8090/sign-in?token=")
    again = zatva("user", "invite", "Olga", "--role", "viewer")
    assert (again.returncode, again.stdout.startswith("http")) == (0, True)
    assert "'Olga' already exists: role (partner) and organisation stay" in again.stderr
    assert "already exists" not in invited.stderr
    assert zatva("user", "role", "Olga", "curator").returncode == 0
    assert zatva("user", "disable", "Olga").returncode == 0
    for refused in (("user", "link", "Olga"), ("user", "invite", "Olga"), ("token", "add", "Olga", "x")):
        done = zatva(*refused)
        assert (done.returncode, done.stdout) == (2, ""), refused
        assert "user 'Olga' is disabled; enable the user first" in done.stderr
    assert zatva("user", "disable", "Alena").returncode == 2
    assert zatva("user", "enable", "Alena").returncode == 0
    users = [json.loads(line) for line in zatva("user", "list", "--json").stdout.splitlines()]
    states = {user["name"]: (user["role"], user["organisation"], user["state"]) for user in users}
    assert states == {"Alena": ("administrator", None, "active"), "Olga": ("curator", None, "disabled")}
    assert zatva("organisation", "give", "mzk", "99").returncode == 2
    limited = zatva("organisation", "limit", "mzk", "--records", "100", "--gigabytes", "0.5", "--json")
    assert json.loads(limited.stdout) == {
        "organisation_id": 1, "short_name": "mzk", "max_records": 100, "max_bytes": 500_000_000,
    }  # fmt: skip
    both = zatva("organisation", "limit", "mzk", "--records", "1000", "--gigabytes", "1")
    assert both.stdout == "'mzk' may store 1,000 records at most and 1,000,000,000 bytes at most\n"
    usual = zatva("organisation", "limit", "mzk", "--records", "default")
    assert usual.stdout == "'mzk' may store the default number of records at most\n"
    for wrong in (("--records", "-1"), ("--records", "nan"), ("--gigabytes", "many"), ()):
        assert zatva("organisation", "limit", "mzk", *wrong).returncode == 2
    assert zatva("organisation", "remove", "mzk").returncode == 0
    assert zatva("organisation", "list").stdout.startswith("no organisations")


def test_tokens_are_printed_once_listed_and_revoked(zatva: Zatva) -> None:
    zatva("user", "add", "Alena", "--role", "administrator")

    made = zatva("token", "add", "Alena", "nightly", "--scope", "read", "--scope", "harvest", "--days", "30")

    assert made.stdout.startswith("zatva_")
    assert made.stdout.strip() not in zatva("token", "list").stdout
    listed = json.loads(zatva("token", "list", "--user", "Alena", "--json").stdout)
    assert (listed["scopes"], listed["state"]) == ("harvest read", "good")
    zatva("user", "add", "Bára", "--role", "administrator")
    zatva("user", "disable", "Alena")
    assert json.loads(zatva("token", "list", "--json").stdout)["state"] == "disabled"
    assert "and sees everything" in zatva("user", "role", "Alena", "viewer").stdout
    assert zatva("token", "revoke", str(listed["token_id"])).returncode == 0
    assert json.loads(zatva("token", "list", "--json").stdout)["state"] == "revoked"
    assert zatva("token", "revoke", "99").returncode == 2


def test_arguments_that_are_not_in_utf_8_are_refused_in_a_sentence(zatva: Zatva) -> None:
    for words in (
        ("organisation", "add", "Luk\udce1\udc9a"),
        ("harvest", "http://\udcff/", "--out", "folder"),
    ):
        done = zatva(*words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


async def test_the_dashboard_serves_a_signed_in_user_and_ends_with_an_open_stream(
    zatva: Zatva, environment: dict[str, str]
) -> None:
    zatva("user", "add", "Alena", "--role", "administrator")
    with _serving(environment) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("dashboard at http://127.0.0.1:"), line
            address = line.split()[-1]
            link = zatva("user", "link", "Alena", "--base-url", address).stdout.strip()
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
                browser = Browser(http=http, base_url=address)
                await browser.sign_in(link)
                assert (await browser.get("/"))[0] == 200
                async with http.get(address + "/events?topics=jobs") as stream:
                    await stream.content.readuntil(b"\n\n")
                    process.send_signal(signal.SIGTERM)
                    await stream.content.read()
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_a_port_in_use_is_reported(zatva: Zatva, environment: dict[str, str]) -> None:
    with _serving(environment) as process:
        try:
            assert process.stderr is not None
            port = urlsplit(process.stderr.readline().split()[-1]).port
            second = zatva("web", "serve", "--port", str(port))
        finally:
            process.terminate()

    assert second.returncode == 2
    assert f"port {port}" in second.stderr
    assert "--port" in second.stderr


def _serving(environment: dict[str, str]) -> Process:
    return Process(environment, "web", "serve", "--port", "0", stderr=PIPE)
