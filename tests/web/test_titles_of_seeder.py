"""Import of titles from Seeder's database on pages: its plan, its faults, and what the last imports did."""

import os
import re
from collections.abc import Iterator

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import URL, select

from manager.worker.process import environment_for
from oai.settings import Settings
from provider.titles.models import Title
from tests.commands import zatva_beside
from tests.conftest import conninfo
from tests.provider.titles.seeder_tables import Seeder
from tests.web.conftest import Browser, Server

_PATH = "/archive/titles/import"
_HIDDEN = re.compile(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">')
_NO_SERVER = "postgresql://reader:secret@127.0.0.1:1/seeder"


@pytest.fixture
def seeder(maintenance: psycopg.Connection, server_url: URL) -> Iterator[Seeder]:
    """Seeder's database."""
    name = f"seeder_web_{os.getpid()}"
    maintenance.execute(f"CREATE DATABASE {name}")
    url = server_url.set(database=name)
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        seeder = Seeder(connection, conninfo(url.update_query_dict({"options": "-csearch_path=seeder"})))
        seeder.create()
        yield seeder
    maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """The settings with the address that a test is parametrised with, or that of Seeder's database."""
    address = getattr(request, "param", None) or request.getfixturevalue("seeder").address
    provider = settings.provider.model_copy(update={"seeder_url": SecretStr(address)})
    return settings.model_copy(update={"provider": provider})


async def _send(browser: Browser, **fields: str) -> tuple[int, str, str]:
    return await browser.post(f"{_PATH}/seeder", fields)


def _carried(page: str) -> dict[str, str]:
    return {name: value for name, value in _HIDDEN.findall(page) if name != "csrf_token"}


def _names(server: Server) -> list[str]:
    with server.database.session() as session:
        return list(session.scalars(select(Title.name).order_by(Title.name)))


async def test_titles_are_imported_from_seeder_in_two_steps(
    server: Server, curator: Browser, seeder: Seeder
) -> None:
    seeder.source("success", "http://b.example/", name="Noviny")
    seeder.source("voting", "http://c.example/")
    seeder.source("odd", "http://d.example/")

    status, text, _ = await _send(curator)

    assert (status, _names(server)) == (200, [])
    for words in ("Noviny", "&#39;voting&#39;, not archived", "its state is &#39;odd&#39;"):
        assert words in text, words
    assert "postgresql" not in text
    _, _, target = await _send(curator, **_carried(text), do="import")
    assert target == "/archive/titles?source=seeder&done=titles-imported"
    assert _names(server) == ["Noviny"]
    last = (await curator.get(_PATH))[1].partition("Last imports")[2]
    assert ("Katka" in last, ">completed<" in last) == (True, True)


async def test_a_change_in_seeder_between_the_steps_is_shown_first(
    server: Server, curator: Browser, seeder: Seeder
) -> None:
    source = seeder.source("success", "http://b.example/", name="Noviny")
    _, text, _ = await _send(curator)
    seeder.change("source_source", source, name="Noviny Plus")

    status, text, _ = await _send(curator, **_carried(text), do="import")

    assert (status, "Noviny Plus" in text, _names(server)) == (409, True, [])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (_NO_SERVER, "database reader@127.0.0.1:1/seeder"),
        ("postgresql://reader:sec@ret@127.0.0.1/seeder", "cannot be read"),
    ],
    indirect=["settings"],
)
async def test_errors_of_seeder_are_reported_without_its_password(curator: Browser, words: str) -> None:
    status, text, _ = await _send(curator)

    assert (status, words in text) == (422, True)
    assert "secret" not in text
    assert "sec@ret" not in text


@pytest.mark.parametrize("settings", [_NO_SERVER], indirect=True)
async def test_the_last_imports_say_why_a_command_failed(server: Server, curator: Browser) -> None:
    environment = {**environment_for(server.settings), "ZATVA_PROVIDER__SEEDER_URL": _NO_SERVER}

    done = await zatva_beside(environment, "provider", "titles", "import")
    missing = await zatva_beside(environment, "provider", "titles", "import", "x.csv")

    assert (done.returncode, missing.returncode) == (4, 2)
    last = (await curator.get(_PATH))[1].partition("Last imports")[2]
    assert "nothing has been imported" in last
    assert (last.count(">failed<"), "secret" in last) == (1, False)


async def test_only_staff_of_the_archive_import_from_seeder(viewer: Browser, owner: Browser) -> None:
    for browser in (viewer, owner):
        assert (await _send(browser))[0] == 403
