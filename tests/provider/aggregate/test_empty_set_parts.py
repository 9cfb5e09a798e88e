"""Sets of sources whose setSpec is empty or begins with a colon are not taken for the source's own set."""

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text

from oai import migrations
from oai.database import Database
from provider.aggregate.catalogue import find_scope, list_size
from provider.aggregate.overview import read_overview
from tests.provider.aggregate.harvested_rows import Harvested
from tests.provider.aggregate.test_pages import LATER
from tests.provider.served import until

SPECS = {"1": [":theses"], "2": [""], "3": ["books"], "4": ["books"], "5": []}
SIZES = {None: 5, "one": 5, "one:!": 2, "one:!:theses": 1, "one:books": 2}
_WRONG = """
UPDATE aggregate_count SET records = records + 5 FROM aggregate_set WHERE id = set_id AND set_spec = 'one:!'
"""


@pytest.fixture
def published(harvested: Harvested) -> Harvested:
    with harvested.database.session() as session:
        for name, specs in SPECS.items():
            harvested.write(session, name, sets=specs)
        session.commit()
    until(lambda: harvested.update() == len(SPECS))
    return harvested


def _sizes(database: Database) -> dict[str | None, int | None]:
    sizes = {}
    with database.session() as session:
        for one in SIZES:
            scope = find_scope(session, 1, one)
            assert scope is not None
            sizes[one] = list_size(session, scope, LATER)
    return sizes


def test_each_set_has_the_size_of_its_records(published: Harvested) -> None:
    assert _sizes(published.database) == SIZES
    listed = (("verb", "ListIdentifiers"), ("metadataPrefix", "oai_dc"), ("set", "one:!"))
    until(lambda: published.repository().answer(list(listed)).body.count(b"<header") == 2)
    with published.database.session() as session:
        assert read_overview(session).records == len(SPECS)


def _name(database: Database) -> str:
    with database.session() as session:
        return str(session.scalar(text("SELECT name FROM aggregate_set WHERE set_spec = 'one:!'")))


def test_a_set_without_a_name_is_named_by_its_set_spec(published: Harvested) -> None:
    assert _name(published.database) == "one:!"


@pytest.mark.copied_database("migrates")
def test_the_migration_corrects_counts_and_names_of_earlier_versions(published: Harvested) -> None:
    database = published.database
    with database.session() as session:
        session.execute(text(_WRONG))
        session.execute(text("UPDATE aggregate_set SET name = '' WHERE set_spec = 'one:!'"))
        session.commit()
    config = Config()
    config.set_main_option("script_location", str(migrations.folder()))
    with database.engine.connect() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0072")
        command.upgrade(config, "0073")
    assert (_name(database), _sizes(database)) == ("one:!", SIZES)
