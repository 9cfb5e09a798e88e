"""Fixtures for the tests of the bibliographic import: a harvested repository of MARC 21 records."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from harvester.bibliographic.importer import run_import
from harvester.bibliographic.imports import ImportFacts
from oai.database import Database
from oai.settings import Settings
from tests.harvester.bibliographic.marc import marcxml
from tests.harvester.fake_repository import FakeRepository, Item, serve
from tests.harvester.library import Library


class Catalogue(Library):
    """A harvested repository, and what is imported from it."""

    def put(self, number: int, *lines: str, datestamp: str = "2024-01-01T00:00:00Z") -> None:
        """Add or replace a record with these fields in the repository."""
        item = Item(
            identifier=f"oai:fake.example:{number}",
            datestamp=datestamp,
            metadata=marcxml(f"001 nr{number}", *lines),
        )
        items = self.fake.items
        place = next((at for at, old in enumerate(items) if old.identifier == item.identifier), None)
        if place is None:
            items.append(item)
        else:
            items[place] = item

    async def harvest(self, **parameters: Any) -> None:
        """Harvest everything."""
        outcome = await self.run(metadata_prefix="marc21", full=True, **parameters)
        assert outcome.failure_reason is None

    def imported(self, **options: Any) -> ImportFacts:
        """Import everything that is due."""
        return run_import(self.database, self.settings, self.repository_id, started_by="me", **options)

    def titles(self) -> list[str]:
        """The titles of all bibliographic records."""
        return [row[0] for row in self.rows("SELECT title FROM bibliographic_record ORDER BY sort_title")]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with self.database.session() as session:
            return [tuple(row) for row in session.execute(text(statement))]


@contextlib.asynccontextmanager
async def harvested(
    database: Database, settings: Settings, folder: Path, environment: dict[str, str]
) -> AsyncIterator[Catalogue]:
    """Three records, harvested and not imported."""
    async with serve(FakeRepository(page_size=100, now="2024-06-01T12:00:00Z")) as fake:
        made = Catalogue(database, settings, fake, folder, dict(environment))
        made.change_settings(retries=0, max_wait=1.0)
        made.put(
            1, "100 1# $aHus, Jan$4aut$7jn19981001473", "245 10 $aKnihy kacířů", "655 #7 $aedice$2czenas"
        )
        made.put(2, "020 ## $a80-200-0129-8", "245 10 $aSlovník staré češtiny", "655 #7 $aslovníky$2czenas")
        made.put(3, "245 14 $aThe Czech Language", "500 ## $aPoznámka o nářečí")
        await made.harvest()
        yield made


@pytest.fixture
async def catalogue(
    database: Database, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> AsyncIterator[Catalogue]:
    async with harvested(database, settings, tmp_path / "out", environment) as made:
        yield made


Counted = Callable[[ImportFacts], dict[str, int]]


def counts(facts: ImportFacts) -> dict[str, int]:
    """Return the counts of an import, without zeros."""
    names = ("seen", "new", "updated", "unchanged", "deleted", "filtered", "refused")
    return {name: number for name in names if (number := getattr(facts, name))}
