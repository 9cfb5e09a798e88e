"""Database work off the event loop: a bounded thread pool, each work in a session of its own."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from aiohttp import web
from psycopg.errors import UniqueViolation
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from oai.database import Database
from oai.errors import TryLaterError

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")

THREADS = 4
_WAITING_ROOM = 1000  # after a restart, all browsers on live pages reconnect at once


class DatabaseThreads:
    """Runs functions that take a session in threads, and commits when they return."""

    def __init__(self, database: Database, *, waiting_room: int = _WAITING_ROOM) -> None:
        self._database = database
        self._most = THREADS + waiting_room
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="web-database")
        self._pending = 0

    async def run(
        self, work: Callable[Concatenate[Session, _Args], _Result], *args: _Args.args, **kwargs: _Args.kwargs
    ) -> _Result:
        """Return the result of `work(session, …)`; commits its transaction, or rolls back if it raises.

        Returned objects are detached, with the columns that were loaded. If another transaction has just
        taken a name that was free, the work runs again: it finds the name and raises its own error. Raises
        TryLaterError when too many already wait.
        """

        def once() -> _Result:
            with self._database.session() as session:
                session.expire_on_commit = False
                result = work(session, *args, **kwargs)
                session.commit()
                return result

        def in_session() -> _Result:
            try:
                return once()
            except IntegrityError as error:
                if not isinstance(error.orig, UniqueViolation):
                    raise
                return once()

        return await self._in_thread(in_session)

    async def run_apart(
        self, work: Callable[Concatenate[Database, _Args], _Result], *args: _Args.args, **kwargs: _Args.kwargs
    ) -> _Result:
        """Return the result of `work(database, …)`, which opens and commits its own sessions.

        Raises TryLaterError like `run`.
        """
        return await self._in_thread(lambda: work(self._database, *args, **kwargs))

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        # Changed only on the event loop, without an await between test and increment, so it needs no lock.
        if self._pending >= self._most:
            raise TryLaterError("all database threads are busy; try again in a moment")
        self._pending += 1
        try:
            context = contextvars.copy_context()
            return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, work)
        finally:
            self._pending -= 1

    @property
    def database(self) -> Database:
        """The database itself, for work that lasts longer than a call or has threads of its own."""
        return self._database

    @property
    def pending(self) -> int:
        """Return the amount of work that runs or waits for a thread."""
        return self._pending

    def close(self) -> None:
        """Wait for the running work and end the threads."""
        self._pool.shutdown()


DATABASE = web.AppKey("database", DatabaseThreads)


def database_of(request: web.Request) -> DatabaseThreads:
    """Return the application's database threads."""
    return request.config_dict[DATABASE]
