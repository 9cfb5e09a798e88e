"""The embedded server's keeper: stops the server as soon as no process uses it.

Runs as a script with the data folder and the cluster folder as arguments. It needs only the standard
library, so that it starts immediately and stays small.
"""

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

USERS_LOCK = "postgres.users.lock"
KEEPER_LOCK = "postgres.keeper.lock"
_STOP_SECONDS = 60.0
_PID_LINE_COUNT = 8


def postmaster_lines(cluster: Path) -> list[str]:
    """Return the lines of `postmaster.pid`, if any (process id, folder, start time, port, socket folder)."""
    return _lines(cluster / "postmaster.pid")


def postmaster_pid(cluster: Path) -> int | None:
    """Return the process id of the running server, or None if it is not running."""
    lines = postmaster_lines(cluster)
    if len(lines) < _PID_LINE_COUNT:
        return None
    pid = int(lines[0])
    return pid if _lives(pid) and _serves(pid, cluster) else None


def remove_stale_files(cluster: Path, sockets: Path) -> None:
    """Remove lock files whose process id is now another program's; the caller holds the start lock.

    They are `postmaster.pid` and the lock of the socket, which is in the folder `sockets`. PostgreSQL removes
    the files of a process that has ended, but takes any living one of its account for the server and does not
    start. Without the files, it still refuses to start while any process is attached to the shared memory
    that it finds by the cluster's inode.
    """
    for file in (cluster / "postmaster.pid", *sockets.glob(".s.PGSQL.*.lock")):
        pid = next(iter(_lines(file)), "")
        if pid.isdecimal() and _lives(int(pid)) and not _serves(int(pid), cluster):
            file.unlink(missing_ok=True)


def _lines(file: Path) -> list[str]:
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    # Not in the encoding of the locale: psycopg writes addresses in UTF-8, also that of the socket.
    return [line.decode(errors="surrogateescape") for line in lines]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, under another user
    return True


def _serves(pid: int, cluster: Path) -> bool:
    """Return whether the process is this cluster's server: after a crash, its id may be another program's."""
    process = Path(f"/proc/{pid}")
    try:
        program, *arguments = (process / "cmdline").read_bytes().split(b"\0")  # empty for a zombie
    except OSError:
        return not Path("/proc/self").exists()  # no /proc on this system: trust the pid
    if Path(os.fsdecode(program)).name != "postgres":
        return False
    try:
        return (process / "cwd").samefile(cluster)  # whatever path it was started with
    except OSError:  # another user's process, which some containers do not show even to root
        return os.fsencode(cluster) in arguments


def stop(cluster: Path) -> None:
    """Stop the server, rolling back open transactions, and wait for its end; does nothing if none runs."""
    pid = postmaster_pid(cluster)
    if pid is None:
        return
    os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + _STOP_SECONDS
    while postmaster_pid(cluster) == pid:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGQUIT)
            return
        time.sleep(0.02)


def keep(data: Path, cluster: Path) -> None:
    """Wait until no process holds the users' lock in the data folder, then stop the server."""
    with (data / KEEPER_LOCK).open("w") as only_one, (data / USERS_LOCK).open("w") as users:
        fcntl.flock(only_one, fcntl.LOCK_EX)
        while postmaster_pid(cluster):
            # While this holds the exclusive lock, no process can start using the server, so stopping it is
            # safe.
            fcntl.flock(users, fcntl.LOCK_EX)
            stop(cluster)
            fcntl.flock(users, fcntl.LOCK_UN)


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    os.setsid()
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
