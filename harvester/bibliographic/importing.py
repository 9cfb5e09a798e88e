"""An import: what was harvested becomes bibliographic rows, a batch in each transaction (BIB-1 to BIB-3).

It may be ended at any moment: a batch is there whole or not at all, and the next import finds what is left.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lxml import etree
from sqlalchemy.orm import Session

from harvester.bibliographic import imports
from harvester.bibliographic.candidates import (
    FIRST,
    Candidate,
    Scope,
    count_candidates,
    forget_departed,
    read_candidates,
)
from harvester.bibliographic.conditions import Conditions, Match
from harvester.bibliographic.converting import CONVERTERS, Converter, converter_for
from harvester.bibliographic.filtering_sets import set_by_id
from harvester.bibliographic.formats import choose_prefix
from harvester.bibliographic.imports import ImportFacts, only_import
from harvester.bibliographic.rows import as_json, digest_of, values_of
from harvester.bibliographic.sources import source_settings
from harvester.bibliographic.stored_metadata import NoMetadataError, UnreadableFileError, read_metadata
from harvester.bibliographic.writing import UNREADABLE, Omitted, Same, Table, Written
from harvester.repositories import base_folder, get_repository
from harvester.vocabulary import RunStatus
from oai.database import Database
from oai.errors import InterruptedRunError, ZatvaError
from oai.settings import Settings

_BATCH: Final = 500
_FORGOTTEN: Final = 5000
"""Rows deleted in one transaction."""
_CHANGES: Final = ("new", "updated", "deleted")

Progress = Callable[[Counter[str], int | None], None]
"""Is told the counts so far, and how many records there are to look at."""


def _no_progress(_counts: Counter[str], _expected: int | None) -> None:
    """Tell nobody."""


@dataclass(frozen=True, kw_only=True)
class _Chooser:
    """What decides which records are imported, and what their rows are made by."""

    rules: Conditions
    suffix: str = ""
    """Which filtering set, in which revision."""

    def basis(self, converter: Converter | None) -> str:
        """What a row, or an omission, is made by."""
        if converter is None:
            return "none of " + " ".join(f"{one.name}/{one.version}" for one in CONVERTERS)
        return f"{converter.name}/{converter.version}{self.suffix}"

    def bases(self) -> list[str]:
        """All that a row may be made by."""
        return [self.basis(converter) for converter in (*CONVERTERS, None)]


@dataclass(kw_only=True)
class _Batch:
    """What becomes of some records."""

    written: list[Written] = field(default_factory=list)
    same: list[Same] = field(default_factory=list)
    omitted: list[Omitted] = field(default_factory=list)
    welcome: list[uuid.UUID] = field(default_factory=list)
    """Keys of records that were omitted before."""
    counts: Counter[str] = field(default_factory=Counter)


def run_import(
    database: Database,
    settings: Settings,
    repository_id: int,
    *,
    started_by: str,
    anew: bool = False,
    on_progress: Progress = _no_progress,
) -> ImportFacts:
    """Import what is not imported yet, and forget what was deleted; commits by itself, batch by batch.

    With `anew` every record is looked at. Raises ImportBusyError while another process imports the
    repository's records, UsageError where there is no such repository, and InterruptedRunError when
    interrupted. A fault is raised after it has been noted in the import's row.
    """
    with database.session() as session:
        get_repository(session, repository_id)
    with only_import(database, repository_id):
        work = _Work(
            database=database, settings=settings, repository_id=repository_id, on_progress=on_progress
        )
        return work.run(started_by, anew=anew)


@dataclass(kw_only=True)
class _Work:
    """An import under way."""

    database: Database
    settings: Settings
    repository_id: int
    on_progress: Progress
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, started_by: str, *, anew: bool) -> ImportFacts:
        with self.database.session() as session:
            repository = get_repository(session, self.repository_id)
            folder = base_folder(repository, self.settings)
            prefix = choose_prefix(session, self.repository_id, folder)
            chooser = _chooser(session, self.repository_id)
            import_id = imports.begin_import(
                session, self.repository_id, started_by=started_by, metadata_prefix=prefix
            )
            session.commit()
        scope = Scope(
            repository_id=self.repository_id, metadata_prefix=prefix or "", bases=chooser.bases(), anew=anew
        )
        try:
            self._all(import_id, scope, chooser, folder)
        except KeyboardInterrupt:
            self._end(import_id, RunStatus.INCOMPLETE, "interrupted")
            words = f"interrupted after {self.counts['seen']:,} records; the next import goes on from there"
            raise InterruptedRunError(words) from None
        except Exception as error:
            told = str(error) if isinstance(error, ZatvaError) else f"{type(error).__name__}: {error}"
            self._end(import_id, RunStatus.FAILED, told)
            raise
        return self._end(import_id, self._state(), None)

    def _all(self, import_id: int, scope: Scope, chooser: _Chooser, folder: Path) -> None:
        with self.database.session() as session:
            expected = count_candidates(session, scope)
            imports.note_counts(session, import_id, self.counts, expected=expected)
            session.commit()
        self._forget(import_id, scope)
        after = FIRST
        while True:
            with self.database.session() as session:
                candidates = read_candidates(session, scope, after=after, most=_BATCH)
            if not candidates:
                return
            after = candidates[-1].key
            batch = _converted(candidates, chooser, folder)
            self._write(import_id, scope, batch)
            self.on_progress(self.counts, expected)

    def _forget(self, import_id: int, scope: Scope) -> None:
        while True:
            with self.database.session() as session:
                forgotten = forget_departed(session, scope, most=_FORGOTTEN)
                self.counts["deleted"] += forgotten
                imports.note_counts(session, import_id, self.counts)
                session.commit()
            if forgotten < _FORGOTTEN:
                return

    def _write(self, import_id: int, scope: Scope, batch: _Batch) -> None:
        """Write the batch and the counts in one transaction."""
        with self.database.session() as session:
            table = Table(
                session=session,
                repository_id=scope.repository_id,
                metadata_prefix=scope.metadata_prefix,
            )
            table.forget_omissions(batch.welcome)
            table.write(batch.written)
            table.note_same(batch.same)
            table.omit(batch.omitted)
            counts = self.counts + batch.counts
            imports.note_counts(session, import_id, counts)
            session.commit()
        self.counts = counts

    def _state(self) -> RunStatus:
        if self.counts["refused"]:
            return RunStatus.COMPLETED_WITH_ERRORS
        changed = any(self.counts[name] for name in _CHANGES)
        return RunStatus.COMPLETED if changed else RunStatus.NO_CHANGES

    def _end(self, import_id: int, state: RunStatus, reason: str | None) -> ImportFacts:
        with self.database.session() as session:
            imports.end_import(session, import_id, self.counts, state=state.value, reason=reason)
            session.commit()
            return imports.get_import(session, import_id)


def _chooser(session: Session, repository_id: int) -> _Chooser:
    set_id = source_settings(session, repository_id).set_id
    if set_id is None:
        return _Chooser(rules=Conditions(match=Match.ALL, conditions=()))
    chosen = set_by_id(session, set_id)
    return _Chooser(rules=chosen.rules, suffix=f" set {set_id}/{chosen.revision}")


def _converted(candidates: Sequence[Candidate], chooser: _Chooser, folder: Path) -> _Batch:
    """Read the records' files, choose, and convert."""
    batch = _Batch(counts=Counter(seen=len(candidates)))
    for candidate in candidates:
        try:
            metadata = read_metadata(folder, candidate)
        except UnreadableFileError as error:
            _omit(batch, candidate, chooser.basis(None), UNREADABLE, str(error))
            continue
        except NoMetadataError as error:
            _omit(batch, candidate, chooser.basis(None), "refused", str(error))
            continue
        _look_at(batch, candidate, metadata, chooser)
    return batch


def _look_at(batch: _Batch, candidate: Candidate, metadata: etree._Element, chooser: _Chooser) -> None:
    converter = converter_for(metadata)
    basis = chooser.basis(converter)
    if converter is None:
        _omit(batch, candidate, basis, "refused", f"no converter reads {metadata.tag!r}")
    elif chooser.rules.conditions and not chooser.rules.accepts(list(converter.fields(metadata))):
        _omit(batch, candidate, basis, "filtered", "")
    else:
        _convert(batch, candidate, converter, metadata, basis)


def _convert(
    batch: _Batch, candidate: Candidate, converter: Converter, metadata: etree._Element, basis: str
) -> None:
    record = converter.convert(metadata)
    values = values_of(record)
    contributors, identifiers = as_json(record.contributors), as_json(record.identifiers)
    digest = digest_of(values, contributors, identifiers)
    if candidate.omitted is not None:
        batch.welcome.append(candidate.key)
    file_digest = candidate.digest.hex() if candidate.digest is not None else None
    if candidate.bibliographic_id is not None and candidate.content_digest == digest:
        batch.counts["unchanged"] += 1
        batch.same.append(
            Same(
                bibliographic_id=candidate.bibliographic_id,
                file_digest=file_digest,
                basis=basis,
                datestamp=candidate.datestamp,
            )
        )
        return
    batch.counts["new" if candidate.bibliographic_id is None else "updated"] += 1
    header = {
        "identifier": candidate.identifier,
        "datestamp": candidate.datestamp,
        "format": converter.name,
        "basis": basis,
        "file_digest": file_digest,
        "content_digest": digest.hex(),
    }
    batch.written.append(
        Written(
            bibliographic_id=candidate.bibliographic_id,
            key=candidate.key,
            values=header | values,
            contributors=contributors,
            identifiers=identifiers,
        )
    )


def _omit(batch: _Batch, candidate: Candidate, basis: str, kind: str, reason: str) -> None:
    batch.counts["filtered" if kind == "filtered" else "refused"] += 1
    batch.counts["deleted"] += candidate.bibliographic_id is not None and kind != UNREADABLE
    batch.omitted.append(
        Omitted(
            identifier_key=candidate.key,
            bibliographic_id=candidate.bibliographic_id,
            file_digest=candidate.digest.hex() if candidate.digest is not None else None,
            basis=basis,
            kind=kind,
            reason=reason,
        )
    )
