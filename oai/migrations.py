"""The schema's versions: the database's revision, the required revision, and the upgrade.

The migrations are in `alembic/` of a checkout, and inside this package (`oai/alembic`) once installed.
Alembic is imported only when an upgrade is necessary, because the import would slow down every command.
"""

import logging
import os
import re
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from oai.console import first_of
from oai.errors import DatabaseNotReadyError
from oai.pooler import require_sessions

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.runtime.migration import MigrationInfo

_log = logging.getLogger(__name__)

PREVIOUS_SCHEMA: Final = "zatva_before_restore"
"""Of the tables that a restore replaces, until the restored ones have this version."""
_UPGRADE_LOCK = 0x7A_61_74_76_61  # "zatva": one upgrade at a time
_LOCK_MS: Final = 500
_PAUSE: Final = 0.5
_LOCK_SECONDS: Final = 600.0
_YIELDED: Final = frozenset({"55P03", "40P01"})
"""SQLSTATEs of a lock that was not granted in time, and of a deadlock."""
_UNDEFINED: Final = frozenset({"42P01", "42703", "42704", "42883"})
"""SQLSTATEs of a table, column, other object or function that does not exist."""
_IN_USE: Final = (
    "the tables are at revision %s; transactions of other programs kept the next migration from a table for "
    "%.0f s; end them (SELECT pid, query FROM pg_stat_activity WHERE state <> 'idle'), then run `zatva "
    "database upgrade` again"
)
_INCOMPLETE: Final = (
    "the tables are at revision %s and lack a part that the next migration needs: %s; restore a backup with "
    "`zatva database restore`"
)

_PLACE: Final = text(
    "SELECT current_schema() AS schema, current_setting('server_encoding') AS encoding,"
    " to_regclass('public.alembic_version') IS NOT NULL AS has_tables"
)
_HAS_TABLES: Final = text("SELECT FROM pg_tables WHERE schemaname = :schema AND tablename = 'oai_repository'")
_SEARCHED: Final = text("""
    SELECT current_setting('search_path') AS path, to_regnamespace('public') IS NOT NULL AS has_public,
        quote_ident(current_user) AS role, ARRAY(SELECT CAST(nspname AS text) FROM pg_namespace) AS schemas
""")
_IN_PATH: Final = re.compile(r'"((?:[^"]|"")*)"|([^\s,"]+)')
_SET_PATH: Final = (
    "run `ALTER ROLE … IN DATABASE … SET search_path = public` with the role and database of database_url"
)

_OUR_TABLE: Final = "oai_repository"
_OUR_REVISION: Final = re.compile(r"\d{4}")
# Sequences of columns belong to their tables, and an administrator may have installed extensions beforehand.
_RELATIONS: Final = text("""
    SELECT relname FROM pg_class AS c
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid
            AND deptype IN ('e', 'a', 'i')
    )
    ORDER BY relname
""")
TRIGGERS: Final = frozenset(
    {
        "trigger check_repository of oai_record",
        "trigger forget_records of oai_repository",
        "trigger forget_sets of oai_record",
        "trigger note_whether_listed of collection",
        "trigger note_whether_listed of domain",
        "trigger note_whether_listed of mimetype",
        "trigger stay_in_repository of oai_record",
    }
)
"""Triggers of the migrations, which no model describes."""
_IN_QUEUE: Final = re.compile(r"^CREATE (TABLE|FUNCTION) (\w+)", re.MULTILINE)
_ON_QUEUE: Final = re.compile(r"^CREATE TRIGGER (\w+)\s[^;]*? ON (\w+)", re.MULTILINE)
_PRESENT: Final = text("""
    SELECT 'table ' || relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
    UNION ALL
    SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'trigger ' || tgname || ' of ' || relname FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid
    WHERE relnamespace = 'public'::regnamespace AND NOT tgisinternal
""")


def folder() -> Path:
    """Return the folder of the migrations."""
    installed = Path(__file__).parent / "alembic"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "alembic"


@cache
def head() -> str:
    """Return the revision that this version of Zatva works with: that of the newest migration.

    A process keeps the one that it began with, although an upgrade may add files meanwhile.
    """
    return max(file.name.partition("_")[0] for file in (folder() / "versions").glob("[0-9]*_*.py"))


def current(connection: Connection) -> str | None:
    """Return the revision of the connected database, or None if it has no tables of Zatva yet.

    A revision of another program that uses Alembic counts as none.

    Raises DatabaseNotReadyError if the database's encoding is not UTF8, or its schema `public`, the only one
    that backups contain, is not the one in which tables are created.
    """
    # Not by SQLAlchemy's inspection, which takes longer than all else that opens a database.
    found = connection.execute(_PLACE).one()
    if found.encoding != "UTF8":
        raise DatabaseNotReadyError(
            f"the database has the encoding {found.encoding}; create it with ENCODING 'UTF8' and "
            "TEMPLATE template0"
        )
    if found.schema != "public":
        raise DatabaseNotReadyError(_elsewhere(connection, found.schema))
    if not found.has_tables:
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision if revision and _OUR_REVISION.fullmatch(revision) else None


def _elsewhere(connection: Connection, schema: str | None) -> str:
    """Return what to do about a role whose tables are not created in the schema `public`."""
    if schema is None:
        return _without_schema(connection)
    if connection.execute(_HAS_TABLES, {"schema": schema}).rowcount:
        return (
            f"the tables are in the schema {schema}, but Zatva and its backups use only public; stop Zatva, "
            f'and run `DROP SCHEMA public; ALTER SCHEMA "{schema}" RENAME TO public` in one transaction as '
            "the owner of the database (move what others have in public first)"
        )
    return (
        f"tables would be created in the schema {schema}, but Zatva and its backups use only public; "
        f"{_SET_PATH}"
    )


def _without_schema(connection: Connection) -> str:
    """Return what to do about a search_path without a schema that the role can use.

    It does not name `public`, unless there is none: `current` fails earlier if the role may not use that.
    """
    found = connection.execute(_SEARCHED).one()
    if not found.has_public:
        return "the database has no schema public; run `CREATE SCHEMA public` as the owner of the database"
    parts = _IN_PATH.findall(found.path)
    names = [plain.lower() or quoted.replace('""', '"') for quoted, plain in parts]
    missing = [name for name in names if name not in {*found.schemas, "$user"}]
    why = (
        f"there is no schema {', '.join(missing)}" if missing else f"{found.role} can use none of its schemas"
    )
    return f"search_path is {found.path} but {why if any(names) else 'it names no schema'}; {_SET_PATH}"


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
        f"a restore did not end, and the tables from before it are in the schema {PREVIOUS_SCHEMA}; to keep "
        f"the present tables, if they are complete, run the statement `DROP SCHEMA {PREVIOUS_SCHEMA} "
        "CASCADE`; to put back those from before, stop Zatva, and run `DROP SCHEMA public CASCADE; ALTER "
        f"SCHEMA {PREVIOUS_SCHEMA} RENAME TO public` in one transaction; then repeat the restore if necessary"
    )


def occupants(connection: Connection) -> str | None:
    """Return in words which tables, views and sequences the schema `public` has, or None if it has none."""
    return _in_words(connection.scalars(_RELATIONS).all())


def _in_words(names: Sequence[str]) -> str | None:
    whose = "Zatva" if _OUR_TABLE in names else "another program"
    return f"tables, views or sequences of {whose} ({first_of(names)})" if names else None


def unversioned(connection: Connection, found: str | None) -> str | None:
    """Return what to do about tables of which `current` found no revision, or None if there are no tables."""
    names = [] if found else connection.scalars(_RELATIONS).all()
    if not names:
        return None
    if _OUR_TABLE not in names:
        return (
            f"the schema public has {_in_words(names)}, and none of Zatva: create a database for Zatva alone "
            "(CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0), and set database_url to it"
        )
    table = "CREATE TABLE IF NOT EXISTS alembic_version (version_num varchar(32) PRIMARY KEY)"
    row = f"INSERT INTO alembic_version VALUES ('{head()}')"  # noqa: S608 for people
    return (
        "the tables have no version, because alembic_version is empty or missing: restore a backup with "
        f"`zatva database restore --force`; or, if this version of Zatva has used the tables, run `{table}; "
        f"{row}`, then `zatva database check`"
    )


def missing(connection: Connection) -> list[str]:
    """Return what tables of this version have and these lack, and columns of another type.

    These are tables, columns with NOT NULL and type, indexes, unique and foreign keys, triggers, and the
    tables and functions of the task queue. Others may add tables and indexes. Imports all models.
    """
    from alembic import command  # noqa: PLC0415 see the module's docstring
    from alembic.util import AutogenerateDiffsDetected  # noqa: PLC0415

    found: list[str] = []
    try:
        with open(os.devnull, "w", encoding="ascii") as silent:  # noqa: PTH123 no file
            command.check(_config(connection, stdout=silent))
    except AutogenerateDiffsDetected as differing:
        # Those of an existing column are in a list of their own, which Alembic's type omits.
        diffs: list[Any] = list(differing.diffs)
        for diff in diffs:
            changes = diff if isinstance(diff, list) else [diff]
            found += filter(None, (_lacking(connection, *change) for change in changes))
    return found + sorted((TRIGGERS | _parts_of_queue()) - set(connection.scalars(_PRESENT)))


def _lacking(connection: Connection, change: str, *parts: Any) -> str | None:  # noqa: ANN401 of several types
    """Return what Alembic's change would add, or None if it would remove or relax something."""
    if change.startswith("add_"):
        kind = change.removeprefix("add_").replace("fk", "constraint")
        added = parts[-1]
        return f"{kind} {added.name}" if kind == "table" else f"{kind} {added.name} of {added.table.name}"
    if change == "modify_type":
        return f"type {parts[-1].compile(connection.dialect)} of {parts[1]}.{parts[2]}"
    if change == "modify_nullable" and not parts[-1]:
        return f"NOT NULL of {parts[1]}.{parts[2]}"
    return None


def _parts_of_queue() -> set[str]:
    """Return the tables, functions and triggers of the task queue, as its package creates them."""
    from procrastinate.schema import SchemaManager  # noqa: PLC0415 as Alembic

    schema = SchemaManager.get_schema()
    parts = {f"{kind.lower()} {name}" for kind, name in _IN_QUEUE.findall(schema)}
    return parts | {f"trigger {name} of {table}" for name, table in _ON_QUEUE.findall(schema)}


def upgrade(engine: Engine, *, lock_seconds: float = _LOCK_SECONDS) -> tuple[str | None, str]:
    """Upgrade the tables to this version; return the revisions before and after. Concurrent upgrades wait.

    Programs that read the tables meanwhile wait for half a second at most: a migration that needs a table for
    itself gives way to running transactions, and is tried again. Raises DatabaseNotReadyError if they have
    kept it from the table for `lock_seconds` seconds, or if it needs a part that the tables lack; the
    migrations before it are complete then; also if the tables are newer than this version, or a pooler is
    not in session mode.
    """
    with engine.connect() as connection:
        require_sessions(connection)
        # A time limit of the role or database would end the same migration each time.
        connection.execute(text("SET statement_timeout = 0"))
        # The lock belongs to the session, not to the transaction, so it survives the commits of the
        # migrations.
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _UPGRADE_LOCK})
        connection.commit()
        before = current(connection)
        try:
            refuse_newer_tables(connection)
            if before is None and (left := unfinished_restore(connection) or unversioned(connection, before)):
                raise DatabaseNotReadyError(left)
            if before is None:
                # One transaction: until it ends, other processes see no tables, and wait for the lock.
                _migrate(connection)
            elif before != head():
                _log.warning("upgrading the tables from %s to %s; large ones take minutes", before, head())
                _migrate_gently(connection, lock_seconds)
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _UPGRADE_LOCK})
            connection.execute(text("RESET statement_timeout"))
            connection.commit()
    return before, head()


def _migrate(connection: Connection, **options: Any) -> None:  # noqa: ANN401 Alembic's
    from alembic import command  # noqa: PLC0415 see the module's docstring

    command.upgrade(_config(connection, **options), "head")
    connection.commit()


def _log_step(*, step: "MigrationInfo", **_: object) -> None:
    _log.info("tables upgraded from %s to %s", ", ".join(step.source_revision_ids), step.up_revision_id)


def _migrate_gently(connection: Connection, lock_seconds: float) -> None:
    """Migrate in a transaction for each migration, with short waits for tables that others use."""
    # Shorter than PostgreSQL's deadlock_timeout: in a deadlock the upgrade ends its wait, not the reader.
    connection.execute(text(f"SET lock_timeout = {_LOCK_MS}"))
    connection.commit()
    begun = time.monotonic()
    try:
        while True:
            try:
                return _migrate(connection, attributes={"applied": _log_step})
            except DBAPIError as error:
                connection.rollback()
                state = getattr(error.orig, "sqlstate", None)
                if state not in _YIELDED | _UNDEFINED:
                    raise
                found = current(connection)
                connection.commit()
                if state in _UNDEFINED:
                    lacking = str(error.orig).partition("\n")[0]
                    raise DatabaseNotReadyError(_INCOMPLETE % (found, lacking)) from error
                if time.monotonic() - begun > lock_seconds:
                    raise DatabaseNotReadyError(_IN_USE % (found, lock_seconds)) from None
            # Whoever waited behind the upgrade goes first.
            time.sleep(_PAUSE)
    finally:
        connection.rollback()
        connection.execute(text("RESET lock_timeout"))
        connection.commit()


def refuse_newer_tables(connection: Connection) -> None:
    """Raise DatabaseNotReadyError if a newer version has upgraded the tables."""
    found = current(connection)
    if found is not None and found > head():
        raise DatabaseNotReadyError(f"the database is at revision {found}: {advice(found)}")


def ensure_current(engine: Engine, *, may_upgrade: bool) -> None:
    """Check that the tables are of this version; upgrade if the database is empty or `may_upgrade` is set."""
    with engine.connect() as connection:
        require_sessions(connection)
        found = current(connection)
    if found not in {None, head()} and not may_upgrade:
        raise DatabaseNotReadyError(f"the database is at revision {found}: {advice(found)}")
    if found != head():
        upgrade(engine)


def _config(connection: Connection, **options: Any) -> "Config":  # noqa: ANN401 Alembic's
    from alembic.config import Config  # noqa: PLC0415 see the module's docstring

    config = Config(**options)
    config.set_main_option("script_location", str(folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
