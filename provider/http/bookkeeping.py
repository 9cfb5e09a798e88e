"""Writes down every few seconds who harvests, beside the answers and never in their way."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

from aiohttp import web
from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from oai.database import Database
from provider.http.attending import ATTENDANCE
from provider.http.clients import forget, write_down
from provider.http.keys import DATABASE, SETTINGS
from provider.http.tally import Batch

_SECONDS: Final = 5.0
_HOUR: Final = 3600.0
_OPTIONS: Final = "-c timezone=UTC -c statement_timeout=5000 -c lock_timeout=2000 -c synchronous_commit=off"

_log = logging.getLogger(__name__)


class Bookkeeper:
    """Carries batches into the database over a connection of its own, open while it writes."""

    def __init__(self, database: Database, *, kept: timedelta) -> None:
        self._kept = kept
        self._engine = create_engine(
            database.url,
            poolclass=NullPool,
            connect_args={
                "options": _OPTIONS,
                "application_name": "zatva bookkeeping",
                "connect_timeout": 5,
            },
        )
        self._next_forgetting = time.monotonic()

    def write(self, batch: Batch) -> bool:
        """Write a batch down, and now and then forget what is old; says whether it was written."""
        try:
            with Session(self._engine) as session:
                write_down(session, batch)
                session.commit()
        except SQLAlchemyError as error:
            _log.info("statistics of harvesters could not be saved: %s", str(error).partition("\n")[0])
            return False
        if time.monotonic() > self._next_forgetting:
            self._forget()
        return True

    def _forget(self) -> None:
        self._next_forgetting = time.monotonic() + _HOUR
        try:
            with Session(self._engine) as session:
                forget(session, self._kept)
                session.commit()
        except SQLAlchemyError as error:
            _log.info("statistics of old harvesters could not be deleted: %s", str(error).partition("\n")[0])


async def bookkeeping(app: web.Application) -> AsyncIterator[None]:
    """Write down in a thread while the application runs, and once more at its end.

    What cannot be written stays in memory, which the tally bounds, until the next time.
    """
    tally = app[ATTENDANCE].tally
    keeper = Bookkeeper(app[DATABASE], kept=timedelta(days=app[SETTINGS].provider.client_days))
    stopping = asyncio.Event()

    async def write() -> None:
        batch = tally.take()
        if batch.clients and not await asyncio.to_thread(keeper.write, batch):
            tally.put_back(batch)

    async def keep_writing() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), _SECONDS)
            await write()

    task = asyncio.create_task(keep_writing())
    yield
    stopping.set()
    await task
