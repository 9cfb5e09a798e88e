"""`zatva database`: the tables' version, and whether they are intact."""

from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, text

from oai import migrations
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode
from oai.models import Base
from oai.pooler import require_sessions
from provider.holdings.url_key_state import FILL_KEYS, FINISHED

_INVALID_INDEXES = text("""
    SELECT indexrelid::regclass::text FROM pg_index
    WHERE NOT indisvalid AND NOT EXISTS (
        SELECT FROM pg_stat_progress_create_index AS being_built WHERE being_built.index_relid = indexrelid
    )
    ORDER BY 1
""")
_UNCHECKED = text(
    "SELECT conrelid::regclass || '.' || conname FROM pg_constraint WHERE NOT convalidated ORDER BY 1"
)
_SWITCHED_OFF = text(
    "SELECT tgrelid::regclass::text, tgname FROM pg_trigger"
    " WHERE tgenabled = 'D' AND NOT tgisinternal ORDER BY 1, 2"
)
_READ_ONLY = text("SELECT current_setting('transaction_read_only')::boolean AND NOT pg_is_in_recovery()")
_WITHHELD = text("""
    SELECT c.oid::regclass::text, quote_ident(current_user) FROM pg_class AS c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
        AND (c.relname = ANY(:names) OR starts_with(c.relname, 'procrastinate_'))
        AND EXISTS (
            SELECT FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS needed
            WHERE NOT has_table_privilege(c.oid, needed)
        )
    ORDER BY 1
""")
_HAS_FIRST_LOAD = text("SELECT to_regclass('first_load') IS NOT NULL")
_FIRST_LOAD = text("SELECT index_name FROM first_load")
_INTERRUPTED = (
    "a first load was interrupted: run `zatva provider index --first-load` again until it is complete"
)
_HAS_KEY_STATE = text("SELECT to_regclass('url_key_fill') IS NOT NULL")


def upgrade(invocation: Invocation) -> ExitCode:
    """Upgrade the tables to this version, and check that they are complete."""
    with open_database(invocation.settings, check_tables=False) as database:
        before, after = migrations.upgrade(database.engine)
        with database.engine.connect() as connection:
            faults = _missing(connection)
    text = f"at {after}, unchanged" if before == after else f"from {before or 'no tables'} to {after}"
    invocation.console.result(
        {"before": before, "after": after, "faults": faults}, "\n".join([f"database: {text}", *faults])
    )
    return ExitCode.NOT_READY if faults else ExitCode.DONE


def current(invocation: Invocation) -> ExitCode:
    """Show the version of the tables, and the version that this program needs."""
    with (
        open_database(invocation.settings, check_tables=False) as database,
        database.engine.connect() as connection,
    ):
        found = migrations.current(connection)
        unversioned = migrations.unversioned(connection, found)
    state = found or unversioned or "no tables"
    invocation.console.result(
        {"current": found, "needed": migrations.head(), "faults": [unversioned] if unversioned else []},
        f"database: {state}; this version needs {migrations.head()}",
    )
    return ExitCode.DONE if found == migrations.head() else ExitCode.NOT_READY


def check(invocation: Invocation) -> ExitCode:
    """Check whether the tables have this version, are complete, usable, and have no incomplete changes.

    Shows the database's address, without its password.
    """
    with (
        open_database(invocation.settings, check_tables=False) as database,
        database.engine.connect() as connection,
    ):
        require_sessions(connection)
        found = migrations.current(connection)
        faults = []
        if found != migrations.head():
            unversioned = migrations.unversioned(connection, found)
            faults.append(unversioned or f"{found or 'no tables'}: {migrations.advice(found)}")
        faults += filter(None, [migrations.unfinished_restore(connection)])
        faults += _missing(connection) if found == migrations.head() else []
        faults += unusable_parts(connection)
        if _first_load(connection):
            faults.append(_INTERRUPTED)
        if lacks_keys(connection):
            faults.append(f"documents lack URL keys: {FILL_KEYS}")
        address = make_conninfo(**{**database.parameters, "password": None, "sslpassword": None})
    invocation.console.result(
        {"current": found, "needed": migrations.head(), "faults": faults, "address": address},
        "\n".join(faults) or f"database: ok, at {found}; address for psql: {address}",
    )
    return ExitCode.NOT_READY if faults else ExitCode.DONE


def _missing(connection: Connection) -> list[str]:
    return [
        f"{name} is missing: restore a backup with `zatva database restore`"
        for name in missing_parts(connection)
    ]


def missing_parts(connection: Connection) -> list[str]:
    """Return what the tables lack, without the indexes that a first load or `reindex-keys` builds later."""
    later = {f"index {name} of document" for name in _first_load(connection)}
    if lacks_keys(connection):
        later.add("index ix_document_url_key of document")
    return [part for part in migrations.missing(connection) if part not in later]


def lacks_keys(connection: Connection) -> bool:
    """Return whether documents of an earlier version lack their URL keys and the index of these."""
    return bool(connection.scalar(_HAS_KEY_STATE)) and not connection.scalar(text(FINISHED))


def _first_load(connection: Connection) -> list[str]:
    """Return the indexes that an interrupted first load has not built yet."""
    return list(connection.scalars(_FIRST_LOAD)) if connection.scalar(_HAS_FIRST_LOAD) else []


def unusable_parts(connection: Connection) -> list[str]:
    """Return what keeps Zatva from using the tables as they are: what was found, a colon, what to do.

    A standby is read-only by nature, so that it is no fault of its tables. Tables are checked for rights once
    `missing_parts` has imported the models.
    """
    faults = []
    if connection.scalar(_READ_ONLY):
        faults.append(
            "transactions are read-only: set default_transaction_read_only to off where it is on (ALTER "
            "DATABASE, ALTER ROLE, or postgresql.conf)"
        )
    faults += [
        f"table {table} cannot be read and written by {role}: run `ALTER TABLE {table} OWNER TO {role}`"
        for table, role in connection.execute(_WITHHELD, {"names": list(Base.metadata.tables)})
    ]
    faults += [
        f"index {name} is not valid: run `REINDEX INDEX {name}`"
        for name in connection.scalars(_INVALID_INDEXES)
    ]
    faults += [
        f"constraint {name} is not validated: validate it with `ALTER TABLE … VALIDATE CONSTRAINT`"
        for name in connection.scalars(_UNCHECKED)
    ]
    faults += [
        f"trigger {name} of {table} is disabled: run `ALTER TABLE {table} ENABLE TRIGGER {name}`"
        for table, name in connection.execute(_SWITCHED_OFF)
    ]
    return faults
