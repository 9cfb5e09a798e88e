"""A pooler between Zatva and PostgreSQL that drops the options of a connection, as PgBouncer can."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import text

from oai.database import Database, open_database
from oai.settings import Settings


def without_options(packet: bytes) -> bytes:
    """Return the startup packet of a connection without its `options`."""
    words = packet[8:].rstrip(b"\0").split(b"\0")
    kept = [pair for pair in zip(words[::2], words[1::2], strict=True) if pair[0] != b"options"]
    body = packet[4:8] + b"".join(b"%s\0%s\0" % pair for pair in kept) + b"\0"
    return struct.pack(">I", len(body) + 4) + body


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on all bytes until one side ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(listener: socket.socket, server: dict[str, object]) -> None:
    """Accept connections until the listener is closed."""
    host, port = str(server["host"]), int(str(server.get("port", 5432)))
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            if host.startswith("/"):
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(f"{host}/.s.PGSQL.{port}")
            else:
                upstream = socket.create_connection((host, port))
            upstream.sendall(without_options(client.recv(65536)))
            for ends in ((client, upstream), (upstream, client)):
                threading.Thread(target=pump, args=ends, daemon=True).start()


@contextlib.contextmanager
def behind_pooler(database: Database) -> Iterator[Database]:
    """Yield the database over a pooler."""
    address = conninfo_to_dict(database.conninfo)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, address), daemon=True).start()
        url = database.url.set(
            drivername="postgresql",
            host="127.0.0.1",
            port=listener.getsockname()[1],
            query={"sslmode": "disable", "gssencmode": "disable"},
        )
        settings = Settings(database_url=url.render_as_string(hide_password=False))
        with open_database(settings, statement_seconds=77) as opened:
            yield opened


def test_options_that_a_pooler_drops_are_set_by_statements(database: Database) -> None:
    name = database.url.database
    with database.engine.connect() as connection:
        connection.execute(text(f"ALTER DATABASE \"{name}\" SET timezone = 'Europe/Prague'"))
        connection.commit()
    asked = ("timezone", "statement_timeout", "default_transaction_isolation", "jit", "temp_buffers")
    with behind_pooler(database) as pooled, pooled.session() as session:
        found = [session.scalar(text(f"SHOW {one}")) for one in asked]
    assert found == ["UTC", "77s", "read committed", "off", "64MB"]
