"""A harvest loses its connection with the repository's lock while its process lives on."""

import asyncio

from sqlalchemy import text

from harvester.vocabulary import RunStatus
from tests.harvester.library import Library

_END_HOLDER = text(
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND objsubid = 2 AND objid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


async def test_a_run_that_lost_its_lock_stores_no_records_after_another_run_has_started(
    library: Library,
) -> None:
    finished = asyncio.Event()

    async def take_over(asked: dict[str, str]) -> None:
        """At the second page, end the connection that holds the lock, and harvest all records elsewhere."""
        if "resumptionToken" not in asked:
            return
        library.fake.before = None
        with library.database.session() as session:
            assert session.execute(_END_HOLDER).all() == [(True,)]
        code, _, errors = await library.command("harvest", "1")
        assert code == 0, errors
        finished.set()

    library.fake.before = take_over
    outcome = await library.run()
    assert outcome.status is RunStatus.FAILED
    assert "lost a connection to the database, and with it its hold" in str(outcome.failure_reason)
    # The first page is stored while the second is requested: the run may fail before the other ends.
    async with asyncio.timeout(120):
        await finished.wait()
    assert sorted(run.status for run in library.history()) == ["completed", "failed"]
    assert len(library.numbers()) == len(library.records()) == len(library.fake.items)
    row = library.harvest_row()
    # The state is as the other run left it.
    assert (row.process_id, row.resumption_token, row.watermark is None) == (None, None, False)
    audit, found = library.audit()
    assert not found, audit
