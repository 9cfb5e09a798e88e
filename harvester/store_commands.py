"""What `zatva store` does."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester import repositories
from harvester.models import Repository
from harvester.running.locks import is_held, only_harvest
from harvester.running.outcome import get_history
from harvester.store.auditing import Audit, Auditor, Finding
from harvester.store.exporting import Exported, Form, export
from harvester.store.models import RecordChange
from harvester.store.rebuilding import Rebuilder, Rebuilt
from harvester.store.records import RunKey
from harvester.store.unfinished import ENDING
from oai.cli import Invocation
from oai.console import Console, checked_output, counted
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError


def verify(invocation: Invocation) -> ExitCode:
    """Compare files with rows, of one repository or of all; what is wrong is printed as it is found."""
    arguments = invocation.arguments
    with open_database(invocation.settings) as database:
        with database.session() as session:
            chosen = (
                repositories.list_repositories(session)
                if arguments.repository is None
                else [repositories.get_repository(session, arguments.repository)]
            )
            folders = {
                one.repository_id: repositories.base_folder(one, invocation.settings) for one in chosen
            }
            others = _others(session, invocation)
        audits = []
        for repository_id, folder in folders.items():
            with _alone(database, repository_id, wanted=arguments.repair):
                audits.append(_audited(invocation, database, repository_id, folder, others - {str(folder)}))
    return ExitCode.DONE if all(audit.clean for audit in audits) else ExitCode.RECORDS_REFUSED


def rebuild(invocation: Invocation) -> ExitCode:
    """Make the rows of a repository say what its files say."""
    with open_database(invocation.settings) as database:
        with database.session() as session:
            repository = _named(session, invocation)
            session.commit()
            repository_id = repository.repository_id
            folder = repositories.base_folder(repository, invocation.settings)
            prefix = repository.plain_prefix or invocation.arguments.format
            others = _others(session, invocation) - {str(folder)}
        with only_harvest(database, repository_id), invocation.console.progress("rebuild") as advance:
            rebuilt = Rebuilder(
                database=database,
                repository_id=repository_id,
                folder=folder,
                plain_prefix=prefix,
                skip=others,
                on_refused=lambda path, reason: invocation.console.note(f"skipped {path}: {reason}"),
                on_progress=advance,
            ).run()
    invocation.console.result({"repository_id": repository_id, **asdict(rebuilt)}, _rebuilt_words(rebuilt))
    return ExitCode.RECORDS_REFUSED if rebuilt.refused or rebuilt.dropped else ExitCode.DONE


def export_records(invocation: Invocation) -> ExitCode:
    """Write the records of a repository, or those that a run changed, into one file or to standard output."""
    arguments = invocation.arguments
    if (arguments.repository is None) == (arguments.run is None):
        raise UsageError(
            "no records selected; give the number of a repository, or --run with the number of a "
            "run from `zatva job history`"
        )
    with open_database(invocation.settings) as database, database.session() as session:
        run = None
        repository_id = arguments.repository
        if arguments.run is not None:
            repository_id, run = run_of(session, arguments.run)
        repository = repositories.get_repository(session, repository_id)
        write = partial(
            export,
            session,
            form=Form(arguments.form),
            repository_id=repository_id,
            folder=repositories.base_folder(repository, invocation.settings),
            run=run,
            on_missing=lambda name: invocation.console.note(f"skipped {name}: missing or altered"),
        )
        with _output(arguments.out) as out:
            exported = write(out)
    _tell_export(invocation, exported)
    return ExitCode.RECORDS_REFUSED if exported.missing else ExitCode.DONE


def run_of(session: Session, history_id: int) -> tuple[int, RunKey]:
    """The repository and the run of a row in `oai_history`.

    Raises UsageError where there is none, or its changes are not kept any more.
    """
    row = get_history(session, history_id)
    made = row.new_count + row.updated_count + row.deleted_count
    if row.harvest_id is None or row.run_started is None:
        if made:
            raise UsageError(f"the changes of run {history_id} are unknown: it was made by an older version")
        return row.repository_id, RunKey(harvest_id=0, run_started=row.harvest_start_time)
    run = RunKey(harvest_id=row.harvest_id, run_started=row.run_started)
    kept = select(RecordChange.change_id).filter_by(harvest_id=run.harvest_id, run_started=run.run_started)
    if made and session.scalars(kept.limit(1)).first() is None:
        raise UsageError(
            f"the changes of run {history_id} are no longer kept (see setting "
            "harvester.keep_changes); to export all records, use `zatva store export REPOSITORY`"
        )
    return row.repository_id, run


def _others(session: Session, invocation: Invocation) -> set[str]:
    """The folders of all repositories: one may lie below another's."""
    return {
        os.fspath(repositories.base_folder(one, invocation.settings))
        for one in repositories.list_repositories(session)
    }


@contextmanager
def _alone(database: Database, repository_id: int, *, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with only_harvest(database, repository_id):
        yield


def _audited(
    invocation: Invocation, database: Database, repository_id: int, folder: Path, others: set[str]
) -> Audit:
    console = invocation.console
    with console.progress(f"verify {repository_id}") as advance:
        auditor = Auditor(
            database=database,
            repository_id=repository_id,
            folder=folder,
            skip=others,
            repair=invocation.arguments.repair,
            busy=lambda: not invocation.arguments.repair and is_held(database, repository_id),
            on_finding=partial(_tell_finding, console, repository_id),
            on_progress=advance,
        )
        audit = auditor.run()
    found = f"{audit.missing:,} missing, {audit.altered:,} altered, {audit.stray:,} stray"
    repaired = f" ({audit.repaired:,} of them removed)" if audit.repaired else ""
    words = f"repository {repository_id}: {counted(audit.files, 'file')}; {found}{repaired}"
    console.result({**asdict(audit), "clean": audit.clean}, words)
    return audit


def _tell_finding(console: Console, repository_id: int, finding: Finding) -> None:
    facts = {"repository_id": repository_id, **asdict(finding), "kind": finding.kind.value}
    what = "unfinished" if finding.unfinished else finding.kind.value
    console.result(facts, f"{what}: {finding.path}{', removed' if finding.removed else ''}")


def _named(session: Session, invocation: Invocation) -> Repository:
    """The repository of the given number, or with the given folder; made where only its files are left."""
    arguments = invocation.arguments
    if (arguments.repository is None) == (arguments.dir is None):
        raise UsageError("no repository given; give its number, or --dir with its folder")
    if arguments.repository is not None:
        return repositories.get_repository(session, arguments.repository)
    folder = os.path.abspath(arguments.dir)  # noqa: PTH100 Path.absolute keeps `..`
    known: Sequence[Repository] = [
        one
        for one in repositories.list_repositories(session)
        if os.fspath(repositories.base_folder(one, invocation.settings)) == folder
    ]
    if known:
        return known[0]
    if arguments.url is None:
        raise UsageError(
            f"no repository has the folder {folder}; to create one, give its base URL with --url"
        )
    repository = repositories.add_repository(session, base_url=arguments.url, base_dir=folder)
    repository.plain_prefix = arguments.format
    return repository


def _rebuilt_words(rebuilt: Rebuilt) -> str:
    words = (
        f"{rebuilt.files:,} record files; rows: {rebuilt.kept:,} kept, {rebuilt.added:,} added, "
        f"{rebuilt.changed:,} changed, {rebuilt.dropped:,} dropped; {rebuilt.refused:,} files "
        "skipped"
    )
    if rebuilt.begins_anew:
        words += "\nThe next harvest requests all records."
    return words


@contextmanager
def _output(name: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or the file, which gets its name when it is whole; a pipe or a device as it is."""
    if name is None:
        if sys.stdout.isatty():
            raise UsageError("an export cannot be written to a terminal; give --out FILE, or use a pipe")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    name = checked_output(name)
    if name.exists() and not name.is_file():
        # A pipe or a device, /dev/null for one, stays what it is.
        with name.open("wb") as file:
            yield file
        return
    unfinished = name.with_name(name.name + ENDING)
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(name)
    finally:
        unfinished.unlink(missing_ok=True)


def _tell_export(invocation: Invocation, exported: Exported) -> None:
    had = f"{counted(exported.records, 'record')}, {counted(exported.files, 'file')}"
    words = f"{had}; {exported.missing:,} missing or altered"
    if invocation.arguments.out is None:
        invocation.console.note(words)
    else:
        facts: dict[str, Any] = {**asdict(exported), "out": str(invocation.arguments.out)}
        invocation.console.result(facts, words)
