"""The embedded server's keeper: stops it as soon as no process uses it any more.

Run as a script with the data folder and the cluster folder. It needs the standard library alone, so
that it starts at once and stays small.
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
    """The lines of `postmaster.pid`: process id, folder, start time, port, socket folder, …; else none."""
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def postmaster_pid(cluster: Path) -> int | None:
    """The running server's process id, or None where none runs."""
    lines = postmaster_lines(cluster)
    if len(lines) < _PID_LINE_COUNT:
        return None
    pid = int(lines[0])
    return pid if _is_postgres(pid) else None


def _is_postgres(pid: int) -> bool:
    """Whether the process lives and is PostgreSQL: after a crash, a stranger may have its process id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, under another user
    try:
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()  # empty for a zombie
    except OSError:
        return not Path("/proc/self").exists()  # no /proc on this system: believe the pid


def stop(cluster: Path) -> None:
    """Stop the server, rolling open transactions back, and wait for its end; none running is fine."""
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
    """Wait until nobody holds the users' lock in the data folder, then stop the server."""
    with (data / KEEPER_LOCK).open("w") as only_one, (data / USERS_LOCK).open("w") as users:
        fcntl.flock(only_one, fcntl.LOCK_EX)
        while postmaster_pid(cluster):
            fcntl.flock(users, fcntl.LOCK_EX)
            stop(cluster)
            fcntl.flock(users, fcntl.LOCK_UN)


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    os.setsid()
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
