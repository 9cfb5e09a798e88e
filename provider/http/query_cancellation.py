"""Statements that nobody waits for any more are cancelled in the database.

A statement is cancelled over a connection of its own, and the database may act on it a moment late. So the
connection is held until the cancel request was delivered, and is closed instead of being used again.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

from oai.errors import ZatvaError

_CANCEL_SECONDS: Final = 10.0

_Result = TypeVar("_Result")
_log = logging.getLogger("provider.http.statements")


class UnwantedError(ZatvaError):
    """The client has gone; what is left of the work is not done."""


class Errand:
    """One request's work, and the database connection that it holds at the moment."""

    def __init__(self, current: threading.local) -> None:
        self._current = current
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._unwanted = False

    def run(self, work: Callable[[], _Result]) -> _Result:
        """Do the work in this thread."""
        self._current.errand = self
        try:
            return work()
        finally:
            del self._current.errand

    @property
    def unwanted(self) -> bool:
        """Nobody waits for it any more."""
        return self._unwanted

    def took(self, connection: psycopg.Connection[Any]) -> None:
        """The work holds this connection from now on."""
        with self._lock:
            self._connection = connection

    def gave_back(self) -> bool:
        """The work holds no connection any more; says whether a statement on it was cancelled."""
        with self._lock:
            self._connection = None
            return self._unwanted

    def cancel(self) -> None:
        """Cancel the statement that runs, if one does."""
        with self._lock:
            self._unwanted = True
            if self._connection is None:
                return
            try:
                self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
            except psycopg.Error as error:
                _log.info("the statement of a disconnected client runs until its timeout: %s", error)


class Statements:
    """Knows which connection of an engine is held by whose work."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._current = threading.local()
        self._cancelling = ThreadPoolExecutor(max_workers=2, thread_name_prefix="provider-cancel")
        event.listen(engine, "checkout", self._checkout)
        event.listen(engine, "checkin", self._checkin)
        event.listen(engine, "before_cursor_execute", self._before_statement)

    def errand(self) -> Errand:
        """A new piece of work."""
        return Errand(self._current)

    def cancel(self, errand: Errand) -> None:
        """See that the errand's statement is cancelled, without waiting for it."""
        self._cancelling.submit(errand.cancel)

    def close(self) -> None:
        """Forget the engine."""
        event.remove(self._engine, "checkout", self._checkout)
        event.remove(self._engine, "checkin", self._checkin)
        event.remove(self._engine, "before_cursor_execute", self._before_statement)
        self._cancelling.shutdown()

    def _checkout(self, connection: Any, _entry: ConnectionPoolEntry, _proxy: object) -> None:  # noqa: ANN401 as SQLAlchemy calls it
        errand = getattr(self._current, "errand", None)
        if errand is not None:
            errand.took(connection)

    def _checkin(self, _connection: object, entry: ConnectionPoolEntry) -> None:
        errand = getattr(self._current, "errand", None)
        if errand is not None and errand.gave_back():
            entry.invalidate()

    def _before_statement(self, *_: object) -> None:
        """A cancel request that comes between two statements is lost; so the next one does not begin."""
        errand = getattr(self._current, "errand", None)
        if errand is not None and errand.unwanted:
            raise UnwantedError("the client is disconnected")
