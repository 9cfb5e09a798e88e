"""An engine that compiles statements before its database is known, for a server that forks processes.

SQLAlchemy keeps compiled statements with the engine that compiled them. An engine that is made in each
process compiles all of its statements again; one made before the fork has compiled them for all processes.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from psycopg.pq import TransactionStatus
from sqlalchemy import URL, Engine, event
from sqlalchemy.orm import Session

SERVER_OPTIONS: Final = "-c standard_conforming_strings=on -c default_transaction_isolation=read\\ committed"
"""Two of the answers below hold for every connection, whatever the server's defaults are."""
_ANSWERS: Final = {
    "select pg_catalog.version()": "PostgreSQL 14.0",  # has what SQLAlchemy uses
    "select current_schema()": "public",
    "show transaction isolation level": "read committed",
    "show standard_conforming_strings": "on",
}
_CHANGES_ONLY: Final = re.compile(r"\s*(?:;|(?:INSERT|UPDATE|DELETE|SET) (?!.*\bRETURNING\b))", re.DOTALL)


class EarlyEngine:
    """An engine that has never had a connection; `for_database` gives it its database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._parameters: Mapping[str, Any] | None = None
        event.listen(engine, "do_connect", self._connect)

    def compile(self, works: Iterable[Callable[[Session], object]]) -> None:
        """Compile what each of the works executes, up to the first statement that gives rows: there it ends.

        Nothing is sent. Statements that only change rows appear to succeed.
        """
        for work in works:
            with Session(self._engine) as session, contextlib.suppress(_NoRowsError):
                work(session)
        self._engine.dispose()

    def for_database(self, url: URL, parameters: Mapping[str, Any]) -> Engine:
        """Return the engine; from now on it connects to the database at the URL, with libpq's parameters."""
        self._engine.url = url
        _, named = self._engine.dialect.create_connect_args(url)
        self._parameters = {**named, **parameters}
        return self._engine

    def _connect(self, _dialect: object, _record: object, _words: object, named: dict[str, Any]) -> Any:  # noqa: ANN401 the driver's or the one below
        if self._parameters is None:
            return _NoConnection()
        named.update(self._parameters)
        return None  # SQLAlchemy connects with the parameters


class _NoRowsError(Exception):
    """A statement gives rows, and there is no database that has them."""


class _NoConnection:
    """What an early engine has instead of a connection: it answers SQLAlchemy's first questions."""

    autocommit = closed = broken = False
    isolation_level = None

    class info:  # noqa: N801 as the driver's
        """The state of the connection."""

        transaction_status = TransactionStatus.IDLE

    def cursor(self) -> "_NoCursor":
        return _NoCursor()

    def add_notice_handler(self, _handler: object) -> None:
        """Ignore it: there are no notices."""

    def commit(self) -> None:
        """Do nothing."""

    rollback = close = commit


class _NoCursor:
    """Its statements change one row each."""

    arraysize = rowcount = 1
    description: list[tuple[str, None]] | None = None
    _answer = ""

    def execute(self, statement: str, _parameters: object = None) -> None:
        if statement in _ANSWERS:
            self._answer, self.description = _ANSWERS[statement], [("answer", None)]
        elif not _CHANGES_ONLY.match(statement):
            raise _NoRowsError

    def fetchone(self) -> tuple[str]:
        return (self._answer,)

    def close(self) -> None:
        """Do nothing."""
