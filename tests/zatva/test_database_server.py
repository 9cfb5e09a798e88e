"""A PostgreSQL server of an institution: its passwords, schemas, rights and encodings."""

import asyncio
import contextlib
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr
from sqlalchemy import URL, make_url

from oai.database import open_database
from oai.embedded import EmbeddedServer, cluster_folder
from oai.errors import required
from oai.settings import Settings
from tests import commands
from tests.certificates import make_certificate, server_context
from tests.zatva.test_database_commands import add_collection, collections, zatva

PASSWORDS = ["s3cret", "100% c@t:/?#&=", "a b 'c' \\\\ \"d\" ", "%20+%2f", "žluťoučký"]
_SSL_REQUEST = bytes.fromhex("0000000804d2162f")
_GUARD = "local all +guarded scram-sha-256\nlocal all all trust\n"


@pytest.fixture(scope="module")
def guarded_server(quick_folder: Path) -> Iterator[URL]:
    """A server that lets members of the role `guarded` in by their passwords alone."""
    data = quick_folder / "guarded"
    server = EmbeddedServer(data)
    server.acquire()
    (cluster_folder(data) / "pg_hba.conf").write_text(_GUARD, encoding="ascii")
    with psycopg.connect(as_administrator(server.url), autocommit=True) as connection:
        connection.execute("CREATE ROLE guarded")
        connection.execute("SELECT pg_reload_conf()")
    yield server.url
    server.release()
    shutil.rmtree(cluster_folder(data))


def as_administrator(server: URL) -> str:
    return server.set(drivername="postgresql").render_as_string()


@pytest.fixture
def password() -> str:
    return PASSWORDS[0]


@pytest.fixture
def guarded(guarded_server: URL, password: str, tmp_path: Path) -> Iterator[Settings]:
    """Settings with the address of a separate database whose owner has a password."""
    with psycopg.connect(as_administrator(guarded_server), autocommit=True) as connection:
        literal = sql.Literal(password)
        connection.execute(sql.SQL("CREATE ROLE librarian LOGIN IN ROLE guarded PASSWORD {}").format(literal))
        connection.execute("CREATE DATABASE guarded OWNER librarian")
        url = guarded_server.set(username="librarian", password=password, database="guarded")
        shown = url.render_as_string(hide_password=False)
        yield Settings(data=tmp_path / "data", database_url=SecretStr(shown))
        connection.execute("DROP DATABASE guarded WITH (FORCE)")
        connection.execute("DROP ROLE librarian")


def for_processes(settings: Settings) -> dict[str, str]:
    assert settings.database_url is not None
    address = settings.database_url.get_secret_value()
    return {**os.environ, "ZATVA_DATABASE_URL": address, "ZATVA_DATA": str(settings.data)}


@pytest.mark.parametrize("password", ["".join(PASSWORDS)])
def test_backup_and_restore_do_not_pass_the_password_as_an_argument(
    guarded: Settings, tmp_path: Path
) -> None:
    environment, file = for_processes(guarded), tmp_path / "zatva.dump"
    with open_database(guarded) as database, ThreadPoolExecutor(1) as beside:
        add_collection(database, "collection:a")
        with psycopg.connect(database.conninfo) as connection:
            connection.execute("LOCK TABLE collection")
            backup = beside.submit(zatva, environment, "backup", file)
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            while connection.execute(waiting).fetchone() == (0,):
                assert not backup.done(), backup.result()
                time.sleep(0.01)
            dumping = [line for line in command_lines() if b"pg_dump" in line]
        done = backup.result()
        assert (len(dumping), done.returncode, done.stderr) == (1, 0, "")
        assert b"librarian" in dumping[0]
        assert PASSWORDS[0].encode() not in dumping[0]
        add_collection(database, "collection:b")
        restored = zatva(environment, "restore", file, "--force")
        assert (restored.returncode, restored.stderr, collections(database)) == (0, "", 1)


def test_tables_are_refused_outside_the_schema_that_backups_contain(
    guarded: Settings, tmp_path: Path
) -> None:
    environment, file = for_processes(guarded), tmp_path / "zatva.dump"
    with open_database(guarded) as database:
        with psycopg.connect(database.conninfo) as connection:
            connection.execute("ALTER SCHEMA public RENAME TO librarian; CREATE SCHEMA public")
        refused = zatva(environment, "backup", file)
        assert (refused.returncode, file.exists()) == (6, False)
        remedy = 'DROP SCHEMA public; ALTER SCHEMA "librarian" RENAME TO public'
        assert f"run `{remedy}`" in refused.stderr
        assert remedy in commands.zatva(environment, "doctor").stdout
        with psycopg.connect(database.conninfo) as connection:
            connection.execute(remedy.encode())
        database.engine.dispose()
        assert zatva(environment, "backup", file).returncode == 0
        with psycopg.connect(database.conninfo) as connection:
            connection.execute("CREATE SCHEMA librarian")
        assert "SET search_path = public" in zatva(environment, "upgrade").stderr


def test_a_search_path_without_a_usable_schema_is_explained(guarded_server: URL, guarded: Settings) -> None:
    environment = for_processes(guarded)
    owner = as_administrator(guarded_server.set(database="guarded"))
    in_path = "run `ALTER ROLE … IN DATABASE … SET search_path = public`"
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA kept")
        for change, explained in (
            ('SET search_path = Archiv, "Zo Zo"', f'"Zo Zo" but there is no schema archiv, Zo Zo; {in_path}'),
            ("SET search_path = kept", f"kept but librarian can use none of its schemas; {in_path}"),
            ("SET search_path = ''", f'"" but it names no schema; {in_path}'),
        ):
            connection.execute(f"ALTER ROLE librarian IN DATABASE guarded {change}".encode())
            done = zatva(environment, "upgrade")
            assert (done.returncode, explained in done.stderr) == (6, True), done
            assert "no schema public" not in done.stderr
        connection.execute("ALTER ROLE librarian IN DATABASE guarded RESET search_path")
        connection.execute("DROP SCHEMA public CASCADE")
        assert "the database has no schema public" in commands.zatva(environment, "doctor").stdout


def test_a_backup_and_the_doctor_name_rights_that_a_restore_needs(
    guarded_server: URL, guarded: Settings, tmp_path: Path
) -> None:
    environment, file = for_processes(guarded), tmp_path / "zatva.dump"
    owner = as_administrator(guarded_server.set(database="guarded"))
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("ALTER SCHEMA public OWNER TO CURRENT_USER")
        connection.execute("GRANT ALL ON SCHEMA public TO librarian")
        connection.execute("ALTER DATABASE guarded OWNER TO CURRENT_USER")
        assert zatva(environment, "upgrade").returncode == 0
        remedy = "ALTER SCHEMA public OWNER TO librarian; GRANT CREATE ON DATABASE guarded TO librarian"
        done = zatva(environment, "backup", file)
        assert (done.returncode, remedy in done.stderr) == (0, True)
        refused = zatva(environment, "restore", file, "--force")
        assert (refused.returncode, remedy in refused.stderr) == (6, True)
        assert remedy in commands.zatva(environment, "doctor").stdout
        connection.execute(remedy.encode())
        restored = zatva(environment, "restore", file, "--force")
        assert (restored.returncode, restored.stderr) == (0, "")


def test_tables_on_which_the_role_lacks_rights_are_named(guarded_server: URL, guarded: Settings) -> None:
    environment = for_processes(guarded)
    owner = as_administrator(guarded_server.set(database="guarded"))
    assert zatva(environment, "upgrade").returncode == 0
    with psycopg.connect(owner, autocommit=True) as connection:
        for table in ("oai_record", "procrastinate_jobs", "of_others"):
            connection.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ()").format(sql.Identifier(table)))
            connection.execute(sql.SQL("ALTER TABLE {} OWNER TO CURRENT_USER").format(sql.Identifier(table)))
        connection.execute("GRANT SELECT ON oai_record TO librarian")
        done = zatva(environment, "check")
        remedies = [
            f"ALTER TABLE {table} OWNER TO librarian" for table in ("oai_record", "procrastinate_jobs")
        ]
        assert (done.returncode, done.stdout.count("ALTER")) == (6, 2)
        shown = commands.zatva(environment, "doctor", "--json").stdout
        for remedy in remedies:
            assert remedy in done.stdout
            assert remedy in shown
            connection.execute(remedy.encode())
    assert zatva(environment, "check").returncode == 0
    assert commands.zatva(environment, "doctor").returncode == 0


def test_refused_connections_and_wrong_addresses_say_what_to_correct(
    guarded_server: URL, guarded: Settings
) -> None:
    environment = for_processes(guarded)
    url = guarded_server.set(username="librarian", password=PASSWORDS[0], database="guarded")
    advice = "check that the server is running and reachable, and user, password and database in database_url"
    for wrong, message in (
        (url.set(password="wrong"), "password authentication failed"),
        (url.set(database="none"), 'database "none" does not exist'),
        (url.update_query_dict({"service": "none"}), 'service "none" not found'),
    ):
        shown = wrong.render_as_string(hide_password=False)
        done = zatva({**environment, "ZATVA_DATABASE_URL": shown}, "current")
        assert (done.returncode, message in done.stderr, advice in done.stderr) == (6, True, True), done
    shown = url.update_query_dict({"foo": "bar"}).render_as_string(hide_password=False)
    done = zatva({**environment, "ZATVA_DATABASE_URL": shown}, "current")
    assert done.returncode == 6
    assert done.stderr == 'zatva: database_url: not a valid address: invalid connection option "foo"\n'


def test_a_database_of_another_encoding_is_refused(guarded_server: URL, guarded: Settings) -> None:
    created = sql.SQL("CREATE DATABASE {} OWNER librarian ENCODING {} LOCALE 'C' TEMPLATE template0")
    with psycopg.connect(as_administrator(guarded_server), autocommit=True) as connection:
        for encoding in ("SQL_ASCII", "LATIN2"):
            connection.execute(created.format(sql.Identifier(encoding), sql.Literal(encoding)))
            url = guarded_server.set(username="librarian", password=PASSWORDS[0], database=encoding)
            shown = url.render_as_string(hide_password=False)
            environment = {**for_processes(guarded), "ZATVA_DATABASE_URL": shown}
            done = zatva(environment, "upgrade")
            assert (done.returncode, f"the encoding {encoding}" in done.stderr) == (6, True)
            assert "ENCODING 'UTF8'" in commands.zatva(environment, "doctor").stdout
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(encoding)))


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_of_any_characters_is_passed_to_libpq(guarded: Settings) -> None:
    with (
        open_database(guarded, check_tables=False) as database,
        psycopg.connect(database.conninfo) as connection,
    ):
        assert connection.execute("SELECT current_user").fetchone() == ("librarian",)


def test_the_error_about_a_wrong_password_does_not_contain_it(
    guarded_server: URL, guarded: Settings, tmp_path: Path
) -> None:
    url = guarded_server.set(username="librarian", password="wr0ng", database="guarded")
    environment = {
        **for_processes(guarded),
        "ZATVA_DATABASE_URL": url.render_as_string(hide_password=False),
    }
    done = zatva(environment, "backup", tmp_path / "zatva.dump")
    assert (done.returncode, "password authentication failed" in done.stderr) == (6, True)
    assert "wr0ng" not in done.stderr


def command_lines() -> list[bytes]:
    """Of this machine's processes, those of this test among them."""
    lines = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(process.read_bytes())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return lines


@contextlib.asynccontextmanager
async def with_tls(server: URL, certificate: Path) -> AsyncIterator[int]:
    """Yield the port of a proxy that speaks TLS with clients, which PostgreSQL's embedded server cannot."""
    folder = str(server.query["host"])

    async def forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError), contextlib.closing(target):
            while received := await source.read(65_536):
                target.write(received)
                await target.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(8) == _SSL_REQUEST
        writer.write(b"S")
        await writer.start_tls(server_context(certificate))
        behind, to_server = await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432")
        await asyncio.gather(forward(reader, to_server), forward(behind, writer))

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with proxy:
        yield proxy.sockets[0].getsockname()[1]


async def test_an_encrypted_connection_is_backed_up_by_the_systems_program(
    guarded: Settings, tmp_path: Path
) -> None:
    """The bundled programs have no TLS. Here, the system's is a script that shows how it was called."""
    url = make_url(required(guarded.database_url, "there is a server").get_secret_value())
    programs = tmp_path / "programs"
    programs.mkdir()
    async with with_tls(url, make_certificate(tmp_path)) as port:
        encrypted = url.set(host="127.0.0.1", port=port, query={"sslmode": "require"})
        environment = {
            **os.environ,
            "PATH": str(programs),
            "ZATVA_DATA": str(tmp_path / "data"),
            "ZATVA_DATABASE_URL": encrypted.render_as_string(hide_password=False),
        }
        file = tmp_path / "zatva.dump"
        missing = await asyncio.to_thread(zatva, environment, "backup", file)
        advised = await asyncio.to_thread(commands.zatva, environment, "doctor")
        (programs / "pg_dump").write_text('#!/bin/sh\necho "$@" >&2; exit 1\n')
        (programs / "pg_dump").chmod(0o700)
        called = await asyncio.to_thread(zatva, environment, "backup", file)
        environment["ZATVA_DATABASE_URL"] = encrypted.set(
            query={"sslmode": "verify-full", "sslrootcert": str(tmp_path / "missing.pem")}
        ).render_as_string(hide_password=False)
        unverified = await asyncio.to_thread(zatva, environment, "current")

    assert (missing.returncode, "pg_dump was not found; the connection" in missing.stderr) == (6, True)
    assert re.search("backups.*no.*not possible", advised.stdout)
    assert (unverified.returncode, "and sslmode, sslrootcert" in unverified.stderr) == (6, True)
    assert (called.returncode, "sslmode=require" in called.stderr, file.exists()) == (6, True, False)
