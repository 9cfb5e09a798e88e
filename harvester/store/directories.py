"""Which folder of the store a new file comes to, counted in `oai_directory` so that nobody lists folders."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.store import arrays
from harvester.store.paths import folder_and_start, identifier_digits, placed, twin_path
from harvester.store.records import taken_names

_COUNTS = text(
    """
    SELECT path_key, files FROM oai_directory
    WHERE repository_id = :repository_id AND path_key = ANY(CAST(:keys AS uuid[]))
    """
)
_RAISE = text(
    """
    INSERT INTO oai_directory AS known (repository_id, path_key, files)
    SELECT :repository_id, row.* FROM unnest(CAST(:keys AS uuid[]), CAST(:files AS int[])) AS row
    ON CONFLICT (repository_id, path_key) DO UPDATE SET files = greatest(known.files, excluded.files)
    """
)
_SAVE = text(
    """
    INSERT INTO oai_directory (repository_id, path_key, files)
    SELECT :repository_id, row.* FROM unnest(CAST(:keys AS uuid[]), CAST(:files AS int[])) AS row
    ON CONFLICT (repository_id, path_key) DO UPDATE SET files = excluded.files
    """
)


def place_files(
    session: Session, paths: Sequence[str], *, repository_id: int, files_per_directory: int
) -> list[str]:
    """The final path of each new file: in a folder with room, and unlike every other even without case.

    The folders' counts are saved; the caller commits, and sees that no one else does the same meanwhile.
    """
    keys = [_folder_key(path) for path in paths]
    counts = _counts(session, repository_id, set(keys))
    settled = []
    for path, key in zip(paths, keys, strict=True):
        position = counts.get(key, 0)
        counts[key] = position + 1
        settled.append(placed(path, position, files_per_directory))
    session.execute(
        _SAVE,
        {
            "repository_id": repository_id,
            "keys": arrays.of_keys(counts),
            "files": arrays.of_numbers(counts.values()),
        },
    )
    return without_twins(session, settled, repository_id=repository_id)


def note_folders(session: Session, folders: Mapping[str, int], *, repository_id: int) -> None:
    """See that the counts are at least what the folders (by path below the base) were found to hold.

    The folder `starting_at_5000` with 3 files tells that 5,003 files have been placed in the one above it.
    """
    counts: dict[str, int] = {}
    for folder, files in folders.items():
        counted_with, start = folder_and_start(folder)
        key = _key(counted_with)
        counts[key] = max(counts.get(key, 0), start + files)
    if counts:
        session.execute(
            _RAISE,
            {
                "repository_id": repository_id,
                "keys": arrays.of_keys(counts),
                "files": arrays.of_numbers(counts.values()),
            },
        )


def _counts(session: Session, repository_id: int, keys: Collection[str]) -> dict[str, int]:
    rows = session.execute(_COUNTS, {"repository_id": repository_id, "keys": arrays.of_keys(keys)})
    return {key.hex: files for key, files in rows}


def without_twins(session: Session, paths: Sequence[str], *, repository_id: int) -> list[str]:
    """The paths, with a number added to each that is another's twin, in the table or among themselves."""
    plain = [path.lower() for path in paths]
    if len(set(plain)) == len(plain) and not taken_names(session, repository_id=repository_id, names=plain):
        return list(paths)
    final: list[str | None] = [None] * len(paths)
    given: set[str] = set()
    open_: list[int] = list(range(len(paths)))
    number = 1
    while open_:
        names = {index: _numbered(paths[index], number) for index in open_}
        lower = {index: name.lower() for index, name in names.items()}
        taken = taken_names(session, repository_id=repository_id, names=list(lower.values()))
        for index, name in names.items():
            if lower[index] not in taken and lower[index] not in given:
                given.add(lower[index])
                final[index] = name
        open_ = [index for index in open_ if final[index] is None]
        number += 1
    return [path for path in final if path is not None]


def _numbered(path: str, number: int) -> str:
    return path if number == 1 else twin_path(path, number)


def _folder_key(path: str) -> str:
    return _key(path.rpartition("/")[0])


@lru_cache(maxsize=10_000)
def _key(folder: str) -> str:
    return identifier_digits(folder.lower())
