"""The database: engine and sessions over PostgreSQL, embedded unless the settings name another server."""

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.errors import (
    ConnectionTimeout,
    IdleInTransactionSessionTimeout,
    QueryCanceled,
    ReadOnlySqlTransaction,
)
from sqlalchemy import URL, Engine, create_engine, event, make_url, text
from sqlalchemy.engine import Dialect, ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.orm import Session

from oai import keeper, migrations
from oai.early_engine import SERVER_OPTIONS, EarlyEngine
from oai.embedded import EmbeddedServer, cluster_folder
from oai.errors import DatabaseNotReadyError, required
from oai.outage import Outage
from oai.settings import Settings

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_POOL = 5
_DRIVER = "postgresql+psycopg"
_HOSTS: Final = re.compile(
    r"(?P<before>[\w+]+://(?:[^:/]*(?::[^@]*)?@)?)(?P<hosts>[\w.%-]+(?::\d+)?(?:,[\w.%-]+(?::\d+)?)*)"
    r"(?P<path>(?:/[^?@]*)?)(?:\?(?P<arguments>[^@]*))?"
)
_CONNECT_SECONDS: Final = 10
_REPLICA_CONNECT_SECONDS: Final = 2
"""Short, because other servers can answer; libpq treats less than 2 as 2."""
_RESTART_SECONDS: Final = 10.0
"""Pause after an embedded server could not be started again."""
_OF_VALUES: Final = frozenset({"22", "54"})
"""Classes of SQLSTATE: data exceptions, and program limits such as that of an index row."""
_CONNECTION = {
    # Detects within half a minute a server that vanished silently (values in seconds and milliseconds).
    "keepalives_idle": 30,
    "tcp_user_timeout": 30_000,
}
SERVER_KEEPALIVES: Final = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
"""With them the server notices within half a minute that a client is gone, and releases its locks."""
_DATE_STYLE: Final = "ISO, YMD"
"""A style that no server has by default: if another one is reported, a pooler has dropped the options."""
_OPTION: Final = re.compile(r"-c (\w+)=((?:\\.|[^\s\\])+)")
# Without statistics, the rows of one key are taken for a two-hundredth of the table, so that a few look-ups
# seem to be worth a pass through all of it. For a table that has doubled since, they are nearly as wrong.
_WANTING: Final = text(
    """
    SELECT name FROM unnest(CAST(:tables AS text[])) AS name
    JOIN pg_class AS class ON class.oid = CAST(name AS regclass)
    WHERE pg_relation_size(class.oid)
        > 2 * CAST(class.relpages AS bigint) * CAST(current_setting('block_size') AS bigint)
    """
)
_ONE_AT_A_TIME: Final = text("SELECT pg_advisory_xact_lock(x'7A61'::int, hashtext(:what))")


@dataclass(frozen=True, kw_only=True)
class Database:
    """An open database. `session()` begins a unit of work; the caller that begins it commits it."""

    engine: Engine
    outage: Outage = field(default_factory=Outage, compare=False)

    def session(self) -> Session:
        """Return a new session; use it as a context manager and commit in it."""
        return Session(self.engine)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Session]:
        """Yield a session for frequent statements that only read, and end its transaction with COMMIT.

        At a ROLLBACK, psycopg forgets the statements that it has prepared, and PostgreSQL plans them again.
        """
        with self.session() as session:
            yield session
            session.commit()

    def read(self, work: Callable[[Session], _Result], /) -> _Result:
        """Return what the work returns for such a session."""
        with self.reading() as session:
            return work(session)

    @property
    def url(self) -> URL:
        """Address with password, for SQLAlchemy."""
        return self.engine.url

    @property
    def conninfo(self) -> str:
        """Address with password, in the form that libpq and psycopg take."""
        # Not as a URL: SQLAlchemy does not escape spaces in passwords, and libpq stops reading at a space.
        return make_conninfo(**self.parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """The address as libpq's parameters (PostgreSQL documentation, "Parameter Key Words")."""
        _, arguments = self.engine.dialect.create_connect_args(self.url)
        # `context` is psycopg's own parameter, not one of libpq's.
        return {name: value for name, value in arguments.items() if name != "context"}


@contextlib.contextmanager
def open_database(
    settings: Settings,
    *,
    pool_size: int = _POOL,
    statement_seconds: float | None = None,
    check_tables: bool = True,
) -> Iterator[Database]:
    """Open the database that the settings name, and close it at the end of the block.

    If no URL is set, the embedded server is started and its tables are upgraded to this version; an empty
    database on an external server also gets its tables. The pool never grows beyond `pool_size`
    connections. `statement_seconds` is the time limit for one statement.

    Raises OperationalError if the server named by a URL cannot be reached, and DatabaseNotReadyError if the
    embedded one cannot be started, or the tables are of another version.
    """
    with contextlib.ExitStack() as stack:
        server = _embedded(settings, stack, ask=not check_tables)
        engine = _engine(server.url if server else _external_url(settings), pool_size, statement_seconds)
        stack.callback(engine.dispose)
        if check_tables:
            _check_tables(engine, server)
        # Not with replicas: one of them may be the primary by then.
        if server is not None and not settings.embedded_replicas:
            event.listen(engine, "do_connect", _Restarter(server, cluster_folder(settings.data)).connect)
        yield Database(engine=engine)


@contextlib.contextmanager
def open_replica(url: str, *, pool_size: int, statement_seconds: float) -> Iterator[Database]:
    """Open a streaming replica at `postgresql://…`, and close it at the end of the block.

    Its transactions are read-only, each with one snapshot. It need not be reachable yet.

    Raises DatabaseNotReadyError if the address is not valid.
    """
    engine = _engine(
        _server_url(url, "provider.replica_urls"),
        pool_size,
        statement_seconds,
        connect_seconds=_REPLICA_CONNECT_SECONDS,
        # For the engine and not in each session: SQLAlchemy sets a returned connection back to writing.
        transactions={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
    )
    try:
        yield Database(engine=engine)
    finally:
        engine.dispose()


def first_line(error: Exception) -> str:
    """Return the first line of a database error, as the server or the driver wrote it."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return str(original).partition("\n")[0]


def is_timeout(error: Exception) -> bool:
    """Return whether a statement was cancelled at the time limit of its connection."""
    return isinstance(error, DBAPIError) and isinstance(error.orig, QueryCanceled)


def is_about_a_value(error: BaseException) -> bool:
    """Return whether a statement failed because of its values (SQLSTATE classes 22 and 54).

    Such a statement fails again however often it is repeated.
    """
    original = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(original, psycopg.Error) and (original.sqlstate or "")[:2] in _OF_VALUES


def place(settings: Settings) -> str:
    """Return the database's location for display: the embedded one's folder, or the URL without password."""
    if settings.database_url is None:
        return str(cluster_folder(settings.data))
    url = _parsed(settings.database_url.get_secret_value(), "database_url")
    # Processes that this one starts have the address with the driver.
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def _embedded(settings: Settings, stack: contextlib.ExitStack, *, ask: bool) -> EmbeddedServer | None:
    """Return the running embedded server, which is released with the stack; None if another one is set."""
    if settings.database_url is not None:
        return None
    server = EmbeddedServer(settings.data, replicas=settings.embedded_replicas)
    stack.callback(server.release)
    server.acquire(ask=ask)
    return server


class _Restarter:
    """Starts an embedded server again whose process was killed, for example because memory ran out."""

    def __init__(self, server: EmbeddedServer, cluster: Path) -> None:
        self._server = server
        self._cluster = cluster
        self._lock = threading.Lock()
        self._was_killed = False
        self._earliest = 0.0

    def connect(self, dialect: Dialect, _record: object, words: Any, named: dict[str, Any]) -> Any:  # noqa: ANN401 SQLAlchemy's
        """Connect, after starting the server if necessary."""
        try:
            return dialect.connect(*words, **named)
        except ConnectionTimeout:
            raise  # it runs, but does not answer; waiting again would double the time
        except psycopg.OperationalError:
            with self._lock:
                if not self._ensure_running():
                    raise
            return dialect.connect(*words, **named)

    def _ensure_running(self) -> bool:
        """Start the server if it was killed; return whether it runs."""
        if keeper.postmaster_pid(self._cluster):
            return True
        # A server that a person stops removes the file with its process id.
        self._was_killed |= bool(keeper.postmaster_lines(self._cluster))
        if not self._was_killed or time.monotonic() < self._earliest:
            return False
        logger.warning("embedded PostgreSQL in %s was killed; starting it again", self._cluster)
        try:
            self._server.ask()
        except DatabaseNotReadyError as error:
            self._earliest = time.monotonic() + _RESTART_SECONDS
            logger.warning("%s", error)
            return False
        self._was_killed = False
        return True


def _external_url(settings: Settings) -> URL:
    address = required(settings.database_url, "there is no embedded server")
    return _server_url(address.get_secret_value(), "database_url")


def _check_tables(engine: Engine, server: EmbeddedServer | None) -> None:
    try:
        migrations.ensure_current(engine, may_upgrade=server is not None)
    except OperationalError:
        if server is None:
            raise
        server.ask()  # it recovers from a crash, or whoever started it was killed at once
        migrations.ensure_current(engine, may_upgrade=True)


def _parsed(address: str, setting: str) -> URL:
    found = _HOSTS.fullmatch(address)
    # SQLAlchemy takes ports of several hosts and folders of sockets (%2Frun%2Fpostgresql) only as arguments.
    if found is not None and re.search(",.*:|:.*,|%2f", found["hosts"], re.IGNORECASE):
        pairs = [host.partition(":") for host in found["hosts"].split(",")]
        hosts, ports = ",".join(pair[0] for pair in pairs), ",".join(pair[2] for pair in pairs)
        where = f"host={hosts}&port={ports}" if ports.strip(",") else f"host={hosts}"
        address = f"{found['before']}{found['path']}?{where}&{found['arguments'] or ''}"
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        raise DatabaseNotReadyError(
            f"{setting}: not a valid address; write it as postgresql://user:password@host:5432/name"
        ) from None
    # What follows an unescaped @ of the password seems to be the host, which messages show.
    if "@" in f"{url.host}{url.database}":
        raise DatabaseNotReadyError(f"{setting}: it has more than one @; write an @ of the password as %40")
    return url


def _server_url(address: str, setting: str) -> URL:
    url = _parsed(address, setting)
    if url.get_backend_name() != "postgresql":
        raise DatabaseNotReadyError(
            f"{setting}: {url.get_backend_name()!r} is not supported; use a postgresql:// address"
        )
    url = url.set(drivername=_DRIVER)
    _, arguments = url.get_dialect()().create_connect_args(url)
    try:
        make_conninfo(**arguments)
    except psycopg.ProgrammingError as error:
        raise DatabaseNotReadyError(f"{setting}: not a valid address: {error}".strip()) from None
    return url


def _engine(
    url: URL,
    pool_size: int,
    statement_seconds: float | None,
    *,
    connect_seconds: int = _CONNECT_SECONDS,
    transactions: Mapping[str, Any] | None = None,
) -> Engine:
    # Memory for temporary tables can be set only before their first use, so it is set for every connection.
    # For tables without statistics PostgreSQL estimates so many rows that it would JIT-compile short
    # statements.
    style = _DATE_STYLE.replace(" ", "\\ ")
    options = (
        f"{SERVER_OPTIONS} {SERVER_KEEPALIVES} -c timezone=UTC -c datestyle={style} -c temp_buffers=64MB"
        " -c jit=off"
    )
    if statement_seconds is not None:
        options += f" -c statement_timeout={int(statement_seconds * 1000)}"
    parameters = {
        "options": options,
        "application_name": "zatva",
        "client_encoding": "utf8",
        "connect_timeout": connect_seconds,
        **_CONNECTION,
    }
    if _early and pool_size == _POOL and transactions is None:
        return _early.pop().for_database(url, parameters)
    return _new_engine(url, pool_size, transactions or {}, parameters)


def _new_engine(
    url: URL, pool_size: int, transactions: Mapping[str, Any], parameters: Mapping[str, Any]
) -> Engine:
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_pre_ping=True,
        use_native_hstore=False,  # unused, and looked up in each process
        execution_options=transactions,
        connect_args=parameters,
    )
    event.listen(engine, "connect", _set_options)
    event.listen(engine, "checkin", _forget_access)
    event.listen(engine, "handle_error", _as_unavailable)
    return engine


def _as_unavailable(context: ExceptionContext) -> OperationalError | None:
    """Let a server that has become read-only, as at a failover, count as one that does not answer.

    The pool's connections are replaced, because the address may lead to another server by now. One that the
    server has closed because its process was suspended in a transaction counts so, too.
    """
    found = context.original_exception
    if not isinstance(found, ReadOnlySqlTransaction | IdleInTransactionSessionTimeout):
        return None
    context.is_disconnect = True
    return OperationalError(context.statement, context.parameters, found, connection_invalidated=True)


def _forget_access(connection: object, _record: object) -> None:
    """Let the server decide whether the next transaction of a connection may write.

    After a read-only one, SQLAlchemy would begin it as READ WRITE, which a standby refuses.
    """
    if isinstance(connection, psycopg.Connection) and connection.read_only is False:
        connection.read_only = None


def _set_options(connection: psycopg.Connection, _record: object) -> None:
    """Set the options of a connection to which a pooler did not pass them on."""
    # An early engine has no connection at first. The server reports the style, which costs no question.
    if not isinstance(connection, psycopg.Connection):
        return
    if connection.pgconn.parameter_status(b"DateStyle") == _DATE_STYLE.encode():
        return
    for name, value in _OPTION.findall(connection.pgconn.options.decode()):
        plain = value.replace("\\", "")
        # Not prepared: without sessions, another client may have prepared a statement of that name.
        connection.execute("SELECT set_config(%s, %s, false)", [name, plain], prepare=False)
    connection.commit()


_early: Final[list[EarlyEngine]] = []
"""At most one, for the first database that a process opens."""


def one_at_a_time(session: Session, what: str) -> None:
    """Wait until no other transaction that named the same work is open; for checks before an insert."""
    session.execute(_ONE_AT_A_TIME, {"what": what})


def compile_early(works: Iterable[Callable[[Session], object]]) -> None:
    """Compile what the works execute (see `EarlyEngine.compile`).

    It is for the first database that this process opens, and each process that is forked from it.
    """
    early = EarlyEngine(_new_engine(URL.create(_DRIVER), _POOL, {}, {}))
    early.compile(works)
    _early[:] = [early]


def make_statistics(engine: Engine, *tables: str) -> None:
    """Let PostgreSQL look at samples of those tables that have no statistics yet, or old ones.

    Each is looked at in a transaction of its own, over a connection of its own. It takes some tenths of a
    second, however large the table is. One that another is looking at, or owns, is left out.
    """
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for name in connection.scalars(_WANTING, {"tables": list(tables)}).all():
            connection.execute(text(f"ANALYZE (SKIP_LOCKED) {name}"))
