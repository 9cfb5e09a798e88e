"""Why the embedded server does not start: what its disk and its log say."""

import re
import shutil
from pathlib import Path
from typing import Final

_NEEDED: Final = 32 * 1024**2
"""Bytes: PostgreSQL writes whole segments of 16 MiB ahead (its documentation, "WAL Configuration")."""
_TAIL: Final = 8192
_WELL: Final = re.compile(r"database system is (?:shut down|ready to accept connections)")
_FATAL: Final = re.compile(r"(?:FATAL|PANIC): +(.+)")


def why_not(cluster: Path, otherwise: str) -> str:
    """The reason in words, with what to do; `otherwise` where neither disk nor log tells one."""
    free = shutil.disk_usage(cluster.parent).free
    if free < _NEEDED:
        return (
            f"no space left on device ({free // 1024**2} MiB free); free space on the database's "
            "disk, then run the command again"
        )
    log = cluster / "server.log"
    # What came before the server was last well, such as connections that it ended, is no reason.
    said = _FATAL.findall(_WELL.split(_tail(log))[-1])
    return f"{said[-1]}; see {log}" if said else otherwise


def _tail(log: Path) -> str:
    """The log's end; nothing where there is none yet."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _TAIL, 0))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
