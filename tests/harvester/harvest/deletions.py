"""Helpers of the tests of deletions."""

import asyncio
from typing import Any

from sqlalchemy import func, select

from harvester.harvest.models import HeldDeletion
from harvester.models import Harvest
from tests.harvester.fake_repository import Item
from tests.harvester.library import Library


def staged(library: Library) -> int:
    """Return the number of deletions that are staged or waiting."""
    with library.database.session() as session:
        return session.scalars(select(func.count()).select_from(HeldDeletion)).one()


def newer(number: int, **values: Any) -> Item:
    """Return a record that changed after the library's first harvest."""
    return Item(
        identifier=f"oai:fake.example:{number}", datestamp="2024-06-03T00:00:00Z", title="Newer", **values
    )


def counted(library: Library) -> int:
    """Return the number of records that the running harvests have committed."""
    with library.database.session() as session:
        return sum(counts.get("records", 0) for counts in session.scalars(select(Harvest.counts)))


async def stopped_after(library: Library, records: int, **parameters: Any) -> None:
    """Run a harvest that is stopped when the page after the given number of records is requested."""
    stop = asyncio.Event()

    async def ask_to_stop(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith(str(records)):
            async with asyncio.timeout(30):  # the earlier records have to be committed first
                while counted(library) < records:  # noqa: ASYNC110 a thread does it
                    await asyncio.sleep(0.02)
            stop.set()

    library.fake.before = ask_to_stop
    outcome = await library.run(stop=stop, **parameters)
    library.fake.before = None
    assert outcome.status == "incomplete"
