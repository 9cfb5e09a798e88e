"""Fixity checks: compares archive files with the index, capture by capture.

Archive files are read one after the other, each from beginning to end, so that memory does not grow and
an interrupted check continues after the last complete file. Nothing is changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Result, Select, func, select
from sqlalchemy.orm import Session

from oai.digests import DigestCheck
from oai.errors import UsageError
from oai.failures import Failure, FailureCode
from provider.holdings.arcs import is_file
from provider.holdings.record_matching import difference
from provider.models import Arc, Document
from provider.protocol.scopes import find_scope
from provider.reading.archived_record import ArchivedRecord, DigestError, MismatchedDigestError
from provider.reading.content import DamageError
from provider.storage.files import look_at, open_record
from provider.storage.places import Place, place_of, stored_path

_TOGETHER: Final = 500
_REVISIT: Final = "revisit"


class Fault(StrEnum):
    """What is wrong with an archive file or a capture in it."""

    MISSING = "missing"
    """The file is missing from its indexed path, and with it all its captures."""
    MOVED = "moved"
    """The file is missing, and what may be the same file is elsewhere, where it has no documents yet."""
    UNREADABLE = "unreadable"
    """The file exists but cannot be read, or not to its end."""
    CHANGED = "changed"
    """The file's size has changed; the checks of its captures show whether that matters."""
    ALTERED = "altered"
    """The record at the capture's offset is not the indexed one."""
    MISMATCHED = "mismatched"
    """The record was written with a digest that its content does not have: no damage."""


_CODES: Final[Mapping[Fault, FailureCode]] = {
    Fault.MISSING: FailureCode.ARCHIVE_NOT_READABLE,
    Fault.MOVED: FailureCode.ARCHIVE_MOVED,
    Fault.UNREADABLE: FailureCode.ARCHIVE_NOT_READABLE,
    Fault.CHANGED: FailureCode.ARCHIVE_CHANGED,
    Fault.ALTERED: FailureCode.ARCHIVE_ALTERED,
    Fault.MISMATCHED: FailureCode.ARCHIVE_DIGEST_WRONG,
}


@dataclass(frozen=True, kw_only=True)
class FixityFinding:
    """A detected fault."""

    fault: Fault
    file: str
    """The path in the index."""
    reason: str
    documents: int
    """Number of affected captures."""
    offset: int | None = None
    url: str | None = None
    key: Any = None
    """The capture's key, if the fault concerns one capture."""

    @property
    def failure(self) -> Failure:
        """Return the fault as a code whose explanation says what to do."""
        return Failure(code=_CODES[self.fault])


@dataclass(frozen=True, kw_only=True)
class FixityChoice:
    """What to check; everything by default."""

    files: Sequence[str] = ()
    """Names of archive files (with or without `.gz`), or their absolute paths."""
    set_spec: str | None = None
    """Only captures of this set, and the files that contain them."""
    sample: int | None = None
    """Number of random captures per file; None: all."""
    after: int = 0
    """Only files with a greater number, to continue an interrupted check."""


@dataclass(kw_only=True)
class FileCheck:
    """The result of checking one archive file."""

    number: int
    path: str
    as_indexed: bool = False
    """Whether size and modification time are those of the index."""
    checked: int = 0
    """Captures that were read."""
    without_digest: int = 0
    """Captures among them whose bytes could only be counted, because no computable digest is stored."""
    findings: list[FixityFinding] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Checker:
    """Checks archive files. `elsewhere` maps stored names to the files of that name, to find moved ones."""

    session: Session
    choice: FixityChoice
    elsewhere: Mapping[str, Sequence[Place]] = field(default_factory=dict)

    def files(self) -> int:
        """Return how many archive files will be checked. Raises UsageError if a name matches none."""
        return self.session.scalar(select(func.count()).select_from(self._arcs().subquery())) or 0

    def check(self) -> Iterator[FileCheck]:
        """Check the files, and yield each when it is done; findings of a file are in the order of offsets."""
        for row in self.session.execute(self._arcs().order_by(Arc.id)).all():
            yield self._checked(FileCheck(number=row.id, path=row.path or row.name), row)
            self.session.rollback()

    def _arcs(self) -> Select[Any]:
        columns: tuple[Any, ...] = (Arc.id, Arc.path, Arc.name, Arc.size, Arc.modified, Arc.tag)
        found = select(*columns).where(Arc.id > self.choice.after)
        if self.choice.files:
            found = found.where(Arc.id.in_(self._named()))
        if self.choice.set_spec is not None:
            return found.where(Arc.id.in_(select(Document.arc_id).where(*self._in_set())))
        return found.where(Arc.documents > 0)

    def _named(self) -> list[int]:
        numbers: list[int] = []
        for name in self.choice.files:
            ids = self.session.scalars(select(Arc.id).where(is_file(name))).all()
            if not ids:
                raise UsageError("no archive file %(name)s is indexed", name=repr(name))
            numbers += ids
        return numbers

    def _in_set(self) -> tuple[ColumnElement[bool], ...]:
        if self.choice.set_spec is None:
            return ()
        scope = find_scope(self.session, self.choice.set_spec)
        if scope is None:
            raise UsageError("no set %(set)s", set=repr(self.choice.set_spec))
        return (Document.id.in_(select(scope.id).where(*scope.conditions)),)

    def _checked(self, file: FileCheck, arc: Any) -> FileCheck:  # noqa: ANN401 a row of the index
        fault = self._fault_of_file(file, arc)
        if fault is not None:
            file.findings.append(fault)
        # An object that was replaced is never read for what it was: every read names the old tag.
        if arc.path is not None and (fault is None or (fault.fault is Fault.CHANGED and arc.tag is None)):
            try:
                self._check_documents(file, arc)
            except OSError as error:
                file.findings.append(self._fault(file, Fault.UNREADABLE, str(error)))
        return file

    def _check_documents(self, file: FileCheck, arc: Any) -> None:  # noqa: ANN401 as above
        with self._documents(file.number) as rows:
            for row in rows:
                found = _fault_of_capture(file, arc, row)
                if found is not None:
                    file.findings.append(_finding(file, row, *found))

    def _fault_of_file(self, file: FileCheck, arc: Any) -> FixityFinding | None:  # noqa: ANN401 as above
        if arc.path is None:
            fault, reason = Fault.MISSING, "known only from a CDX file; index the archive file itself"
        else:
            try:
                found = look_at(place_of(arc.path))
            except FileNotFoundError:
                fault, reason = self._gone(arc)
            except OSError as error:
                fault, reason = Fault.UNREADABLE, str(error)
            else:
                if found.size == arc.size and found.tag == arc.tag:
                    file.as_indexed = found.modified == arc.modified
                    return None
                fault, reason = Fault.CHANGED, f"{found.size:,} bytes, but {arc.size:,} when it was indexed"
                if found.size == arc.size:
                    reason = "the object was replaced after it was indexed"
        return self._fault(file, fault, reason)

    def _fault(self, file: FileCheck, fault: Fault, reason: str) -> FixityFinding:
        return FixityFinding(fault=fault, file=file.path, reason=reason, documents=self._count(file.number))

    def _gone(self, arc: Any) -> tuple[Fault, str]:  # noqa: ANN401 as above
        for other in self.elsewhere.get(arc.name, ()):
            if self._may_be(other, arc):
                place = stored_path(other)
                advice = "index it there to update the location of its captures"
                return Fault.MOVED, f"it is now at {place}; {advice}"
        return Fault.MISSING, "no such file"

    def _may_be(self, other: Place, arc: Any) -> bool:  # noqa: ANN401 as above
        """Return whether a file of the same name may be the missing one: another one may have its name."""
        has_documents = select(Arc.id).where(Arc.path == stored_path(other), Arc.documents > 0)
        if self.session.scalar(has_documents) is not None:
            return False
        # Compressed differently, the same records take another size.
        if other.name != place_of(arc.path).name:
            return True
        try:
            return bool(look_at(other).size == arc.size)
        except OSError:
            return False

    def _count(self, number: int) -> int:
        wanted = select(func.count()).where(Document.arc_id == number, *self._in_set())
        return self.session.scalar(wanted) or 0

    def _documents(self, number: int) -> Result[Any]:
        wanted = select(Document.id).where(Document.arc_id == number, *self._in_set())
        if self.choice.sample is not None:
            wanted = wanted.order_by(func.random()).limit(self.choice.sample)
        place = (Document.url, Document.offset, Document.length, Document.packed_length)
        columns = (Document.key, *place, Document.archived, Document.digest, Document.record_type)
        rows = select(*columns).where(Document.id.in_(wanted)).order_by(Document.offset, Document.id)
        return self.session.execute(rows, execution_options={"yield_per": _TOGETHER})


def _fault_of_capture(file: FileCheck, arc: Any, row: Any) -> tuple[Fault, str] | None:  # noqa: ANN401 rows
    """Return how the capture differs from the index; None if it does not.

    Raises OSError if the file cannot be read: that says nothing about its bytes.
    """
    try:
        opened = open_record(arc.path, size=arc.size, tag=arc.tag, packed_length=row.packed_length)
        record = ArchivedRecord(opened, row.offset, length=row.length)
    except DamageError as error:
        file.checked += 1
        return Fault.ALTERED, str(error)
    fault = Fault.ALTERED
    try:
        differs = difference(record.description, row)
        if differs is None:
            _read(file, record, row)
    except (DamageError, DigestError) as error:
        differs = str(error)
        if file.as_indexed and isinstance(error, MismatchedDigestError):
            fault = Fault.MISMATCHED
    finally:
        record.close()
    file.checked += 1
    return None if differs is None else (fault, differs)


def _read(file: FileCheck, record: ArchivedRecord, row: Any) -> None:  # noqa: ANN401 a row of the index
    """Read the payload to its end; the digest of a revisit is that of another capture and is not checked."""
    digest = "" if row.record_type == _REVISIT else row.digest or ""
    for _ in record.blocks(digest):
        pass
    file.without_digest += row.record_type != _REVISIT and not DigestCheck(digest).known


def _finding(file: FileCheck, row: Any, fault: Fault, reason: str) -> FixityFinding:  # noqa: ANN401 as above
    return FixityFinding(
        fault=fault, file=file.path, reason=reason, documents=1,
        offset=row.offset, url=row.url, key=row.key,
    )  # fmt: skip
