"""The process that prepares one file for download, for a worker that monitors it.

The file gets its name when it is complete, and its row says so only then. The process ends when its standard
input is closed: the worker holds the other end.
"""

import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Final

from oai.child import end_with_input
from oai.cli import Invocation
from oai.database import Database, open_database
from oai.datestamps import utc_now
from oai.disk import DiskFullError, open_floor
from oai.errors import ExitCode, UsageError, ZatvaError
from oai.failures import Failure, FailureCode
from oai.output_files import complete_file
from oai.settings import Settings
from provider.export.captures import CaptureReader, ExportedCapture, LeftOut, Reason
from provider.export.manifest import Manifest
from provider.export.models import ExportForm, ExportState, PreparedExport, PreparedExportPart
from provider.export.output import facts_of, open_output, write_captures
from provider.export.prepared_files import bytes_of_files, fail, find_export, note_progress, remove_expired
from provider.export.selection import ExportChoice, choose, numbers
from provider.export.sorted_lines import SortedLines

NOTED_EVERY: Final = 2.0
"""Seconds between two notes of the progress."""
_DOCUMENTS: Final = 10_000
"""Documents in one row, at most by two."""


class _UnpreparableError(ZatvaError):
    """The file cannot be prepared."""

    def __init__(self, code: FailureCode, **facts: object) -> None:
        self.why = Failure(code=code, facts=facts)
        super().__init__(self.why.sentence())


class _UnwantedError(ZatvaError):
    """Somebody has removed the file while it was being prepared."""


def prepare_queued(invocation: Invocation) -> ExitCode:
    """Prepare the file of a row in `prepared_export` that a worker has claimed."""
    end_with_input()
    export_id, settings = invocation.arguments.export_id, invocation.settings
    with open_database(settings) as database:
        with database.session() as session:
            export = find_export(session, export_id)
        try:
            _prepare(database, settings, export)
        except _UnwantedError:
            return ExitCode.DONE
        except (_UnpreparableError, DiskFullError, UsageError, OSError) as error:
            with database.session() as session:
                fail(session, export_id, _failure(error))
                session.commit()
            return ExitCode.RECORDS_REFUSED
    return ExitCode.DONE


def _failure(error: Exception) -> Failure:
    if isinstance(error, _UnpreparableError):
        return error.why
    if isinstance(error, DiskFullError) and error.failure.code is FailureCode.DISK_FLOOR:
        facts = {name: error.failure.facts[name] for name in ("folder", "free", "floor")}
        return Failure(code=FailureCode.EXPORT_DISK_FULL, facts=facts)
    reason = str(error).encode(errors="backslashreplace").decode()
    return Failure(code=FailureCode.EXPORT_INCOMPLETE, facts={"said": reason})


def _prepare(database: Database, settings: Settings, export: PreparedExport) -> None:
    folder = settings.exports
    folder.mkdir(parents=True, exist_ok=True)
    progress = _Progress(database, settings, export)
    file = folder / export.file_name
    with SortedLines(folder) as chosen:
        choice = ExportChoice.stored(export.selection)
        without = choose(database, choice, chosen, progress.looked_up)
        if not chosen.added:
            raise _UnpreparableError(FailureCode.EXPORT_EMPTY, selection=export.title, left_out=0)
        progress.begin(chosen.added)
        with complete_file(file) as binary:
            manifest = _write(progress, choice, chosen, without, binary)
    with database.session() as session:
        if not note_progress(session, export.export_id, **progress.result(manifest, file)):
            remove_expired(session, folder)
            raise _UnwantedError
        session.commit()


def _write(
    progress: "_Progress", choice: ExportChoice, chosen: SortedLines, without: Sequence[str], file: BinaryIO
) -> Manifest:
    export, settings = progress.export, progress.settings
    facts = facts_of(
        choice,
        settings.provider,
        title=export.title,
        reading_room=export.reading_room,
        without_captures=without,
    )
    reader = CaptureReader(
        database=progress.database,
        settings=settings.provider,
        reading_room=export.reading_room,
        folder=settings.exports,
        on_bytes=progress.reading,
    )
    with (
        Manifest(facts, settings.exports) as manifest,
        open_output(ExportForm(export.form), file, manifest) as output,
    ):
        found = reader.read(numbers(chosen))
        write_captures(found, output, manifest, lambda one, _written: progress.read(one, manifest))
    if not manifest.captures:
        left_out = manifest.left_out.total()
        raise _UnpreparableError(FailureCode.EXPORT_EMPTY, selection=export.title, left_out=left_out)
    progress.finish(manifest, file)
    return manifest


class _Progress:
    """Notes how far the file is and which documents it has, and stops what becomes too large."""

    def __init__(self, database: Database, settings: Settings, export: PreparedExport) -> None:
        self.database, self.settings, self.export = database, settings, export
        self._floor = open_floor(settings, settings.exports)
        self._noted = time.monotonic()
        self._documents: dict[bool, list[int]] = {True: [], False: []}
        self._written = 0
        self._read = 0
        """Bytes of the record that is read."""

    def looked_up(self, _found: int) -> None:
        """Note that captures are being looked up."""
        if time.monotonic() - self._noted >= NOTED_EVERY:
            self._note()

    def begin(self, chosen: int) -> None:
        """Note how many captures are to be read."""
        self._note(chosen=chosen)

    def reading(self, count: int) -> None:
        """Count bytes of a record that is read, which is on disk twice until it is in the file."""
        self._floor.wrote(count)
        self._read += count
        self._check_limit(self._written + self._read)

    def read(self, capture: ExportedCapture | LeftOut, manifest: Manifest) -> None:
        """Note a capture that has been written or left out."""
        self._read = 0
        if isinstance(capture, ExportedCapture):
            self._documents[True].extend(capture.documents)
        elif capture.reason is not Reason.WITHHELD:  # whose URL is not in the file
            self._documents[False].append(capture.document)
        self._grown_to(manifest.record_bytes)
        is_full = any(len(documents) >= _DOCUMENTS for documents in self._documents.values())
        if is_full or time.monotonic() - self._noted >= NOTED_EVERY:
            examined = manifest.captures + manifest.left_out.total()
            self._note(examined=examined, captures=manifest.captures, bytes=manifest.record_bytes)

    def finish(self, manifest: Manifest, file: BinaryIO) -> None:
        """Note the last documents, and the size of the whole file."""
        file.flush()
        size = file.seek(0, 2)
        self._grown_to(size)
        self._note(captures=manifest.captures, bytes=size)

    def result(self, manifest: Manifest, file: Path) -> dict[str, object]:
        """Return the columns of a file that is ready."""
        now = utc_now()
        return {
            "state": ExportState.READY,
            "ended": now,
            "expires": now + timedelta(days=self.settings.provider.export_days),
            "examined": manifest.captures + manifest.left_out.total(),
            "left_out": {reason: count for reason, count in manifest.left_out.items() if count},
            "bytes": file.stat().st_size,
        }

    def _grown_to(self, size: int) -> None:
        self._floor.wrote(size - self._written)
        self._written = size
        self._check_limit(size)

    def _check_limit(self, size: int) -> None:
        limit = self.settings.provider.export_bytes
        if size > limit:
            raise _UnpreparableError(
                FailureCode.EXPORT_TOO_LARGE, limit=limit, setting="provider.export_bytes"
            )

    def _note(self, **columns: int) -> None:
        export_id, limit = self.export.export_id, self.settings.provider.export_total_bytes
        with self.database.session() as session:
            if not note_progress(session, export_id, **{"bytes": self._written, **columns}):
                raise _UnwantedError
            if bytes_of_files(session, but=export_id) + self._written > limit:
                raise _UnpreparableError(
                    FailureCode.EXPORT_FOLDER_FULL, limit=limit, setting="provider.export_total_bytes"
                )
            for content, documents in self._documents.items():
                if documents:
                    session.add(
                        PreparedExportPart(export_id=export_id, content=content, documents=list(documents))
                    )
                    documents.clear()
            session.commit()
        self._noted = time.monotonic()
