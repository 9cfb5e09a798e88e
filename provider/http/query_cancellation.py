"""Cancels database statements whose client has disconnected.

A statement is cancelled over a separate connection, and the database may act on it a moment late. The
statement's connection is therefore held until the cancel request was delivered, and is then closed
instead of being reused.
"""

import logging
import threading
from collections.abc import Callable, Sequence
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
    """The client has disconnected; the rest of the work is skipped."""


class TrackedCall:
    """One request's work, and the database connection that it currently holds.

    The lock serialises the working thread, which takes and returns connections, with the cancelling
    thread: a cancel request can therefore never reach a connection that another request already uses.
    """

    def __init__(self, current: threading.local) -> None:
        self._current = current
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._is_cancelled = False

    def run(self, work: Callable[[], _Result]) -> _Result:
        """Do the work in this thread."""
        self._current.call = self
        try:
            return work()
        finally:
            del self._current.call

    @property
    def is_cancelled(self) -> bool:
        """Whether the client has disconnected."""
        return self._is_cancelled

    def took(self, connection: psycopg.Connection[Any]) -> None:
        """Note that the work holds this connection from now on."""
        with self._lock:
            self._connection = connection

    def gave_back(self) -> bool:
        """Note that the work has returned its connection; return whether a statement on it was cancelled."""
        with self._lock:
            self._connection = None
            return self._is_cancelled

    def cancel(self) -> None:
        """Cancel the running statement, if any."""
        with self._lock:
            self._is_cancelled = True
            if self._connection is None:
                return
            try:
                self._connection.cancel_safe(timeout=_CANCEL_SECONDS)
            except psycopg.Error as error:
                _log.info("the statement of a disconnected client runs until its timeout: %s", error)


class Statements:
    """Tracks which connection of the engines is held by which call, which holds one at a time."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines
        self._current = threading.local()
        self._cancelling = ThreadPoolExecutor(max_workers=2, thread_name_prefix="provider-cancel")
        for engine in engines:
            event.listen(engine, "checkout", self._checkout)
            event.listen(engine, "checkin", self._checkin)
            event.listen(engine, "before_cursor_execute", self._before_statement)

    def call(self) -> TrackedCall:
        """Return a new call."""
        return TrackedCall(self._current)

    def cancel(self, call: TrackedCall) -> None:
        """Schedule the cancellation of the call's statement, without waiting for it."""
        self._cancelling.submit(call.cancel)

    def close(self) -> None:
        """Remove the listeners from the engines."""
        for engine in self._engines:
            event.remove(engine, "checkout", self._checkout)
            event.remove(engine, "checkin", self._checkin)
            event.remove(engine, "before_cursor_execute", self._before_statement)
        self._cancelling.shutdown()

    def _checkout(self, connection: Any, _entry: ConnectionPoolEntry, _proxy: object) -> None:  # noqa: ANN401 SQLAlchemy's signature
        call = getattr(self._current, "call", None)
        if call is not None:
            call.took(connection)

    def _checkin(self, _connection: object, entry: ConnectionPoolEntry) -> None:
        call = getattr(self._current, "call", None)
        # The cancel request may take effect late: the next user of this connection must not receive it.
        if call is not None and call.gave_back():
            entry.invalidate()

    def _before_statement(self, *_: object) -> None:
        """Stop before the next statement: a cancel request between two statements has no effect."""
        call = getattr(self._current, "call", None)
        if call is not None and call.is_cancelled:
            raise UnwantedError("the client is disconnected")
