"""One database for all tests of a module that start servers and commands and leave the tables unchanged.

Tests that count rows, or write some that others would see, take `environment` and `database` instead.
"""

import os
from collections.abc import Iterator

import pytest

from oai.database import Database, open_database
from oai.settings import Settings
from tests.commands import results


@pytest.fixture(scope="module")
def shared_environment(shared_settings: Settings) -> dict[str, str]:
    """Return the environment of processes that use the module's database and data folder."""
    assert shared_settings.database_url is not None
    return {
        **os.environ,
        "ZATVA_DATABASE_URL": shared_settings.database_url.get_secret_value(),
        "ZATVA_DATA": str(shared_settings.data),
    }


@pytest.fixture(scope="module")
def shared_database(shared_settings: Settings) -> Iterator[Database]:
    """Open the module's database. Its schema is not checked again, because it is a copy of the template's."""
    with open_database(shared_settings, check_tables=False) as database:
        yield database


@pytest.fixture(scope="module")
def shared_token(shared_environment: dict[str, str]) -> str:
    """Return a token of an administrator, with which programs read the archive's state and test it."""
    results(shared_environment, "user", "add", "Alena", "--role", "administrator")
    scopes = ("--scope", "read", "--scope", "archive")
    (made,) = results(shared_environment, "token", "add", "Alena", "tests", *scopes)
    return str(made["token"])
