"""An import: harvested records become bibliographic rows, one batch per transaction.

It may be ended at any moment: a batch is written completely or not at all, and the next import finds the
rest.
"""

import contextlib
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from harvester.bibliographic import imports
from harvester.bibliographic.batches import LEFT_OUT, Chooser, Converting, ImportBatch, Omitted
from harvester.bibliographic.candidates import (
    FIRST,
    ImportScope,
    changed_since,
    count_candidates,
    departed,
    feed_mark,
    forget,
    forget_omissions,
    has_changed_since,
    read_candidates,
    read_unreadable,
)
from harvester.bibliographic.conditions import Conditions, Match
from harvester.bibliographic.conversion_processes import convert_all, processes_for
from harvester.bibliographic.converters import Candidate, is_readable
from harvester.bibliographic.filtering_sets import set_by_id
from harvester.bibliographic.imports import ImportBusyError, ImportFacts, only_import
from harvester.bibliographic.row_writer import Table
from harvester.bibliographic.sources import after_harvest, choose_prefix, source_settings
from harvester.repositories import base_folder, get_repository
from harvester.rules.rule_limits import RuleLimits
from harvester.vocabulary import RunStatus
from oai.database import Database, is_about_a_value, make_statistics
from oai.disk import open_floor
from oai.error_translation import as_zatva_error
from oai.errors import InterruptedRunError, failure_of
from oai.failures import Failure, FailureCode
from oai.settings import Settings

_BATCH: Final = 500
_LOOKED_UP: Final = ("bibliographic_record", "bibliographic_contributor", "bibliographic_identifier")
_FORGOTTEN: Final = 5000
"""Rows deleted in one transaction."""
_CHANGES: Final = ("new", "updated", "deleted")
_MOST_CHANGED: Final = 5000
"""Changed records up to which an import after a harvest looks only at these."""
_MOST_UNREADABLE: Final = 200
"""Records without a readable file of which an import after a harvest tries the files again."""
_WHOLE_WITHIN: Final = timedelta(days=7)
"""At least so often, all records are compared."""

Progress = Callable[[Counter[str], int | None], None]
"""Called with the counts so far, and the number of records to process."""


def _no_progress(_counts: Counter[str], _expected: int | None) -> None:
    """Ignore the progress."""


@contextlib.contextmanager
def _showing_nothing() -> Iterator[Progress]:
    yield _no_progress


def run_import(
    database: Database,
    settings: Settings,
    repository_id: int,
    *,
    started_by: str,
    anew: bool = False,
    all_records: bool = True,
    on_progress: Progress = _no_progress,
    batch: int = _BATCH,
) -> ImportFacts:
    """Import what is not imported yet, and delete the rows of deleted records; commits after each batch.

    With `anew`, every record is processed again. Without `all_records`, only the records that changed since
    the last import are compared, if they are few and that import was complete. Records that a harvest changed
    meanwhile are imported by further imports; returned is the first one.

    Raises ImportBusyError while another process imports the repository's records, UsageError if there is no
    such repository, and InterruptedRunError when interrupted. An error is stored in the import's row before
    it is raised.
    """
    with database.session() as session:
        get_repository(session, repository_id)

    where: dict[str, Any] = {"database": database, "settings": settings, "repository_id": repository_id}

    def alone(**parameters: bool) -> ImportFacts:
        with only_import(database, repository_id):
            return _Work(**where, on_progress=on_progress, batch=batch).run(started_by, **parameters)

    first = last = alone(anew=anew, all_records=all_records)
    # A harvest that ended meanwhile left the import to this process. While another transaction is open, the
    # same changes are found each time, so an import that changes nothing is the last one.
    with contextlib.suppress(ImportBusyError):
        while _are_changes_left(database, last):
            last = alone(anew=False, all_records=False)
            if not any(getattr(last, name) for name in _CHANGES):
                break
    return first


@dataclass(kw_only=True)
class _Work:
    """A running import."""

    database: Database
    settings: Settings
    repository_id: int
    on_progress: Progress
    batch: int
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, started_by: str, *, anew: bool, all_records: bool) -> ImportFacts:
        with self.database.session() as session:
            repository = get_repository(session, self.repository_id)
            folder = base_folder(repository, self.settings)
            prefix = choose_prefix(session, self.repository_id, folder)
            chooser = _chooser(session, source_settings(session, self.repository_id).set_id)
            # Before the changes are read: a change that commits in between is left to the next import.
            mark = feed_mark(session)
            scope = ImportScope(
                repository_id=self.repository_id,
                metadata_prefix=prefix or "",
                bases=chooser.bases(),
                anew=anew,
                keys=None
                if all_records
                else _changed_keys(session, self.repository_id, prefix or "", chooser, folder),
            )
            import_id = imports.begin_import(
                session,
                self.repository_id,
                started_by=started_by,
                metadata_prefix=prefix,
                basis=_basis(chooser),
                whole=scope.keys is None,
                feed_mark=mark,
            )
            session.commit()
        try:
            self._all(import_id, scope, chooser, folder)
        except KeyboardInterrupt:
            interrupted = Failure(code=FailureCode.INTERRUPTED)
            self._end(import_id, RunStatus.INCOMPLETE, interrupted, "interrupted")
            words = f"interrupted after {self.counts['seen']:,} records; the next import continues there"
            raise InterruptedRunError(words) from None
        except Exception as error:
            known = as_zatva_error(error)
            reason = str(known or f"{type(error).__name__}: {error}")
            self._end(import_id, RunStatus.FAILED, failure_of(known or error), reason)
            raise
        return self._end(import_id, self._state())

    def _all(self, import_id: int, scope: ImportScope, chooser: Chooser, folder: Path) -> None:
        with self.database.session() as session:
            expected = count_candidates(session, scope)
            imports.note_counts(session, import_id, self.counts, expected=expected)
            session.commit()
        floor = open_floor(self.settings)
        self._forget(import_id, scope)
        limits = RuleLimits(seconds=self.settings.harvester.rule_seconds)
        converting = Converting(folder=folder, chooser=chooser, limits=limits)
        work = convert_all(self._pages(scope), converting, processes=processes_for(expected))
        with contextlib.closing(work) as batches:
            for batch in batches:
                floor.check()
                # The tables grow with each batch, and the next batch looks up the rows that it replaces.
                make_statistics(self.database.engine, *_LOOKED_UP)
                self._write(import_id, scope, batch)
                self.on_progress(self.counts, expected)

    def _pages(self, scope: ImportScope) -> Iterator[Sequence[Candidate]]:
        """Yield the candidates, read ahead of the writing, which only changes rows before them in order."""
        after = FIRST
        while True:
            with self.database.session() as session:
                candidates = read_candidates(session, scope, after=after, most=self.batch)
            if not candidates:
                return
            after = candidates[-1].key
            yield candidates

    def _forget(self, import_id: int, scope: ImportScope) -> None:
        with self.database.session() as reading, self.database.session() as session:
            forget_omissions(session, scope)
            session.commit()
            for numbers in departed(reading, scope, most=_FORGOTTEN):
                forget(session, numbers)
                self.counts["deleted"] += len(numbers)
                imports.note_counts(session, import_id, self.counts)
                session.commit()

    def _write(self, import_id: int, scope: ImportScope, batch: ImportBatch) -> None:
        """Write the batch and the counts in one transaction; a record that cannot be stored is omitted."""
        try:
            self._write_batch(import_id, scope, batch, singly=False)
        except DBAPIError as error:
            if not is_about_a_value(error):
                raise
            self._write_batch(import_id, scope, batch, singly=True)

    def _write_batch(self, import_id: int, scope: ImportScope, batch: ImportBatch, *, singly: bool) -> None:
        with self.database.session() as session:
            table = Table(
                session=session,
                repository_id=scope.repository_id,
                metadata_prefix=scope.metadata_prefix,
            )
            table.forget_omissions(batch.welcome)
            refused: Sequence[Omitted] = ()
            if singly:
                refused = table.write_singly(batch.rows)
            else:
                table.write(batch.rows)
            table.note_same(batch.same)
            table.omit([*batch.omitted, *refused])
            counts = self.counts + batch.counts
            for one in refused:
                is_new = one.bibliographic_id is None
                counts["new" if is_new else "updated"] -= 1
                counts.update(refused=1, deleted=not is_new)
            imports.note_counts(session, import_id, counts)
            session.commit()
        self.counts = counts

    def _state(self) -> RunStatus:
        if self.counts["refused"] > self.counts[LEFT_OUT]:
            return RunStatus.COMPLETED_WITH_ERRORS
        changed = any(self.counts[name] for name in (*_CHANGES, "refused"))
        return RunStatus.COMPLETED if changed else RunStatus.NO_CHANGES

    def _end(
        self, import_id: int, state: RunStatus, failure: Failure | None = None, reason: str | None = None
    ) -> ImportFacts:
        with self.database.session() as session:
            imports.end_import(
                session, import_id, self.counts, state=state.value, failure=failure, reason=reason
            )
            session.commit()
            return imports.get_import(session, import_id)


def _changed_keys(
    session: Session, repository_id: int, prefix: str, chooser: Chooser, folder: Path
) -> list[uuid.UUID] | None:
    """Return the records changed since the last import, and those whose files can be read again.

    None if all records have to be compared.
    """
    last = imports.last_complete(session, repository_id, prefix, _basis(chooser), whole_within=_WHOLE_WITHIN)
    if last is None:
        return None
    changed = changed_since(session, repository_id, prefix, last, most=_MOST_CHANGED)
    basis, most = chooser.basis(None), _MOST_UNREADABLE
    unreadable = read_unreadable(session, repository_id, prefix, basis=basis, most=most)
    restored = [one.key for one in unreadable if is_readable(folder, one)]
    if changed is None or len(restored) == most:
        return None
    return list({*changed, *restored})


def _are_changes_left(database: Database, done: ImportFacts) -> bool:
    with database.session() as session:
        mark = imports.mark_of(session, done.import_id)
        return mark is not None and has_changed_since(session, done.repository_id, mark)


def _basis(chooser: Chooser) -> str:
    return ", ".join(chooser.bases())


def _chooser(session: Session, set_id: int | None) -> Chooser:
    if set_id is None:
        return Chooser(rules=Conditions(match=Match.ALL, conditions=()))
    chosen = set_by_id(session, set_id)
    return Chooser(rules=chosen.rules, suffix=f" set {set_id}/{chosen.revision}")


_log = logging.getLogger("harvester.bibliographic.following")
STARTER: Final = "harvest"


def is_import_due(database: Database, settings: Settings, repository_id: int) -> bool:
    """Return whether records changed since the last import, and the settings allow imports after harvests."""
    if not settings.harvester.import_after_harvest:
        return False
    with database.session() as session:
        folder = base_folder(get_repository(session, repository_id), settings)
        following = after_harvest(session, repository_id, folder)
        if following is None:
            return False
        chooser = _chooser(session, following.set_id)
        return _changed_keys(session, repository_id, following.prefix, chooser, folder) != []


def import_after_harvest(
    database: Database,
    settings: Settings,
    repository_id: int,
    showing: Callable[[], contextlib.AbstractContextManager[Progress]] = _showing_nothing,
    *,
    started_by: str = STARTER,
) -> None:
    """Import the records that a harvest or the release of a held run changed, if an import is due.

    `showing` shows the progress while the import runs. Errors are in the import's row and in the log: the
    harvest's result is unaffected, and the next import finds what is left.
    """
    if not is_import_due(database, settings, repository_id):
        return  # Most harvests change nothing, and would fill the list of imports.
    try:
        with showing() as on_progress:
            done = run_import(
                database,
                settings,
                repository_id,
                started_by=started_by,
                all_records=False,
                on_progress=on_progress,
            )
    except ImportBusyError:
        words = "repository %d is being imported; the changes of this harvest are imported after that"
        _log.info(words, repository_id)
    except Exception as error:  # noqa: BLE001 the harvest was successful, and its result must be reported
        _log_early_end(repository_id, error, settings)
    else:
        _log.debug(
            "import %d: %d new, %d updated, %d deleted", done.import_id, done.new, done.updated, done.deleted
        )


def _log_early_end(repository_id: int, error: Exception, settings: Settings) -> None:
    known = as_zatva_error(error, settings)
    # A traceback may contain statements and values.
    _log.error(
        "the import after the harvest of repository %d ended early: %s",
        repository_id, known or type(error).__name__, exc_info=None if known else error,
    )  # fmt: skip
    _log.debug("where the import ended", exc_info=error)
