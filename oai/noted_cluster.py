"""Where the embedded server's folder is, by a note in the data folder, and whether this user may use it.

Where a new one is made depends on the data folder's path and on who may enter it, and both may change later.
The note has two lines: the server's folder, and the data folder, so that a moved data folder differs from a
copied one.
"""

import os
import pwd
import shlex
from pathlib import Path
from typing import Final

from oai.errors import DatabaseNotReadyError
from oai.output_files import complete_file

_NOTE: Final = "postgres.place"


def is_cluster(folder: Path) -> bool:
    """Return whether the folder exists and is a PostgreSQL server's."""
    try:
        return (folder / "PG_VERSION").exists()
    except PermissionError:
        return False


def noted_cluster(data: Path) -> Path | None:
    """Return the noted folder of the server; None without a note. The path of the data folder is resolved."""
    lines = _lines(data)
    return data / lines[0] if lines else None


def note_cluster(data: Path, cluster: Path) -> None:
    """Note where the server's folder is: by its name if it is in the data folder, with which it moves."""
    lines = cluster.name if cluster.parent == data else str(cluster), str(data)
    if _lines(data) != lines:
        with complete_file(data / _NOTE) as file:
            file.write(os.fsencode("\n".join(lines)))


def check_noted(data: Path) -> None:
    """Raise DatabaseNotReadyError if the noted folder is missing, or still belongs to another data folder."""
    lines, note = _lines(data), data / _NOTE
    if lines is None:
        return
    cluster, former = data / lines[0], Path(lines[1])
    otherwise = f"to begin with an empty database, for example to restore a backup, remove {note}"
    if not is_cluster(cluster):
        raise DatabaseNotReadyError(
            f"the database of the data folder {data} is in {cluster}, which does not exist or cannot be "
            f"read; put that folder back, with its owner; {otherwise}"
        )
    # Two data folders have two locks, so that the users of one would stop the server of the other's.
    if cluster.parent != data and _lines(former) == lines and not note.samefile(former / _NOTE):
        raise DatabaseNotReadyError(
            f"the data folder {data} is a copy of {former}, which uses the database in {cluster}; {otherwise}"
        )


def check_owner(cluster: Path, system_user: str) -> None:
    """Raise DatabaseNotReadyError if another user runs the server, whose commands could not use new files.

    Root runs servers as the system user.
    """
    try:
        owner = cluster.stat().st_uid
    except OSError:
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:  # a user of another machine or container
        name = f"#{owner}"
    user = os.geteuid()
    if owner != user and not (user == 0 and name == system_user):
        raise DatabaseNotReadyError(
            f"the database in {cluster} belongs to the user {name}; run the command as that user "
            f"(`sudo -u {shlex.quote(name)} …`)"
        )


def _lines(data: Path) -> tuple[str, str] | None:
    try:
        cluster, _, noted_data = os.fsdecode((data / _NOTE).read_bytes()).partition("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return cluster, noted_data
