"""Database work off the event loop: a bounded pool of threads; each call has a session and a transaction."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, Self, TypeVar

from psycopg.errors import UniqueViolation
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from oai.database import Database
from oai.errors import TryLaterError

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


class DatabaseExecutor:
    """Runs functions that take a session in threads; commits when they return, rolls back when they raise.

    At most `waiting` calls wait for a thread; None: any number.
    """

    def __init__(self, database: Database, *, threads: int, name: str, waiting: int | None = None) -> None:
        self._database = database
        self._most = None if waiting is None else threads + waiting
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._pending = 0

    async def run(
        self,
        work: Callable[Concatenate[Session, _Args], _Result],
        /,
        *args: _Args.args,
        **kwargs: _Args.kwargs,
    ) -> _Result:
        """Return what `work(session, …)` returns; objects are detached, with the columns that were loaded.

        If another transaction has just taken a unique name, the work is repeated once: it then finds the name
        and reports that in its own words. Raises TryLaterError when too many calls wait.
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

        result = await self._in_thread(in_session)
        self._database.outage.answered()
        return result

    async def run_apart(
        self,
        work: Callable[Concatenate[Database, _Args], _Result],
        /,
        *args: _Args.args,
        **kwargs: _Args.kwargs,
    ) -> _Result:
        """Return what `work(database, …)` returns, which opens its own sessions and commits by itself.

        Raises TryLaterError as `run` does.
        """
        return await self._in_thread(lambda: work(self._database, *args, **kwargs))

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        # Only the event loop's thread counts, so no lock is needed.
        if self._most is not None and self._pending >= self._most:
            raise TryLaterError("all database threads are busy; try again in a moment")
        self._pending += 1
        try:
            context = contextvars.copy_context()
            return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, work)
        finally:
            self._pending -= 1

    @property
    def database(self) -> Database:
        """The database itself, for work that has threads of its own."""
        return self._database

    @property
    def pending(self) -> int:
        """The number of calls that have a thread or wait for one."""
        return self._pending

    def close(self) -> None:
        """Wait for the work in progress and end the threads."""
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
