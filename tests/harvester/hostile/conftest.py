"""One database for all scenarios of a module: each has a repository of its own in it."""

from collections.abc import Iterator

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import URL

from oai.database import Database, open_database
from oai.settings import Settings


@pytest.fixture(scope="module")
def hostile_settings(
    server_url: URL, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """Settings with a copy of the migrated database."""
    name = f"{template}_hostile"
    url = server_url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        own = server_url.set(database=name).render_as_string(hide_password=False)
        yield Settings(data=tmp_path_factory.mktemp("hostile"), database_url=SecretStr(own))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def hostile_database(hostile_settings: Settings) -> Iterator[Database]:
    """That database, open."""
    with open_database(hostile_settings) as database:
        yield database
