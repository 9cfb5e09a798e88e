"""A fake repository that is harvested and published again as the set `fake`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oai.database import Database
from oai.settings import Settings
from tests.end_to_end.aggregate_way.hub import Hub
from tests.harvester.fake_repository import FakeRepository, Item, many, serve
from tests.harvester.library import Library

DC = 'xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/"'
HARD = (
    f'<oai_dc:dc {DC} xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:dcterms="urn:terms">'
    '<dc:date xsi:type="dcterms:W3CDTF">2024</dc:date> <!-- a word --><dc:title xml:lang="cs">Žluťoučký &lt;'
    "&amp; ]]&gt;&#13;\n\t kůň 𝄞</dc:title><plain xmlns=''>no namespace</plain></oai_dc:dc>"
)


@pytest.fixture
def hub(database: Database, settings: Settings, environment: dict[str, str], tmp_path: Path) -> Hub:
    sizes = {"records_per_answer": 3, "headers_per_answer": 4, "publish_margin": 1, "aggregate_seconds": 3600}
    provider = settings.provider.model_copy(update=sizes)
    return Hub(
        database=database,
        settings=settings.model_copy(update={"provider": provider}),
        environment=environment,
        folder=tmp_path,
    )


@pytest.fixture
async def fake() -> AsyncIterator[FakeRepository]:
    items = [
        *many(5),
        Item(identifier="oai:fake.example:hard", metadata=HARD, sets=("serials:nov07",)),
        Item(identifier="oai:fake.example:two", sets=("serials", "odd/set é")),
        Item(identifier="no uri at all", sets=("serials:nov07", "maps")),
    ]
    async with serve(FakeRepository(items=items, sets=["serials", "serials:nov07", "maps"])) as served:
        yield served


@pytest.fixture
async def library(hub: Hub, fake: FakeRepository) -> Library:
    """The fake repository, harvested and published as the set `fake`."""
    library = hub.library(fake, "first")
    await library.run()
    hub.add(library.repository_id, name="fake")
    hub.update()
    return library
