"""Publishes what was harvested while the provider serves, in one of all processes at a time."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.exc import SQLAlchemyError

from oai.errors import ZatvaError
from oai.settings import Settings
from provider.aggregate.updating import updater
from provider.http.keys import DATABASE, SETTINGS

_OPTIONS: Final = "-c timezone=UTC -c temp_buffers=64MB -c lock_timeout=10000"

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Aggregating:
    """What this process has published."""

    records: int = 0
    updated: float | None = None
    """When this process last saw that everything was published, by the monotonic clock."""

    def age(self) -> float:
        """Seconds since then; not a number before."""
        return float("nan") if self.updated is None else time.monotonic() - self.updated


AGGREGATING: Final = web.AppKey("aggregating", Aggregating)


class _StopError(ZatvaError):
    """The provider ends; what is left is published by the next one."""


class _Publisher:
    """Publishes over a connection of its own, open while it works."""

    def __init__(self, engine: Engine, settings: Settings, told: Aggregating) -> None:
        self._engine = engine
        self._settings = settings
        self._told = told
        self.stopping = False

    def publish(self) -> None:
        """Publish all that there is; what went wrong is logged and tried again the next time."""
        try:
            with updater(self._engine, self._settings, self._check) as mine:
                if mine is not None:
                    self._told.records += mine.run().records
                    self._told.updated = time.monotonic()
        except _StopError:
            return
        except (SQLAlchemyError, ZatvaError) as error:
            _log.warning("harvested records were not published: %s", str(error).partition("\n")[0])

    def _check(self) -> None:
        if self.stopping:
            raise _StopError


async def aggregating(app: web.Application) -> AsyncIterator[None]:
    """Publish in a thread every few seconds while the application runs; ends after the piece under way."""
    settings = app[SETTINGS]
    engine = create_engine(
        app[DATABASE].url,
        poolclass=NullPool,
        connect_args={"options": _OPTIONS, "application_name": "zatva aggregate", "connect_timeout": 5},
    )
    publisher = _Publisher(engine, settings, app[AGGREGATING])
    stopping = asyncio.Event()

    async def keep_publishing() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), settings.provider.aggregate_seconds)
            if not stopping.is_set():
                await asyncio.to_thread(publisher.publish)

    task = asyncio.create_task(keep_publishing())
    yield
    publisher.stopping = True
    stopping.set()
    await task
