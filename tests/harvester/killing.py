"""A harvest in a separate process that is killed at a chosen statement."""

import asyncio
from collections.abc import Sequence

from sqlalchemy import text

from tests.commands import Process
from tests.harvester.library import Library

_ASLEEP = text(
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event = 'PgSleep' AND query !~ 'pg_stat_activity'"
)
_LONG = 300
_SURE = 0.3


def stall(library: Library, event: str, when: str, *, name: str = "stall", seconds: float = _LONG) -> None:
    """Make each statement that does `event` ("INSERT ON oai_history") to a row matching `when` wait."""
    with library.database.session() as session:
        session.execute(
            text(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
                f" AS $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END $$"
            )
        )
        session.execute(
            text(f"CREATE TRIGGER {name} BEFORE {event} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {name}()")
        )
        session.commit()


async def kill_where_it_stalls(
    library: Library, table: str, *, arguments: Sequence[str] = (), delay: float = 0.0
) -> None:
    """Start the first repository's harvest, kill it where `stall` blocks it, and unblock the table.

    `delay` is the duration in seconds of a shorter stall before that.
    """
    process = Process(library.environment, "harvest", "1", "-q", *arguments)
    async with asyncio.timeout(120):
        while not (asleep := _asleep(library, longer_than=delay)):
            assert process.poll() is None
            await asyncio.sleep(0.02)
    process.kill()
    await asyncio.to_thread(process.wait)
    with library.database.session() as session:
        for backend in asleep:
            session.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": backend})
        session.execute(text(f"DROP TRIGGER stall ON {table}"))
        session.commit()


def _asleep(library: Library, *, longer_than: float) -> list[int]:
    """Return the database processes that a stall has blocked for at least the given seconds."""
    long = text(f"{_ASLEEP.text} AND now() - query_start > make_interval(secs => :seconds)")
    with library.database.session() as session:
        return list(session.scalars(long, {"seconds": longer_than + _SURE}))
