"""Translates external failures of commands (disk, permissions, database) into ZatvaErrors with advice.

PostgreSQL identifies errors by SQLSTATE (PostgreSQL documentation, appendix A, "Error Codes").
"""

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError

from oai.database import is_about_a_value, place
from oai.errors import DatabaseNotReadyError, TryLaterError, ZatvaError, failure_of
from oai.failures import Failure, FailureCode
from oai.pooler import NO_SESSIONS
from oai.settings import Settings

_AGAIN: Final = "then run the command again"
_GONE: Final = f"check that the server is running and reachable (its log has details), {_AGAIN}"
_REFUSED: Final = (
    "check that the server is running and reachable, and user, password and database in database_url (the "
    f"server's log has details), {_AGAIN}"
)
_NO_TLS: Final = (
    f"check the server's certificate, and sslmode, sslrootcert, sslcert and sslkey in database_url, {_AGAIN}"
)
_OF_TLS: Final = re.compile("SSL|sslmode|certificate|private key")
"""In libpq's messages about TLS, which have no code."""
_ALL_IN_USE: Final = re.compile(
    "too many (?:clients already|connections for (?:role|database))|remaining connection slots are reserved"
)
"""The server's messages to an attempt to connect, which has no SQLSTATE in psycopg."""
_ALL_CONNECTIONS: Final = (
    "all connections are in use: end processes that are not needed, or raise max_connections or the limit of "
    f"the role or database, {_AGAIN}"
)
_POOL_IS_FULL: Final = "query_wait_timeout"
"""The message of PgBouncer, in one language, for a SQLSTATE that it shares with other faults."""
_POOL: Final = (
    "all connections of the pooler are in use; raise default_pool_size (and max_db_connections) of "
    f"PgBouncer, or end processes that are not needed, {_AGAIN}"
)
_STATEMENT_MODE: Final = "transaction blocks not allowed in statement pooling mode"
"""Likewise."""
_POOLER: Final = f"{NO_SESSIONS}, {_AGAIN}"
_BUSY: Final = "run the command again in a moment"
_REMEDIES: Final[Mapping[str, tuple[type[ZatvaError], str]]] = {
    "08": (DatabaseNotReadyError, _GONE),
    # Names are checked before they are used; another command used this one in between.
    "23505": (TryLaterError, _BUSY),
    "25006": (
        DatabaseNotReadyError,
        f"the server is read-only; set database_url to the primary server, {_AGAIN}",
    ),
    "25P03": (
        DatabaseNotReadyError,
        f"raise idle_in_transaction_session_timeout for the role, {_AGAIN}",
    ),
    "25P04": (DatabaseNotReadyError, f"raise transaction_timeout for the role, {_AGAIN}"),
    # A prepared statement that the connection has not, or has not prepared itself.
    "26": (DatabaseNotReadyError, _POOLER),
    "42P05": (DatabaseNotReadyError, _POOLER),
    "28": (DatabaseNotReadyError, f"set user and password in database_url, {_AGAIN}"),
    "40": (TryLaterError, _BUSY),
    "42501": (DatabaseNotReadyError, f"grant the privilege to the user in database_url, {_AGAIN}"),
    "53": (DatabaseNotReadyError, f"give the server the resource that it lacks, {_AGAIN}"),
    "53100": (DatabaseNotReadyError, f"free space on the database's disk, {_AGAIN}"),
    "53300": (TryLaterError, _ALL_CONNECTIONS),
    "55P03": (TryLaterError, _BUSY),
    "57014": (TryLaterError, f"{_BUSY}; if it fails again, raise the role's statement_timeout"),
    "57P05": (DatabaseNotReadyError, f"raise idle_session_timeout for the role, {_AGAIN}"),
    "57P": (DatabaseNotReadyError, _GONE),
    "58": (DatabaseNotReadyError, f"check the server's disk and its log, {_AGAIN}"),
    "XX": (DatabaseNotReadyError, f"check the server's disk and its log, {_AGAIN}"),
}
"""Kind of error and advice, by a prefix of the SQLSTATE; the longest prefix applies."""
_OURS: Final = (
    ZatvaError,
    "internal error; run the command again with --verbose and report the output",
)
_OF_DATABASE: Final = Failure(code=FailureCode.DATABASE)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_ELSEWHERE: Final = f"or give another path, {_AGAIN}"
_REMOUNT: Final = "check the network drive and its server, mount it again if necessary"
_PLACES: Final[Mapping[int, str]] = {
    errno.EACCES: f"grant access to the user who runs this command, {_ELSEWHERE}",
    errno.EPERM: f"grant access to the user who runs this command, {_ELSEWHERE}",
    errno.EROFS: f"make the file system writable, {_ELSEWHERE}",
    errno.ENOTDIR: f"part of this path is a file, not a folder; move it, {_ELSEWHERE}",
    errno.EISDIR: f"this is a folder, not a file; move it, {_ELSEWHERE}",
    errno.EEXIST: f"the name is already taken; move the existing file, {_ELSEWHERE}",
    errno.ENAMETOOLONG: f"give a shorter path, {_AGAIN}",
    errno.ELOOP: f"its symbolic links form a loop; correct them, {_ELSEWHERE}",
    errno.EIO: f"check the disk and the system log, {_AGAIN}",
    errno.ESTALE: f"{_REMOUNT}, {_AGAIN}",
    errno.ENOTCONN: f"{_REMOUNT}, {_AGAIN}",
}
"""Advice for a path that cannot be used, by the system's error number."""


def as_zatva_error(error: BaseException, settings: Settings | None = None) -> ZatvaError | None:
    """Return the error as a ZatvaError: what was found, where, and what to do. None for an internal error.

    Database errors contain the server's message, but neither SQL nor values. Without settings, locations
    are omitted, for pages that other users read.
    """
    for cause in _causes(error):
        if isinstance(cause, ZatvaError):
            return cause
        if isinstance(cause, psycopg.Error):
            kind, advice = _remedy(cause, settings)
            message = cause.diag.message_primary or str(cause).strip().partition("\n")[0]
            where = f"database {place(settings)}" if settings else "database"
            found = kind(f"{where}: {message}; {advice}")
            found.failure = _failure(cause)
            return found
        if isinstance(cause, OSError) and (words := _path_advice(cause, settings)):
            found = ZatvaError(words)
            full = cause.errno in _FULL
            found.failure = Failure(code=FailureCode.DISK_FULL if full else FailureCode.PLACE_UNUSABLE)
            return found
    return None


def _failure(error: psycopg.Error) -> Failure:
    if isinstance(error, psycopg.errors.DiskFull):
        return Failure(code=FailureCode.DISK_FULL)
    return failure_of(error) if is_about_a_value(error) else _OF_DATABASE


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes; for an exception group, those of each member."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _causes(one)
        return
    yield error
    # An exception from another process has lost its cause.
    following = error.orig if isinstance(error, DBAPIError) else error.__cause__
    if following is not None:
        yield from _causes(following)


def _remedy(error: psycopg.Error, settings: Settings | None) -> tuple[type[ZatvaError], str]:
    if _ALL_IN_USE.search(str(error)):
        return TryLaterError, _ALL_CONNECTIONS
    if _POOL_IS_FULL in str(error):
        return DatabaseNotReadyError, _POOL
    if _STATEMENT_MODE in str(error):
        return DatabaseNotReadyError, _POOLER
    state = error.sqlstate
    if state is None:
        if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
            return _OURS
        # An attempt to connect has no SQLSTATE, whatever the server has answered.
        embedded = settings is not None and settings.database_url is None
        refused = error.pgconn is not None and not embedded
        advice = _NO_TLS if _OF_TLS.search(str(error)) else _REFUSED
        return DatabaseNotReadyError, advice if refused else _GONE
    beginnings = (state[:length] for length in range(len(state), 0, -1))
    return next((_REMEDIES[begins] for begins in beginnings if begins in _REMEDIES), _OURS)


def _path_advice(error: OSError, settings: Settings | None) -> str | None:
    """Return what is wrong with a path and what to do; None if the error does not concern a path."""
    if error.errno in _FULL:
        advice = f"free some space or inodes (`df -i`) there, {_AGAIN}"
    # Without a file name, it may be a process or a socket that was refused.
    elif error.errno is not None and error.errno in _PLACES and error.filename is not None:
        advice = _PLACES[error.errno]
    else:
        return _missing_folder(error)
    return f"{_file(error, settings)}: {error.strerror}; {advice}"


def _missing_folder(error: OSError) -> str | None:
    """Return what to do if the system names no path because a folder that each program needs is missing."""
    if not isinstance(error, FileNotFoundError) or error.filename is not None:
        return None
    try:
        Path.cwd()
    except FileNotFoundError:
        return f"the current folder no longer exists; change to another one, {_AGAIN}"
    if _temporary_folder() is None:
        return f"no folder for temporary files is writable or has space; set TMPDIR to another, {_AGAIN}"
    return None


def _temporary_folder() -> str | None:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return None


def _file(error: OSError, settings: Settings | None) -> str:
    # The second name is that of a copy or link, on whose disk these errors occur.
    target = error.filename2 if error.errno in _FULL | {errno.EROFS} else None
    if name := target or error.filename:
        return os.fsdecode(name) if isinstance(name, bytes) else str(name)
    if settings is None:
        return "a file"
    places = ", in ".join(map(str, filter(None, (settings.data, _temporary_folder()))))
    return f"a file in {places}, or at a path given on the command line"
