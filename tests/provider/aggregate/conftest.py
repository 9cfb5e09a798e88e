"""A harvested repository in the aggregate."""

import pytest

from oai.database import Database
from oai.settings import Settings
from tests.provider.aggregate.harvested_rows import Harvested


@pytest.fixture
def harvested(database: Database, settings: Settings) -> Harvested:
    return begun(database, settings)


def begun(database: Database, settings: Settings) -> Harvested:
    """A source without records yet; records are dated one second ahead and listed in pages of five."""
    sizes = {"records_per_answer": 5, "headers_per_answer": 7, "publish_margin": 1}
    provider = settings.provider.model_copy(update=sizes)
    made = Harvested(database=database, settings=settings.model_copy(update={"provider": provider}))
    made.begin()
    return made
