"""The fixity check of a store: its files against their rows. Commits its report by itself."""

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path

from sqlalchemy.orm import Session

from harvester.store.atomic_files import ENDING
from harvester.store.diff import FileRow, Pair, compare, file_rows, is_same_file, readable, rows_now, walk
from harvester.store.models import AuditState, StoreAudit, damage
from oai.database import Database
from oai.errors import UsageError
from oai.failures import Failure, FailureCode

_TOGETHER = 500
_THREADS = 4
_KEPT = 50
"""Findings stored in the audit's row."""
_SETTLING_SECONDS = 5.0
"""During a harvest, files exist a moment before their rows."""


class StoreFindingKind(StrEnum):
    """What is wrong with a file."""

    MISSING = "missing"
    """A row names it, but it does not exist."""
    ALTERED = "altered"
    """Its bytes are not those that were written."""
    STRAY = "stray"
    """No row names it."""
    UNREADABLE = "unreadable"
    """It cannot be read, which says nothing about its bytes."""


@dataclass(frozen=True, kw_only=True)
class StoreFinding:
    """A file with a problem; `path` is relative to the base directory."""

    kind: StoreFindingKind
    path: str
    identifier: str | None = None
    unfinished: bool = False
    """Whether it is a stray file that a run left incomplete."""
    removed: bool = False
    reason: str | None = None
    """Why an unreadable file cannot be read, in English."""


@dataclass(kw_only=True)
class Audit:
    """The results so far."""

    repository_id: int
    audit_id: int = 0
    files: int = 0
    missing: int = 0
    altered: int = 0
    stray: int = 0
    repaired: int = 0
    unreadable: int = 0
    findings: list[StoreFinding] = field(default_factory=list)
    """The first of them."""

    @property
    def clean(self) -> bool:
        """Whether every file matches its row, and there are no others."""
        return self.failure is None

    @property
    def failure(self) -> Failure | None:
        """What was found, as a failure; None if the store is intact.

        Without other findings, an audit that could not read some files did not finish.
        """
        found = damage(missing=self.missing, altered=self.altered, stray=self.stray - self.repaired)
        if found is None and self.unreadable:
            return _incomplete(f"{self.unreadable:,} of {self.files:,} files cannot be read")
        return found


@dataclass(frozen=True, kw_only=True)
class Auditor:
    """Compares one repository's files with its rows.

    `busy` returns whether a harvest of the repository is running: then suspicious files are checked again
    after a moment. With `repair`, incomplete files are removed; no harvest may run meanwhile.
    """

    database: Database
    repository_id: int
    folder: Path
    audit_id: int | None = None
    """The row to fill, which a worker has claimed; None adds a row."""
    skip: Collection[str] = ()
    """Folders below that belong to other repositories."""
    repair: bool = False
    busy: Callable[[], bool] = lambda: False
    sleep: Callable[[float], None] = time.sleep
    on_finding: Callable[[StoreFinding], None] = lambda _finding: None
    on_progress: Callable[[int], None] = lambda _files: None

    def run(self) -> Audit:
        """Check all files, and write a row to `oai_store_audit`; memory holds neither all names nor all rows.

        Raises OSError if the folder cannot be read, UsageError if the row to fill no longer exists.
        """
        audit = Audit(repository_id=self.repository_id)
        with self.database.session() as session:
            report = self._report(session)
            audit.audit_id = report.audit_id
            try:
                self._compare(session, audit)
            except OSError as error:
                failure = _incomplete(str(error).encode(errors="backslashreplace").decode())
                report.conclude(failure, state=AuditState.FAILED, ended=datetime.now(UTC))
                session.commit()
                raise
            for name in ("files", "missing", "altered", "stray"):
                setattr(report, name, getattr(audit, name))
            report.stray -= audit.repaired
            report.findings = [asdict(finding) for finding in audit.findings]
            found = audit.failure
            unfinished = found is not None and found.code is FailureCode.STORE_AUDIT_INCOMPLETE
            state = AuditState.FAILED if unfinished else AuditState.DONE
            report.conclude(found, state=state, ended=datetime.now(UTC))
            session.commit()
        return audit

    def _report(self, session: Session) -> StoreAudit:
        if self.audit_id is None:
            report = StoreAudit(
                repository_id=self.repository_id, state=AuditState.RUNNING, started=datetime.now(UTC)
            )
            session.add(report)
            session.commit()
            return report
        queued = session.get(StoreAudit, self.audit_id)
        if queued is None:
            raise UsageError(f"no store audit {self.audit_id}; its repository may have been removed")
        session.commit()
        return queued

    def _compare(self, session: Session, audit: Audit) -> None:
        with self.database.session() as reading, ThreadPoolExecutor(_THREADS) as pool:
            paths = walk(os.fspath(self.folder), skip=self.skip)
            pairs = compare(file_rows(reading, self.repository_id), paths)
            while batch := list(islice(pairs, _TOGETHER)):
                self._judge(session, batch, pool, audit)
                self.on_progress(audit.files)

    def _judge(self, session: Session, batch: Sequence[Pair], pool: ThreadPoolExecutor, audit: Audit) -> None:
        audit.files += sum(row is not None for row, _ in batch)
        suspects = list(self._suspects(batch, pool))
        if suspects:
            if self.busy():
                self.sleep(_SETTLING_SECONDS)
            for finding in self._confirmed(session, suspects):
                self._note(finding, audit)

    def _suspects(self, batch: Iterable[Pair], pool: ThreadPoolExecutor) -> Iterator[Pair]:
        both = [(row, path) for row, path in batch if row is not None and path is not None]
        yield from (pair for pair in batch if None in pair)
        # The threads only read files; results arrive in the order of the rows.
        found = pool.map(self._row_finding, [row for row, _ in both])
        yield from (pair for pair, finding in zip(both, found, strict=True) if finding is not None)

    def _confirmed(self, session: Session, suspects: Sequence[Pair]) -> Iterator[StoreFinding]:
        """Yield what is still wrong according to the present rows."""
        names = [os.fsdecode(path) for row, path in suspects if row is None and path is not None]
        ids = [row.record_id for row, _ in suspects if row is not None]
        # Read again: a harvest that is running may have committed these rows after its files appeared.
        rows = rows_now(session, self.repository_id, record_ids=ids, names=names)
        session.commit()
        by_id = {row.record_id: row for row in rows}
        by_name: dict[str, list[FileRow]] = {}
        for found in rows:
            by_name.setdefault(found.filename.lower(), []).append(found)
        for row, path in suspects:
            if row is not None:
                now = by_id.get(row.record_id)
                if now is not None and (finding := self._row_finding(now)) is not None:
                    yield finding
            elif path is not None and not self._is_named(path, by_name.get(os.fsdecode(path).lower(), ())):
                unfinished = path.endswith(ENDING.encode())
                yield StoreFinding(kind=StoreFindingKind.STRAY, path=readable(path), unfinished=unfinished)

    def _row_finding(self, row: FileRow) -> StoreFinding | None:
        """Return what is wrong with the row's file; None if it is right."""
        kind, reason = StoreFindingKind.ALTERED, None
        try:
            if hashlib.sha256((self.folder / row.filename).read_bytes()).digest() == row.digest:
                return None
        except (FileNotFoundError, NotADirectoryError):
            kind = StoreFindingKind.MISSING
        except OSError as error:
            kind, reason = StoreFindingKind.UNREADABLE, error.strerror
        return StoreFinding(kind=kind, path=row.filename, identifier=row.identifier, reason=reason)

    def _is_named(self, path: bytes, rows: Iterable[FileRow]) -> bool:
        """Return whether a row names the file by now, on some systems in another case."""
        for row in rows:
            if row.filename == os.fsdecode(path) or is_same_file(self.folder, row.filename, path):
                return True
        return not os.path.lexists(os.path.join(os.fsencode(self.folder), path))  # noqa: PTH118 may not be UTF-8

    def _note(self, finding: StoreFinding, audit: Audit) -> None:
        setattr(audit, finding.kind.value, getattr(audit, finding.kind.value) + 1)
        removes = self.repair and finding.unfinished
        if removes:
            (self.folder / finding.path).unlink(missing_ok=True)
            audit.repaired += 1
        finding = replace(finding, removed=removes)
        if len(audit.findings) < _KEPT:
            audit.findings.append(finding)
        self.on_finding(finding)


def _incomplete(reason: str) -> Failure:
    return Failure(code=FailureCode.STORE_AUDIT_INCOMPLETE, facts={"said": reason})
