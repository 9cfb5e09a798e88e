"""The schema's versions: the database's revision, the required revision, and the upgrade.

The migrations are in `alembic/` of a checkout, and inside this package (`oai/alembic`) once installed.
Alembic is imported only when an upgrade is necessary, because the import would slow down every command.
"""

import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from oai.errors import DatabaseNotReadyError

if TYPE_CHECKING:
    from alembic.config import Config

PREVIOUS_SCHEMA: Final = "zatva_before_restore"
"""Of the tables that a restore replaces, until the restored ones have this version."""
_UPGRADE_LOCK = 0x7A_61_74_76_61  # "zatva": one upgrade at a time
_LOCK_MS: Final = 500
_PAUSE: Final = 0.5
_LOCK_SECONDS: Final = 600.0
_YIELDED: Final = frozenset({"55P03", "40P01"})
"""SQLSTATEs of a lock that was not granted in time, and of a deadlock."""
_IN_USE: Final = (
    "the tables are at revision %s; transactions of other programs kept the next migration from a table for "
    "%.0f s; end them (SELECT pid, query FROM pg_stat_activity WHERE state <> 'idle'), then run `zatva "
    "database upgrade` again"
)


def folder() -> Path:
    """Return the folder of the migrations."""
    installed = Path(__file__).parent / "alembic"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "alembic"


@cache
def head() -> str:
    """Return the revision that this version of Zatva works with: that of the newest migration."""
    return max(file.name.partition("_")[0] for file in (folder() / "versions").glob("[0-9]*_*.py"))


def current(connection: Connection) -> str | None:
    """Return the revision of the connected database, or None if it has no tables of Zatva yet."""
    # Not by SQLAlchemy's inspection, which takes longer than all else that opens a database.
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


def advice(found: str | None) -> str:
    """Return how this version compares with the database's revision, and what to do if they differ."""
    if found is not None and found > head():
        return f"newer than this version's {head()}; use a newer version of Zatva"
    return f"this version needs {head()}; run `zatva database upgrade`"


def unfinished_restore(connection: Connection) -> str | None:
    """Return what a restore that was killed has left and how to remove it, or None if there was none."""
    if connection.scalar(text("SELECT to_regnamespace(:name)"), {"name": PREVIOUS_SCHEMA}) is None:
        return None
    return (
        f"a restore did not end, and the tables from before it are in the schema {PREVIOUS_SCHEMA}; run "
        "`zatva database restore` again with --force, or, if the present tables are complete, run the "
        f"statement `DROP SCHEMA {PREVIOUS_SCHEMA} CASCADE`"
    )


def upgrade(engine: Engine, *, lock_seconds: float = _LOCK_SECONDS) -> tuple[str | None, str]:
    """Upgrade the tables to this version; return the revisions before and after. Concurrent upgrades wait.

    Programs that read the tables meanwhile wait for half a second at most: a migration that needs a table for
    itself gives way to running transactions, and is tried again. Raises DatabaseNotReadyError if they have
    kept it from the table for `lock_seconds` seconds; the migrations before it are complete then; also if
    the tables are newer than this version.
    """
    with engine.connect() as connection:
        # The lock belongs to the session, not to the transaction, so it survives the commits of the
        # migrations.
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _UPGRADE_LOCK})
        connection.commit()
        before = current(connection)
        try:
            if before is not None and before > head():
                raise DatabaseNotReadyError(f"the database is at revision {before}: {advice(before)}")
            if before is None and (left := unfinished_restore(connection)):
                raise DatabaseNotReadyError(left)
            if before is None:
                # One transaction: until it ends, other processes see no tables, and wait for the lock.
                _migrate(connection)
            elif before != head():
                _migrate_gently(connection, lock_seconds)
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _UPGRADE_LOCK})
            connection.commit()
    return before, head()


def _migrate(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 see the module's docstring

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.commit()


def _migrate_gently(connection: Connection, lock_seconds: float) -> None:
    """Migrate in a transaction for each migration, with short waits for tables that others use."""
    # Shorter than PostgreSQL's deadlock_timeout: in a deadlock the upgrade ends its wait, not the reader.
    connection.execute(text(f"SET lock_timeout = {_LOCK_MS}"))
    connection.commit()
    begun = time.monotonic()
    try:
        while True:
            try:
                return _migrate(connection)
            except OperationalError as error:
                connection.rollback()
                if getattr(error.orig, "sqlstate", None) not in _YIELDED:
                    raise
                found = current(connection)
                connection.commit()
                if time.monotonic() - begun > lock_seconds:
                    raise DatabaseNotReadyError(_IN_USE % (found, lock_seconds)) from None
            # Whoever waited behind the upgrade goes first.
            time.sleep(_PAUSE)
    finally:
        connection.rollback()
        connection.execute(text("RESET lock_timeout"))
        connection.commit()


def ensure_current(engine: Engine, *, may_upgrade: bool) -> None:
    """Check that the tables are of this version; upgrade if the database is empty or `may_upgrade` is set."""
    with engine.connect() as connection:
        found = current(connection)
    if found not in {None, head()} and not may_upgrade:
        raise DatabaseNotReadyError(f"the database is at revision {found}: {advice(found)}")
    if found != head():
        upgrade(engine)


def _config() -> "Config":
    from alembic.config import Config  # noqa: PLC0415 see the module's docstring

    config = Config()
    config.set_main_option("script_location", str(folder()).replace("%", "%%"))
    return config
