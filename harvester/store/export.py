"""Exports a repository's records, or those that one run changed, as one file: tar, zip or JSON lines."""

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Any, BinaryIO, Self

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.store.records import RunKey

_ROWS_AT_ONCE = 1000
_IN_MEMORY = 1024**2
LISTING = "++records.jsonl"
"""Last entry of an archive: a line per record, including deleted ones; no record's path begins like that."""

_COLUMNS = """
    record.identifier, record.metadata_prefix, record.datestamp, record.status, record.filename,
    record.digest, record.harvest_time, record.deletion_reason,
    ARRAY(SELECT set_spec FROM oai_set_mapping AS mapping
          WHERE mapping.record_id = record.record_id ORDER BY set_spec) AS sets
    """
_ALL = text(
    f"""
    SELECT {_COLUMNS}, NULL AS change FROM oai_record AS record
    WHERE repository_id = :repository_id ORDER BY record_id
    """  # noqa: S608 built from constants only
)
_OF_RUN = text(
    f"""
    SELECT {_COLUMNS}, last.change
    FROM (SELECT DISTINCT ON (metadata_prefix, identifier) metadata_prefix, identifier, change, change_id
          FROM oai_change WHERE harvest_id = :harvest_id AND run_started = :run_started
          ORDER BY metadata_prefix, identifier, change_id DESC) AS last
    JOIN oai_record AS record
      ON record.repository_id = :repository_id AND record.metadata_prefix = last.metadata_prefix
     AND record.identifier_key = CAST(substring(encode(sha256(convert_to(last.identifier, 'UTF8')), 'hex')
                                                FOR 32) AS uuid)
    ORDER BY last.change_id
    """  # noqa: S608 built from constants only
)


class Form(StrEnum):
    """The format of an export."""

    TAR = "tar"
    ZIP = "zip"
    JSONL = "jsonl"


@dataclass(kw_only=True)
class Exported:
    """What has been written; `missing` files do not exist or have other bytes than were written."""

    records: int = 0
    files: int = 0
    missing: int = 0


class _Archive:
    """The destination of the records."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Complete the archive, if anything is still to be written."""

    def add(self, facts: dict[str, Any], data: bytes | None) -> None:
        """Add a record; `data` are its file's bytes, None if there is no file."""
        raise NotImplementedError


def export(
    session: Session,
    out: BinaryIO,
    form: Form,
    *,
    repository_id: int,
    folder: Path,
    run: RunKey | None = None,
    on_missing: Callable[[str], None] = lambda _name: None,
    on_written: Callable[[int], None] = lambda _bytes: None,
) -> Exported:
    """Write the records in their present state, one at a time; with `run`, those that it changed.

    tar and zip have the files at their paths, and a listing (`++records.jsonl`) at the end; each JSON line
    has the record's XML. `on_missing` is called with the path of each file that does not exist, or has other
    bytes than were written: it is left out. `on_written` is called with the bytes of each record. `out` need
    not be seekable.
    """
    exported = Exported()
    with _ARCHIVES[form](out) as archive:
        for row in _rows(session, repository_id, run):
            data = None
            if row["filename"]:
                data = read_intact(folder / row["filename"], row["digest"])
                if data is None:
                    exported.missing += 1
                    on_missing(row["filename"])
            archive.add(_facts(row), data)
            on_written(len(data or b""))
            exported.records += 1
            exported.files += data is not None
    return exported


def _rows(session: Session, repository_id: int, run: RunKey | None) -> Iterator[Any]:
    values: dict[str, Any] = {"repository_id": repository_id}
    if run is not None:
        values |= run.parameters
    statement = _ALL if run is None else _OF_RUN
    rows = session.execute(statement, values, execution_options={"yield_per": _ROWS_AT_ONCE})
    return iter(rows.mappings())


def read_intact(path: Path, digest: bytes | None) -> bytes | None:
    """Return the bytes of a record's file; None if it is missing, or has not the SHA-256 `digest`."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).digest() == digest else None


def _facts(row: Any) -> dict[str, Any]:  # noqa: ANN401 a row of the database
    facts = {
        "identifier": row["identifier"],
        "metadata_prefix": row["metadata_prefix"],
        "datestamp": row["datestamp"],
        "sets": list(row["sets"]),
        "status": row["status"],
        "file": row["filename"],
        "sha256": row["digest"].hex() if row["digest"] else None,
        "harvested": row["harvest_time"].isoformat(),
    }
    if row["change"]:
        facts["change"] = row["change"]
    if row["deletion_reason"]:
        facts["deletion_reason"] = row["deletion_reason"]
    return facts


class _Lines(_Archive):
    """A JSON object per line, with the record's XML as text."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def add(self, facts: dict[str, Any], data: bytes | None) -> None:
        xml = data.decode() if data is not None else None
        self._out.write(_line({**facts, "xml": xml}))


class _Listed(_Archive):
    """An archive with a file per record, and a listing of all records at its end."""

    def __init__(self) -> None:
        self._listing = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 closed at the end of the archive

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._listing:
            if error is None:
                size = self._listing.tell()
                self._listing.seek(0)
                self._put(LISTING, self._listing, size)
            self._close()

    def add(self, facts: dict[str, Any], data: bytes | None) -> None:
        if data is not None:
            self._put(facts["file"], io.BytesIO(data), len(data))
        self._listing.write(_line(facts))

    def _put(self, name: str, data: Any, size: int) -> None:  # noqa: ANN401 either kind of binary file
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class _Tar(_Listed):
    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._tar = tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115 as above

    def _put(self, name: str, data: Any, size: int) -> None:  # noqa: ANN401 as above
        member = tarfile.TarInfo(name)
        member.size, member.mode = size, 0o644
        self._tar.addfile(member, data)

    def _close(self) -> None:
        self._tar.close()


class _Zip(_Listed):
    def __init__(self, out: BinaryIO) -> None:
        super().__init__()
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED)

    def _put(self, name: str, data: Any, size: int) -> None:  # noqa: ANN401 as above
        member = zipfile.ZipInfo(name)
        member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
        member.file_size = size
        with self._zip.open(member, "w") as file:
            while piece := data.read(_IN_MEMORY):
                file.write(piece)

    def _close(self) -> None:
        self._zip.close()


_ARCHIVES: dict[Form, Callable[[BinaryIO], _Archive]] = {
    Form.TAR: _Tar,
    Form.ZIP: _Zip,
    Form.JSONL: _Lines,
}


def _line(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, ensure_ascii=False).encode() + b"\n"
