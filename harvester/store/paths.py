"""Maps a record's identifier to the path of its file below the base directory.

`oai:ilLib:alliance:1234` is stored at `ilLib/alliance/1234.xml` (UIUC, "File System"). The mapping is safe on
any file system, unique and reversible:

- all but ASCII letters, digits, `-`, `_` and `.` is written as `%XX` of its UTF-8 bytes; an empty part
  is `%`;
- an identifier with a scheme other than `oai` begins with `+`: `http://x` is `+http/%2F%2Fx.xml`;
- a part that would be hidden, reserved or misleading (`.a`, `a.`, `con`, `a.xml` as a folder,
  `starting_at_5`) has its first or last letter written as `%XX`; a long part continues in a subfolder:
  `aaa+/+aaa`;
- beyond 1,000 characters, a digest names the file (`++sha256/…`), and the identifier is in the record's
  header;
- files of deleted records that are kept separately have the same path below `++deleted`;
- a second format's files are distinguished by `@`, names that differ only in case by `~2`, `~3`, …
"""

import hashlib
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.store import records as arrays
from harvester.store.records import taken_names

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
_WORDS = tuple(chr(code) if code in _SAFE else f"%{code:02X}" for code in range(256))
_ALL_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|starting_at_[0-9]+", re.IGNORECASE)
_MISLEADING_FOLDER = re.compile(r".*\.xml", re.IGNORECASE)
_STARTING_AT = re.compile(r"starting_at_[0-9]+")
_TWIN = re.compile(r"~[0-9]+$")

_SCHEME = "oai:"
_SUFFIX = ".xml"
_EMPTY = "%"
_HASHED = "++sha256"
_DELETED = "++deleted/"
_PART_LIMIT = 120
_PATH_LIMIT = 1000


def identifier_key(identifier: str) -> uuid.UUID:
    """Return the first 128 bits of the identifier's SHA-256."""
    return uuid.UUID(hex=identifier_digits(identifier))


def identifier_digits(identifier: str) -> str:
    """Return the identifier's key in 32 hexadecimal digits, which are faster to compare than a UUID."""
    return hashlib.sha256(identifier.encode()).hexdigest()[:32]


def record_path(identifier: str, *, parse_id: bool = True, metadata_prefix: str = "") -> str:
    """Return the path of a record's file below the base directory, with `/`.

    With `parse_id` the identifier's colons separate folders, without it the identifier is one name.
    `metadata_prefix` is given for formats whose files are not the plain ones of the base directory.
    """
    at = f"@{_encoded(metadata_prefix)}" if metadata_prefix else ""
    path = "/".join(_parts(identifier)) if parse_id else hardened(_encoded(identifier))
    too_long = len(path) > (_PATH_LIMIT if parse_id else _PART_LIMIT)
    if too_long:
        digest = hashlib.sha256(identifier.encode()).hexdigest()
        path = f"{_HASHED}/{digest[:2]}/{digest}" if parse_id else f"{_HASHED}-{digest}"
    return path + at + _SUFFIX


def numbered_path(path: str, number: int) -> str:
    """Return the path of a record whose own is taken by one differing only in case; `number` is 2 or more."""
    return f"{path.removesuffix(_SUFFIX)}~{number}{_SUFFIX}"


def placed(path: str, position: int, files_per_directory: int) -> str:
    """Return the path of file number `position` (from 0) in its folder (UIUC, `filesPerDIR`)."""
    first = position // files_per_directory * files_per_directory
    if first == 0:
        return path
    folder, _, name = path.rpartition("/")
    return f"{folder}/starting_at_{first}/{name}".removeprefix("/")


def deleted_path(path: str) -> str:
    """Return the path to which the file of a deleted record is moved."""
    return path if is_deleted_path(path) else _DELETED + path


def is_deleted_path(path: str) -> bool:
    """Return whether the path is that of a moved file of a deleted record."""
    return path.startswith(_DELETED)


def prefix_of(path: str) -> str:
    """Return the metadataPrefix in the path; empty for the plain format of the base directory."""
    return _decoded(_TWIN.sub("", path.rpartition("/")[2].removesuffix(_SUFFIX)).partition("@")[2])


def folder_and_start(folder: str) -> tuple[str, int]:
    """Return the folder in which files are counted together, and the number of this part's first file."""
    above, _, last = folder.rpartition("/")
    return (above, int(last.rpartition("_")[2])) if _STARTING_AT.fullmatch(last) else (folder, 0)


def _parts(identifier: str) -> list[str]:
    ours = identifier.startswith(_SCHEME)
    folders, colon, name = identifier.removeprefix(_SCHEME).rpartition(":")
    parts = [*_folders(folders)] if colon else []
    parts += _steps(hardened(_encoded(name)))
    if not ours:
        parts[0] = "+" + parts[0]
    return parts


@lru_cache(maxsize=1000)
def _folders(text: str) -> tuple[str, ...]:
    """Return the folders of an identifier's parts except the last; many identifiers share them."""
    return tuple(step for part in text.split(":") for step in _steps(hardened(_encoded(part), folder=True)))


def _encoded(text: str) -> str:
    if _ALL_SAFE.fullmatch(text):
        return text
    return "".join(_WORDS[byte] for byte in text.encode()) or _EMPTY


def _decoded(part: str) -> str:
    return unquote_to_bytes("" if part == _EMPTY else part).decode()


def hardened(part: str, *, folder: bool = False) -> str:
    """Return the part with its first or last letter encoded, if some system could not handle the name."""
    if part.startswith(".") or _RESERVED.fullmatch(part):
        part = f"%{ord(part[0]):02X}{part[1:]}"
    if part.endswith(".") or (folder and _MISLEADING_FOLDER.fullmatch(part)):
        part = f"{part[:-1]}%{ord(part[-1]):02X}"
    return part


def _steps(part: str) -> list[str]:
    """Return the part, in pieces if it is longer than every system allows."""
    if len(part) <= _PART_LIMIT:
        return [part]
    pieces = [part[start : start + _PART_LIMIT] for start in range(0, len(part), _PART_LIMIT)]
    last = len(pieces) - 1
    return [
        ("+" if number else "") + piece + ("+" if number < last else "")
        for number, piece in enumerate(pieces)
    ]


_COUNTS = text(
    """
    SELECT path_key, files FROM oai_directory
    WHERE repository_id = :repository_id AND path_key = ANY(CAST(:keys AS uuid[]))
    """
)
_WRITE = """
    INSERT INTO oai_directory AS known (repository_id, path_key, files)
    SELECT :repository_id, row.* FROM unnest(CAST(:keys AS uuid[]), CAST(:files AS int[])) AS row
    ON CONFLICT (repository_id, path_key) DO UPDATE SET files =
    """
_RAISE = text(f"{_WRITE} greatest(known.files, excluded.files)")
_SAVE = text(f"{_WRITE} excluded.files")


def place_files(
    session: Session, paths: Sequence[str], *, repository_id: int, files_per_directory: int
) -> list[str]:
    """Return the final path of each new file: in a folder with room, and unique regardless of case.

    The folders' counts are saved; the caller commits, and ensures that no other process does the same
    meanwhile.
    """
    keys = [_folder_key(path) for path in paths]
    # Read, then saved as absolute numbers: safe because the lock on the repository admits one harvest.
    counts = _counts(session, repository_id, set(keys))
    settled = []
    for path, key in zip(paths, keys, strict=True):
        position = counts.get(key, 0)
        counts[key] = position + 1
        settled.append(placed(path, position, files_per_directory))
    session.execute(_SAVE, _values(repository_id, counts))
    return without_case_clashes(session, settled, repository_id=repository_id)


def note_folders(session: Session, folders: Mapping[str, int], *, repository_id: int) -> None:
    """Raise the counts to at least the number of files found in the folders (by path below the base).

    The folder `starting_at_5000` with 3 files means that 5,003 files have been placed in its parent.
    """
    counts: dict[str, int] = {}
    for folder, files in folders.items():
        counted_with, start = folder_and_start(folder)
        key = _key(counted_with)
        counts[key] = max(counts.get(key, 0), start + files)
    if counts:
        session.execute(_RAISE, _values(repository_id, counts))


def _values(repository_id: int, counts: Mapping[str, int]) -> dict[str, object]:
    keys, files = arrays.of_keys(counts), arrays.of_numbers(counts.values())
    return {"repository_id": repository_id, "keys": keys, "files": files}


def _counts(session: Session, repository_id: int, keys: Collection[str]) -> dict[str, int]:
    rows = session.execute(_COUNTS, {"repository_id": repository_id, "keys": arrays.of_keys(keys)})
    return {key.hex: files for key, files in rows}


def without_case_clashes(session: Session, paths: Sequence[str], *, repository_id: int) -> list[str]:
    """Return the paths, numbered if they equal another one but for case, in the table or among themselves."""
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
    return path if number == 1 else numbered_path(path, number)


def _folder_key(path: str) -> str:
    return _key(path.rpartition("/")[0])


@lru_cache(maxsize=10_000)
def _key(folder: str) -> str:
    return identifier_digits(folder.lower())
