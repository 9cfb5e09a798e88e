"""Runs a harvest of a hostile server in this process and reads the result."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lxml import etree
from sqlalchemy import select

from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.models import Harvest, Record
from harvester.repositories import add_repository
from harvester.vocabulary import Level, RecordStatus
from oai.database import Database
from oai.settings import Settings
from tests.harvester.fake_repository import Item
from tests.harvester.hostile.scenario import Scenario
from tests.harvester.hostile.server import Hostile, served

QUICK = {"timeout": 5.0, "retries": 1, "max_wait": 5.0, "first_delay": 0.01}
_LONGEST = 20
"""Seconds after which a harvest counts as hanging."""


@dataclass(frozen=True, kw_only=True)
class Left:
    """The result of a harvest."""

    outcome: RunOutcome
    metadata: Mapping[str, bytes]
    """Metadata of each stored record by its identifier, in canonical XML."""
    files: frozenset[str]
    active: frozenset[str]
    deleted: frozenset[str]
    watermark: str | None
    requests: int


async def run(
    hostile: Hostile,
    database: Database,
    settings: Settings,
    folder: Path,
    *,
    level: Level,
    scenario: Scenario | None = None,
    longest: float = _LONGEST,
) -> Left:
    """Serve and harvest once."""
    changed = {**QUICK, **(scenario.settings if scenario else {})}
    quick = settings.model_copy(update={"harvester": settings.harvester.model_copy(update=changed)})
    async with served(hostile):
        with database.session() as session:
            repository_id = add_repository(session, base_url=hostile.url, base_dir=str(folder)).repository_id
            session.commit()
        request = HarvestRequest(
            repository_id=repository_id, validation=level, **(scenario.parameters if scenario else {})
        )
        async with asyncio.timeout(longest):
            outcome = await harvest(database, quick, request, stop=asyncio.Event())
    return _left(database, outcome, folder, requests=len(hostile.asked))


def truth_of(item: Item) -> bytes:
    """The item's metadata in canonical XML."""
    metadata = item.record().partition("<metadata>")[2].partition("</metadata>")[0]
    return _canonical(etree.fromstring(metadata, _parser()))


def _canonical(element: etree._Element) -> bytes:
    return etree.tostring(element, method="c14n", exclusive=True, with_tail=False)


def _parser() -> etree.XMLParser:
    return etree.XMLParser(huge_tree=True, resolve_entities=False)


def _left(database: Database, outcome: RunOutcome, folder: Path, *, requests: int) -> Left:
    with database.session() as session:
        rows = session.scalars(select(Record).where(Record.repository_id == outcome.repository_id)).all()
        point = session.scalars(
            select(Harvest).where(Harvest.repository_id == outcome.repository_id)
        ).one_or_none()
    metadata = {}
    for row in rows:
        if row.filename is not None and row.status == RecordStatus.ACTIVE:
            element = etree.fromstring((folder / row.filename).read_bytes(), _parser()).find("{*}metadata")
            assert element is not None
            metadata[row.identifier] = _canonical(element[0])
    return Left(
        outcome=outcome,
        metadata=metadata,
        files=frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()),
        active=frozenset(row.identifier for row in rows if row.status == RecordStatus.ACTIVE),
        deleted=frozenset(row.identifier for row in rows if row.status == RecordStatus.DELETED),
        watermark=point.watermark if point else None,
        requests=requests,
    )
