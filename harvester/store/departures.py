"""What becomes of the files of deleted records: removed, marked, or moved apart (HAR-9)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from harvester.store.directories import without_twins
from harvester.store.files import FileStore
from harvester.store.headers import marked_deleted
from harvester.store.paths import deleted_path
from harvester.vocabulary import DeletionPolicy
from oai.errors import MalformedXmlError


@dataclass(frozen=True, kw_only=True, slots=True)
class Departing:
    """A record's file when the record is deleted: its path, its SHA-256, and the deletion's datestamp."""

    filename: str | None
    digest: bytes | None
    datestamp: str


Left = tuple[str | None, bytes | None]
"""Path and SHA-256 of what is left of a file."""


def part_with(
    session: Session,
    store: FileStore,
    files: Sequence[Departing],
    *,
    policy: DeletionPolicy,
    repository_id: int,
) -> list[Left]:
    """Do with the files as the policy says, durably; gives what their rows are to say.

    Doing it again, because rows were not committed, comes to the same. A file that is no record is moved or
    kept as it is.
    """
    if policy is DeletionPolicy.REMOVE:
        store.remove_all([file.filename for file in files if file.filename])
        return [(None, None)] * len(files)
    targets = _targets(session, files, policy, repository_id)
    left: list[Left] = []
    writing: list[tuple[str, bytes]] = []
    for file, target in zip(files, targets, strict=True):
        data = _data(store, file.filename, target)
        marked = None if data is None else _marked(data, file.datestamp, target)
        if marked is not None:
            writing.append((target, marked))
        left.append((None, None) if marked is None else (target, hashlib.sha256(marked).digest()))
    store.write_all(writing)
    kept = set(targets)
    store.remove_all([file.filename for file in files if file.filename and file.filename not in kept])
    return left


def _targets(
    session: Session, files: Sequence[Departing], policy: DeletionPolicy, repository_id: int
) -> list[str]:
    names = [file.filename or "" for file in files]
    if policy is DeletionPolicy.MARK:
        return names
    moving = [deleted_path(name) for name in names if name and name != deleted_path(name)]
    places = iter(without_twins(session, moving, repository_id=repository_id))
    return [next(places) if name and name != deleted_path(name) else name for name in names]


def _data(store: FileStore, filename: str | None, target: str) -> bytes | None:
    """The record's bytes, where it is or where an undone transaction has moved it to."""
    if not filename:
        return None
    data = store.read(filename)
    return store.read(target) if data is None and target != filename else data


def _marked(data: bytes, datestamp: str, source: str) -> bytes:
    try:
        return marked_deleted(data, datestamp=datestamp, source=source)
    except (MalformedXmlError, ValueError):
        return data
