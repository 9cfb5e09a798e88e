"""Streaming replicas that lists are read from in turn, with the datestamp guarantee kept.

A snapshot of a replica is a prefix of the primary's log, and answers are dated by the mark in it
(`holdings.mark`): so a replica never shows too little for its date. It may show too little for a token or an
`until` above its mark, and what was added or withheld a moment ago it does not know: about these the primary
decides, and a replica that is too far behind is not asked at all.
"""

import asyncio
import contextlib
import functools
import logging
import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final, TypeVar

import psycopg
from psycopg.errors import QueryCanceled, SerializationFailure
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from oai.database import Database, first_line
from provider.holdings.mark import MarkBehindError, advance_mark, begin_at_replicas_mark

_PAUSE_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 2.0
"""A replica that has not answered by then is left out until it does."""
_CLOCK: Final = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8)")
_STATE: Final = text(
    "SELECT pg_is_in_recovery() AS is_replica, CAST(extract(epoch FROM looked) AS float8) AS looked "
    "FROM publication_mark"
)

_Result = TypeVar("_Result")
_log = logging.getLogger("provider.replicas")


class Replica:
    """One replica, and whether requests may read from it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.name = database.url.set(drivername="postgresql").render_as_string(hide_password=True)
        self.behind = math.nan
        """Seconds by which it was behind its primary when last looked at; NaN if that is not known."""
        self.trouble: str | None = "it is not looked at yet"
        """Why it is left out; None if it is not."""
        self._is_logged = False
        self._open = weakref.WeakSet[psycopg.Connection[Any]]()
        self._lock = threading.Lock()
        event.listen(database.engine, "connect", self._connected)
        # A connection from before could not be severed: a request over it would wait forever for a server
        # that is silent.
        database.engine.dispose()

    def leave_out(self, trouble: str) -> None:
        """Ask it no more until it is admitted again."""
        if not self._is_logged:
            _log.warning("replica %s is left out: %s", self.name, trouble)
        self._is_logged = True
        self.trouble = trouble
        self.sever()

    def sever(self) -> None:
        """End what waits for it; a stopped server, or one that is cut off, would hold the threads long."""
        with self._lock:
            for connection in self._open:
                _sever(connection)

    def admit(self) -> None:
        """Read from it."""
        if self.trouble is not None:
            _log.info("replica %s is read from", self.name)
        self._is_logged = False
        self.trouble = None

    def _connected(self, connection: psycopg.Connection[Any], *_: object) -> None:
        with self._lock:
            self._open.add(connection)


def _sever(connection: psycopg.Connection[Any]) -> None:
    with (
        contextlib.suppress(psycopg.Error, OSError),  # closed already
        socket.socket(fileno=os.dup(connection.fileno())) as same,
    ):
        same.shutdown(socket.SHUT_RDWR)


class Replicas:
    """The replicas of a primary; `most_behind` in seconds. `answer` is for any thread."""

    def __init__(self, primary: Database, replicas: Sequence[Database], *, most_behind: float) -> None:
        self._primary = primary
        self._replicas = [Replica(database) for database in replicas]
        self._most_behind = most_behind
        self._turn = 0
        self._primary_is_ahead: float | None = None
        """Seconds by which the primary's clock is ahead of this process's monotonic clock."""
        self._primary_is_away = False

    def __len__(self) -> int:
        return len(self._replicas)

    @property
    def engines(self) -> list[Engine]:
        """The engines of all of them."""
        return [replica.database.engine for replica in self._replicas]

    @property
    def usable(self) -> int:
        """The number of replicas that are read from at present."""
        return sum(replica.trouble is None for replica in self._replicas)

    @property
    def behind(self) -> float:
        """Seconds by which the last of those is behind the primary; NaN if there is none."""
        return max((one.behind for one in self._replicas if one.trouble is None), default=math.nan)

    def answer(self, answer: Callable[[Session, datetime], _Result]) -> _Result | None:
        """Return the answer of the first replica in turn that can give one; None if none can.

        `answer` receives a session in its snapshot and the mark in it. If it raises MarkBehindError, if the
        connection is lost, or if the statement conflicts with what is being replayed, the next one is asked.
        """
        for replica in self._in_turn():
            try:
                with replica.database.reading() as session:
                    return answer(session, begin_at_replicas_mark(session))
            except MarkBehindError:
                continue
            except (OperationalError, InterfaceError) as error:
                if isinstance(error.orig, QueryCanceled):
                    raise  # too slow, or no longer wanted: elsewhere it would be the same
                if not isinstance(error.orig, SerializationFailure):
                    replica.leave_out(first_line(error))
        return None

    def _in_turn(self) -> Iterator[Replica]:
        self._turn += 1  # two threads that get the same number ask the same replica, which does no harm
        for number in range(len(self._replicas)):
            replica = self._replicas[(self._turn + number) % len(self._replicas)]
            if replica.trouble is None:
                yield replica

    async def watch(self) -> None:
        """Look at all servers once a second, until cancelled."""
        pool = ThreadPoolExecutor(len(self) + 1, thread_name_prefix="provider-replicas")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_repeated(pool, self._look_at_primary))
                for replica in self._replicas:
                    look = functools.partial(self._look, replica)
                    unsure = functools.partial(replica.leave_out, "it does not answer")
                    group.create_task(_repeated(pool, look, unsure))
        finally:
            for replica in self._replicas:
                replica.sever()
            pool.shutdown(wait=False)

    def _look_at_primary(self) -> None:
        """Read its clock, and advance its mark: if all lists are read elsewhere, no answer does."""
        try:
            with self._primary.reading() as session:
                advance_mark(session)
                self._primary_is_ahead = session.execute(_CLOCK).scalar_one() - time.monotonic()
            self._primary_is_away = False
        except SQLAlchemyError as error:
            if not self._primary_is_away:
                _log.warning("the primary cannot be asked: %s", first_line(error))
            self._primary_is_away = True

    def _look(self, replica: Replica) -> None:
        try:
            with replica.database.reading() as session:
                state = session.execute(_STATE).one()
        except SQLAlchemyError as error:
            replica.behind = math.nan
            replica.leave_out(first_line(error))
            return
        if not state.is_replica:
            replica.leave_out("it is no replica; name it in database_url if it is the primary now")
            return
        if self._primary_is_ahead is None:
            replica.trouble = "the primary has not answered yet"
            return
        # By one clock, the primary's, because the replica's may be wrong.
        replica.behind = time.monotonic() + self._primary_is_ahead - state.looked
        if replica.behind > self._most_behind:
            replica.leave_out(f"it is more than {self._most_behind:g} seconds behind")
        else:
            replica.admit()


async def _repeated(
    pool: ThreadPoolExecutor, look: Callable[[], None], unsure: Callable[[], None] = lambda: None
) -> None:
    """Look once a second; `unsure` is called if a look takes too long or fails. The next one waits for it."""
    while True:
        looking = asyncio.wrap_future(pool.submit(look))
        done, _ = await asyncio.wait([looking], timeout=_PATIENCE_SECONDS)
        if not done:
            unsure()
            await asyncio.wait([looking])
        if (error := looking.exception()) is not None:
            _log.error("a look at a database server failed", exc_info=error)
            unsure()
        await asyncio.sleep(_PAUSE_SECONDS)
