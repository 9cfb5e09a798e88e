"""Run database work outside the event loop: a function with a session, in a thread of a small pool."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy.orm import Session

from oai.database import Database

_P = ParamSpec("_P")
_T = TypeVar("_T")
_THREADS = 2


class Transactions:
    """Runs functions that take a session; commits when they return, rolls back when they raise."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="manager-database")

    async def run(
        self, function: Callable[Concatenate[Session, _P], _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Call the function with a session and these arguments, and return its result."""

        def unit_of_work() -> _T:
            # The session is created and used within one pool thread, so no session is shared between threads.
            with self._database.session() as session, session.begin():
                return function(session, *args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._threads, unit_of_work)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for running functions; later calls are refused."""
        self._threads.shutdown()
