"""The names by which commands find a title."""

import pytest

from oai.database import Database
from oai.errors import UsageError
from provider.titles.commands import find_title
from provider.titles.imports import title_key
from tests.provider.titles.conftest import Titles, entry


@pytest.fixture
def library(titles: Titles) -> Database:
    """Two sources with a key in common."""
    for source, keys in {"library": ("web1", "both"), "museum": ("both", "12", "a:b")}.items():
        titles.bring(*(entry(key, name=f"{source} {key}") for key in keys), source=source)
    return titles.database


@pytest.mark.parametrize(
    ("named", "name"),
    [
        ("web1", "library web1"),
        ("library:web1", "library web1"),
        ("1", "library web1"),
        (title_key("library", "web1").hex, "library web1"),
        ("museum:both", "museum both"),
        ("12", "museum 12"),
        ("a:b", "museum a:b"),
    ],
)
def test_a_title_is_found_by_each_of_its_names(library: Database, named: str, name: str) -> None:
    with library.session() as session:
        assert find_title(session, named).name == name


def test_a_key_in_several_sources_is_refused_with_their_names(library: Database) -> None:
    with library.session() as session, pytest.raises(UsageError, match="library:both, museum:both"):
        find_title(session, "both")


@pytest.mark.parametrize("named", ["web2", "museum:web1", "99", "g" * 32, "0" * 32, "9" * 32])
def test_an_unknown_name_is_refused(library: Database, named: str) -> None:
    with library.session() as session, pytest.raises(UsageError, match="no title"):
        find_title(session, named)
